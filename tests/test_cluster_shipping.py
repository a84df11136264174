# SPDX-License-Identifier: AGPL-3.0-or-later
"""What travels between trainer and actors, and the command line of a cluster; needs no Ray."""

from __future__ import annotations

import pickle
import socket
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from azcaffe.cli.common import NetFiles
from azcaffe.cli.main import main
from azcaffe.cluster import shipping
from azcaffe.cluster.shipping import Store, local_copy, pack_results, unpack, unpack_results
from azcaffe.games.registry import make_game
from azcaffe.jobs import PlayJob, PlayStats
from azcaffe.search import SearchConfig
from azcaffe.selfplay import PlayedGame, Samples, SelfPlayConfig, play_games
from tests.helpers.stub_net import StubNet


def games(name: str = "tictactoe", **size: int) -> list[PlayedGame]:
    game = make_game(name, **size)
    return list(play_games(game, StubNet(game), SearchConfig(simulations=5), SelfPlayConfig(), 3, range(40, 46), 7))


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(a, PlayedGame):
            assert a == b
            continue
        assert (a.game_id, a.actions, a.winner) == (b.game_id, b.actions, b.winner)
        for field in fields(Samples):
            x, y = getattr(a.samples, field.name), getattr(b.samples, field.name)
            assert x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y), field.name


@pytest.mark.parametrize(("name", "size"), [
    ("tictactoe", {"height": 3, "width": 3, "connect": 3}), ("connectn", {"height": 6, "width": 7, "connect": 4}),
    ("tictactoe", {"height": 6, "width": 6, "connect": 4, "history": 3}),
])  # fmt: skip
def test_results_come_back_exactly(name: str, size: dict[str, int]) -> None:
    played = games(name, **size)
    results = [*played[:4], PlayStats(10, 0.5, 3, 4), *played[4:], "words"]
    assert_same(results, list(unpack_results(pack_results(results))))
    empty = replace(played[0], samples=played[0].samples.take(np.zeros(0, np.intp)))  # all its searches were brief
    assert_same([empty], [replace(game, samples=game.samples) for game in unpack_results(pack_results([empty]))])
    assert list(unpack_results(pack_results([]))) == []


def test_results_are_compact() -> None:
    played = games("tictactoe", height=6, width=6, connect=4)
    assert len(pack_results(played)) < 0.35 * len(pickle.dumps(played, protocol=5))


class Shelf:
    """An object store."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}

    def put(self, value: Any) -> int:
        self.values[len(self.values)] = value
        return len(self.values) - 1


def test_weights_are_put_once_and_dropped_with_their_last_job() -> None:
    shelf = Shelf()
    store = Store(shelf.put)
    weights = {"conv": [np.ones((2, 3)), np.zeros(2)], "value": [np.ones(4)]}
    first, second = store.pack(PlayJob((0, 1), 0, weights)), store.pack(PlayJob((2, 3), 0, weights))
    other = store.pack(PlayJob((4, 5), 1, {name: [blob * 2 for blob in blobs] for name, blobs in weights.items()}))
    assert (store.puts, len(store)) == (2, 2)
    assert len(first.content) < 400
    references = store.references(second)
    job = unpack(second.content, references, shelf.values.__getitem__)
    assert job.game_ids == (2, 3) and job.weights is weights
    store.release(first)
    assert len(store) == 2
    store.release(second)
    store.release(other)
    assert len(store) == 0
    rollouts = store.pack(PlayJob((0,), 0, None))
    assert not rollouts.keys and unpack(rollouts.content, {}, shelf.values.__getitem__).weights is None


def test_files_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping.tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    model, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    model.write_text("name: 'net'")
    weights.write_bytes(b"\0weights")
    shelf = Shelf()
    store = Store(shelf.put)
    parcel = store.pack(NetFiles(model, weights))
    assert store.puts == 2
    same = unpack(parcel.content, store.references(parcel), shelf.values.__getitem__)
    assert same == NetFiles(model, weights)  # the same machine, or a shared folder: nothing is copied
    model.unlink()
    weights.write_bytes(b"other weights")
    for _ in range(2):  # another machine, which lacks one and has another file by the other's name
        there = unpack(parcel.content, store.references(parcel), shelf.values.__getitem__)
        assert there.model.read_text() == "name: 'net'" and there.weights.read_bytes() == b"\0weights"
        assert there.name == "net"
        assert there.model.is_relative_to(tmp_path / "temporary")
        shelf.values.clear()  # the second time the copies are there
    assert oct(next((tmp_path / "temporary").iterdir()).stat().st_mode & 0o777) == "0o700"


def test_a_damaged_copy_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping.tempfile, "tempdir", str(tmp_path))
    digest = shipping.hashlib.sha256(b"right").hexdigest()
    copy = local_copy(tmp_path / "a.txt", digest, lambda: b"right")
    copy.write_bytes(b"half")
    assert local_copy(tmp_path / "a.txt", digest, lambda: b"right").read_bytes() == b"right"


@pytest.mark.parametrize(("words", "message"), [
    (("--cluster", "somewhere"), "--cluster is auto, local or HOST:PORT, not 'somewhere'"),
    (("--cluster", "host:99999"), "--cluster is auto, local or HOST:PORT"),
    (("--cluster", "local", "--workers", "2"), "with --cluster it is --actors"),
    (("--cluster", "local", "--actors", "0"), "--actors must be 1"),
    (("--actors", "2"), "give --cluster too"),
])  # fmt: skip
@pytest.mark.parametrize("command", [("train",), ("test", "--test-mode", "Random"), ("rate", "random", "mcts:5")])
def test_mistakes_are_one_line(
    command: tuple[str, ...], words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--board-size=3", *words]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_no_ray_and_no_cluster_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = ["rate", "random", "mcts:5", "--board-size=3", "--games=2", "--quiet", "--cluster"]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        assert main([*rate, "local"]) == 2
        assert capsys.readouterr().err == "azcaffe: --cluster needs Ray: pip install 'azcaffe[cluster]'\n"
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'azcaffe[cluster]'")
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert main([*rate, f"127.0.0.1:{port}"]) == 2
    assert f"no Ray cluster at 127.0.0.1:{port}: " in capsys.readouterr().err
