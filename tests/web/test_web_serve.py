# SPDX-License-Identifier: AGPL-3.0-or-later
"""`azcaffe serve`: the nets it offers, one line for every mistake, and a real server that plays and stops."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the page needs FastAPI (extra web)")

from azcaffe.cli.main import main
from azcaffe.errors import AzcaffeError
from azcaffe.games import parse_game
from azcaffe.network import ModelError, NetEvaluator, NetSpec, read_model, save_weights, write_net
from azcaffe.web.nets import guess_game, offer_net
from tests.helpers.waiting import PATIENCE
from tests.web.client import Client

MODELS = Path(__file__).resolve().parents[2] / "models"
SMALL = "tictactoe(height=3,width=3,connect=3)"


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of a small random net for 3x3, its prototxt beside it."""
    folder = tmp_path_factory.mktemp("nets")
    write_net(NetSpec(3, 3, 9, blocks=1, channels=4), folder / "small.prototxt")
    rng = np.random.default_rng(0)
    shapes = read_model(folder / "small.prototxt").params
    weights = {name: [rng.normal(0, 0.3, s).astype(np.float32) for s in layer or []] for name, layer in shapes.items()}
    save_weights(folder / "small.caffemodel", weights)
    return folder / "small.caffemodel"


@pytest.mark.parametrize(
    ("file", "game"),
    [
        ("net_tic_tac_6_4_2_res_block", "tictactoe(height=6,width=6,connect=4)"),
        ("net_tic_tac_3_3_2_res_block", SMALL),
        ("net_connect_6_7_4_2_res_block", "connectn(height=6,width=7,connect=4)"),
    ],
)
def test_the_game_of_a_shipped_net_is_known_by_its_file(file: str, game: str) -> None:
    """The published names: board size, then how many in a row (`6_4`); Connect: rows, columns, in a row (`6_7_4`)."""
    assert guess_game(read_model(MODELS / f"{file}.prototxt"), file) == game


def test_other_nets_are_known_by_their_shape(tmp_path: Path) -> None:
    for spec, game in (
        (NetSpec(8, 8, 65), "othello(size=8)"),
        (NetSpec(5, 5, 25), "tictactoe(height=5,width=5,connect=4)"),
        (NetSpec(3, 5, 15), "tictactoe(height=3,width=5,connect=4)"),
    ):
        write_net(spec, tmp_path / "mine.prototxt")
        assert guess_game(read_model(tmp_path / "mine.prototxt"), "mine") == game
    write_net(NetSpec(5, 5, 12), tmp_path / "mine.prototxt")
    with pytest.raises(AzcaffeError, match="name the game"):
        guess_game(read_model(tmp_path / "mine.prototxt"), "mine")


def test_an_offered_net_evaluates_as_the_net_itself(net: Path) -> None:
    offer = offer_net("0", net.with_suffix(".prototxt"), net)
    game = parse_game(SMALL)
    assert (offer.game, offer.title, offer.policy) == (SMALL, "small", True)
    state, slots = game.initial(1), np.zeros(1, np.intp)
    priors, values = offer.source.open(game)(state, slots)
    own_priors, own_values = NetEvaluator(game, net.with_suffix(".prototxt"), net)(state, slots)
    np.testing.assert_allclose(priors, own_priors, atol=1e-6)
    np.testing.assert_allclose(values, own_values, atol=1e-6)


def test_weights_of_another_net_are_refused_before_anything_is_served(net: Path) -> None:
    with pytest.raises(ModelError, match="does not fit"):
        offer_net("0", MODELS / "net_tic_tac_3_3_2_res_block.prototxt", net)


def test_mistakes_are_one_line(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.caffemodel"
    broken.write_bytes(net.read_bytes()[:100])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for words, says in (
            (["--net", str(tmp_path / "none.caffemodel")], "does not exist"),
            (["--net", "othello"], "FILE.caffemodel"),
            (["--net", str(net), str(net)], "FILE.caffemodel"),
            (["--net", str(net), "othello(size=8)"], "does not fit"),
            (["--net", str(broken), str(net.with_suffix(".prototxt"))], "broken"),
            (["--runs", str(tmp_path / "none")], "no such folder"),
            (["--game", "chess"], "unknown game"),
            (["--port", "70000"], "65,535"),
            (["--net", str(net), "--port", str(taken.getsockname()[1])], "cannot listen"),
        ):
            assert main(["serve", *words]) == 2, words
            captured = capsys.readouterr()
            assert captured.out == ""
            assert captured.err.count("\n") == 1 and says in captured.err, captured.err


@pytest.fixture(scope="module")
def server(net: Path, run_folder: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The command in a process of its own."""
    words = [sys.executable, "-m", "azcaffe", "serve", "--port", "0", "--net", str(net), "--runs", str(run_folder)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    url = process.stdout.readline()
    assert url.startswith("http://127.0.0.1:"), process.communicate(timeout=PATIENCE)
    yield int(url.rstrip("/\n").rpartition(":")[2]), process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_a_real_net_plays_and_the_server_stops_when_told(server: tuple[int, subprocess.Popen[str]]) -> None:
    port, process = server

    def play(results: list[int]) -> None:
        client = Client(port)
        game = client.post("/api/games", game=SMALL, net="0", human="none").body
        while not game["over"]:
            ply = len(game["positions"]) - 1
            game = client.post(f"/api/games/{game['id']}/reply", ply=ply, simulations=40, variety=True).body["game"]
        results.append(game["winner"])
        client.close()

    results: list[int] = []
    threads = [threading.Thread(target=play, args=(results,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(results) == 8
    client = Client(port)
    assert client.get("/api/runs").body[0]["title"] == "toy"
    assert client.get("/").status == 200
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert out == ""
    assert "Traceback" not in err
    assert process.returncode in (0, 130)
