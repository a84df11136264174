# SPDX-License-Identifier: AGPL-3.0-or-later
"""The replay buffer against plain lists, and what a damaged file may do (R22)."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import azcaffe.replay
from azcaffe.errors import ConfigError
from azcaffe.games.registry import make_game
from azcaffe.replay import ReplayBuffer, ReplayError, load_samples, save_samples
from azcaffe.selfplay import Samples, empty_samples, join_samples

GAME = make_game("tictactoe", height=3, width=3, connect=3)


def game_of(plies: int, game_id: int, generation: int = 0) -> Samples:
    """A made-up game whose every position can be told apart."""
    rng = np.random.default_rng([game_id, plies])
    samples = empty_samples(GAME, plies)
    samples.board[:] = rng.integers(-1, 2, samples.board.shape)
    samples.to_move[:] = np.where(np.arange(plies) % 2, -1, 1)
    samples.visits[:] = rng.integers(1, 400, samples.visits.shape)
    samples.value[:] = samples.to_move
    samples.game_id[:] = game_id
    samples.generation[:] = generation
    return samples


def same(a: Samples, b: Samples) -> bool:
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Samples))


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 30) | st.none(), st.integers(1, 6) | st.none())
@settings(max_examples=60, deadline=None)
def test_holds_what_a_list_would_hold(lengths: list[int], max_positions: int | None, max_games: int | None) -> None:
    if max_positions is None and max_games is None:
        return
    buffer = ReplayBuffer(GAME, max_positions, max_games)
    held: list[tuple[int, int]] = []  # (game, ply): the specification
    for game_id, plies in enumerate(lengths):
        buffer.append(game_of(plies, game_id))
        held += [(game_id, ply) for ply in range(plies)]
        if max_positions is not None:
            held = held[-max_positions:]
        if max_games is not None:
            held = [(g, ply) for g, ply in held if g > game_id - max_games]
    expected = [game_of(lengths[g], g).take(np.array([ply])) for g, ply in held]
    contents = buffer.contents()
    assert len(buffer) == len(held)
    assert all(same(contents.take(np.array([i])), one) for i, one in enumerate(expected))
    assert (buffer.total_games, buffer.total_positions) == (len(lengths), sum(lengths))


def test_r22_restores_the_totals_and_not_only_what_fits(tmp_path: Path) -> None:
    buffer = ReplayBuffer(GAME, 50)
    for game_id in range(60):
        buffer.append(game_of(1, game_id))
    buffer.save(tmp_path / "replay.npz")
    restored = ReplayBuffer.load(tmp_path / "replay.npz", GAME)
    assert (len(restored), restored.games, restored.total_games, restored.total_positions) == (50, 50, 60, 60)
    assert same(restored.contents(), buffer.contents())
    for one in (buffer, restored):  # and both go on alike
        one.append(game_of(7, 60))
    assert same(restored.contents(), buffer.contents())
    draws = [one.sample(np.random.default_rng(3), 20) for one in (buffer, restored)]
    assert same(*draws)


def test_another_limit_keeps_the_newest(tmp_path: Path) -> None:
    buffer = ReplayBuffer(GAME, 50)
    for game_id in range(10):
        buffer.append(game_of(5, game_id))
    buffer.save(tmp_path / "replay.npz")
    smaller = ReplayBuffer.load(tmp_path / "replay.npz", GAME, max_positions=12)
    assert same(smaller.contents(), buffer.contents().take(np.arange(38, 50)))
    assert smaller.total_positions == 50


def test_draws_uniformly_from_all_or_the_newest_generations() -> None:
    buffer = ReplayBuffer(GAME, 40)
    for game_id in range(10):
        buffer.append(game_of(5, game_id, generation=game_id // 3))  # ends as 0 (dropped in part) 1 1 1 2 2 2 3
    drawn = buffer.sample(np.random.default_rng(1), 40_000)
    counts = np.bincount(drawn.game_id, minlength=10)
    assert counts[:2].sum() == 0  # 50 positions, room for 40
    # 8 games, 1/8 each: standard deviation sqrt(40000/8 * 7/8) = 66
    assert np.all(np.abs(counts[2:] - 5000) < 5 * 66)
    assert set(buffer.sample(np.random.default_rng(1), 500, newest_generations=1).generation) == {3}
    assert set(buffer.sample(np.random.default_rng(1), 500, newest_generations=2).generation) == {2, 3}
    assert set(buffer.sample(np.random.default_rng(1), 500, newest_generations=99).generation) == {0, 1, 2, 3}


def test_policy_is_visits_over_their_sum() -> None:
    samples = game_of(1, 0)
    samples.visits[0] = [1, 3, 0, 0, 0, 0, 0, 0, 4]
    assert samples.policy().tolist() == [[0.125, 0.375, 0, 0, 0, 0, 0, 0, 0.5]]
    assert samples.policy().dtype == np.float32


def test_refuses_impossible_limits_and_empty_draws() -> None:
    with pytest.raises(ConfigError, match="limit"):
        ReplayBuffer(GAME, None, None)
    with pytest.raises(ConfigError, match="at least 1, not 0"):
        ReplayBuffer(GAME, 0)
    with pytest.raises(ReplayError, match="empty"):
        ReplayBuffer(GAME).sample(np.random.default_rng(0), 1)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    buffer = ReplayBuffer(GAME, 100)
    for game_id in range(12):
        buffer.append(game_of(6, game_id))
    buffer.save(tmp_path / "replay.npz")
    return tmp_path / "replay.npz"


def test_another_game_is_refused(saved: Path) -> None:
    with pytest.raises(ReplayError, match=r"tictactoe\(height=3,width=3,connect=3\).*not of tictactoe\(height=4"):
        ReplayBuffer.load(saved, make_game("tictactoe", height=4, width=4, connect=4))
    with pytest.raises(ReplayError, match="past boards"):
        ReplayBuffer.load(saved, GAME.with_history(2))


def test_files_of_version_1_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They held values as int8; a run begun with them goes on."""
    games = [game_of(6, game_id) for game_id in range(3)]
    columns = join_samples(games)
    old = replace(columns, value=columns.value.astype(np.int8))
    with monkeypatch.context() as patch:
        patch.setattr(azcaffe.replay, "VERSION", 1)
        save_samples(tmp_path / "old.npz", GAME, old, {})
    loaded, _ = load_samples(tmp_path / "old.npz", GAME)
    assert same(loaded, columns)
    assert loaded.value.dtype == np.float32
    save_samples(tmp_path / "wrong.npz", GAME, old, {})  # int8 values in a file that says version 2
    with pytest.raises(ReplayError, match="column value"):
        load_samples(tmp_path / "wrong.npz", GAME)


def test_every_truncation_is_reported(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in [0, 1, 3, *range(100, len(whole), 97), len(whole) - 1]:
        saved.write_bytes(whole[:length])
        with pytest.raises(ReplayError, match=r"damaged|not a replay file"):
            ReplayBuffer.load(saved, GAME)


def test_every_flipped_byte_of_data_is_reported(saved: Path) -> None:
    whole = saved.read_bytes()
    for place in range(0, len(whole), 53):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            loaded = ReplayBuffer.load(saved, GAME)
        except ReplayError:
            continue
        assert len(loaded) == 72  # a byte that means nothing, such as a date in the zip directory


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="no such"):
        ReplayBuffer.load(tmp_path / "none.npz", GAME)
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "text.npz").write_text("<html>not found</html>")
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for name in ("other.npz", "text.npz", "pickle.npy"):
        with pytest.raises(ReplayError):
            ReplayBuffer.load(tmp_path / name, GAME)
    with pytest.raises(ReplayError, match="cannot be read"):
        ReplayBuffer.load(tmp_path, GAME)


def test_a_game_without_samples_counts_as_a_game() -> None:
    buffer = ReplayBuffer(GAME, 10)
    buffer.append(game_of(0, 0))
    buffer.append(replace(game_of(3, 1)))
    assert (len(buffer), buffer.total_games) == (3, 2)


def test_memory_of_the_published_buffer() -> None:
    """10,000 positions of 6x6: 36 + 72 + 1 + 4 + 8 + 4 bytes each, where float planes and policy alone would be 576."""
    game = make_game("tictactoe", height=6, width=6, connect=4)
    columns = empty_samples(game, 10_000)
    assert sum(getattr(columns, f.name).nbytes for f in fields(Samples)) == 10_000 * 125
