# SPDX-License-Identifier: AGPL-3.0-or-later
"""The training loop with a NumPy solver: the published schedule, and stop + resume = not stopped."""

from __future__ import annotations

import json
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from azcaffe import baselines
from azcaffe.checkpoint import CheckpointError, latest_checkpoint
from azcaffe.encoding import Encoding, encode
from azcaffe.errors import AzcaffeError, ConfigError
from azcaffe.games.base import Game
from azcaffe.games.registry import make_game
from azcaffe.jobs import WorkerSetup
from azcaffe.replay import ReplayError
from azcaffe.search import SearchConfig
from azcaffe.selfplay import Samples, SelfPlayConfig, play_games
from azcaffe.trainconfig import RunFolder, TrainConfig
from azcaffe.training import SOLVER_STEM, Trainer, sample_planes, turned
from tests.helpers.stub_net import StubNet
from tests.helpers.stub_solver import LinearNet, LinearSolver, stub_match

GAME = make_game("tictactoe", height=3, width=3, connect=3)
SMALL = TrainConfig(
    games=40, batch_size=8, max_positions=150, games_per_round=8, lockstep=4, lag=2, num_test=4, num_test_previous=4,
    simulations=8, seed=11,
)  # fmt: skip


class Quiet:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def progress(self, games: int, iteration: int, losses: Any) -> None:
        pass


def trainer(
    folder: Path, config: TrainConfig = SMALL, resume: bool = False, game: Game = GAME, **extra: Any
) -> Trainer:
    setup = WorkerSetup(
        game,
        LinearNet,
        SearchConfig(simulations=8, noise_epsilon=0.25),
        SelfPlayConfig(),
        config.seed,
        1000,
        stub_match,
    )
    found = latest_checkpoint(folder / "checkpoints") if resume else None
    solver = LinearSolver(game, found.path / f"{SOLVER_STEM}.npz" if found else None)
    run = RunFolder(folder)
    return Trainer(game, Encoding(), solver, setup, config, run, extra.pop("reporter", Quiet()), found, **extra)


def never() -> bool:
    return False


class StopAfter:
    """True from the n-th time it is asked."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def outcome(run: Trainer) -> dict[str, Any]:
    """Everything that two equal runs must agree on."""
    lines = [json.loads(line) for line in run.folder.metrics.read_text().splitlines()]
    matches = {
        (m["snapshot"], m["opponent"]): (m["wins"], m.get("opponent_simulations"))
        for m in lines
        if m["kind"] == "match"
    }
    contents = run.replay.contents()
    log = [line.split(";")[:5] for line in run.folder.log.read_text().splitlines()]  # a match may end a line later
    return {
        "weights": [blob.tobytes() for blobs in run.solver.weights().values() for blob in blobs],
        "replay": [getattr(contents, field.name).tobytes() for field in fields(Samples)],
        "totals": (run.replay.total_games, run.replay.total_positions, run.solver.iteration),
        "rng": run.rng.bit_generator.state,
        "log": log,
        "games": run.folder.games.read_text(),
        "matches": matches,
    }


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    run = trainer(tmp_path_factory.mktemp("run"))
    assert run.run(1, never)
    return run


def test_the_published_schedule(unbroken: Trainer) -> None:
    # No step before 5 batches are in the buffer, then 10 a game (REFERENCE, "Training of the original").
    contents = unbroken.replay.total_positions
    assert unbroken.replay.total_games == 40 and contents > 5 * 8
    games_before = 40 - unbroken.solver.iteration // 10
    assert unbroken.solver.iteration % 10 == 0
    # Games take 5 to 9 plies, so 40 positions are there after 5 to 8 games, and that game's steps are made.
    assert 4 <= games_before <= 7
    assert set(unbroken.solver.batches) == {8}
    assert len(unbroken.replay) == 150
    log = unbroken.folder.log.read_text().splitlines()
    assert [int(line.split(";")[0]) for line in log[1:]] == list(range(20, unbroken.solver.iteration + 1, 20))
    names = {path.name for path in unbroken.folder.weights.iterdir()}
    expected = {*range(50, unbroken.solver.iteration, 50), unbroken.solver.iteration}
    assert names == {f"net_iter_{i}.caffemodel" for i in expected}


def test_rounds_use_the_weights_of_the_schedule(unbroken: Trainer) -> None:
    # Rounds of 8 games, lag 2: rounds 0, 1, 2 by generation 0, round 3 by what training on round 0 gave, and so on.
    contents = unbroken.replay.contents()
    assert np.array_equal(contents.generation, np.maximum(0, contents.game_id // 8 - 2))


def test_the_opponent_rises_as_published(unbroken: Trainer) -> None:
    lines = [json.loads(line) for line in unbroken.folder.metrics.read_text().splitlines()]
    matches = [line for line in lines if line["kind"] == "match" and line["opponent"] == "rollout"]
    level = 8
    for match in matches:  # score 0.9 or more: 8 playouts more, 80 at most
        assert match["opponent_simulations"] == level
        assert match["verdict"] == (
            "better" if match["score"] >= 0.55 else "as good" if match["score"] >= 0.45 else "weaker"
        )
        level = min(80, level + 8) if match["score"] >= 0.9 else level
    assert level >= 3 * 8  # the stub lets the net win the first matches
    previous = [line for line in lines if line["kind"] == "match" and line["opponent"] == "previous"]
    assert {m["snapshot"] - m["opponent_snapshot"] for m in previous} == {50}
    assert len(previous) == len(matches) - 1


def test_training_waits_for_matches_and_nothing_else_changes(
    unbroken: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "MOST_WAITING", 0)
    run = trainer(tmp_path)
    assert run.run(2, never)
    lines = [json.loads(line) for line in run.folder.metrics.read_text().splitlines()]
    matches = [line for line in lines if line["kind"] == "match"]
    assert len(matches) > 5
    assert all(match["iteration"] == match["snapshot"] for match in matches)
    assert outcome(run) == outcome(unbroken)


def test_workers_do_not_change_the_result(unbroken: Trainer, tmp_path: Path) -> None:
    two = trainer(tmp_path)
    assert two.run(2, never)
    assert outcome(two) == outcome(unbroken)


@pytest.mark.parametrize("asked", [1, 30, 161, 333])
def test_stopped_and_resumed_is_not_stopped(unbroken: Trainer, tmp_path: Path, asked: int) -> None:
    stopped = 0
    run = trainer(tmp_path)
    finished = run.run(1, StopAfter(asked))
    while not finished:
        stopped += 1
        run = trainer(tmp_path, resume=True)
        finished = run.run(1, StopAfter(asked) if stopped < 3 else never)
    assert stopped >= 1
    assert outcome(run) == outcome(unbroken)


def test_a_checkpoint_period_is_all_that_a_crash_costs(unbroken: Trainer, tmp_path: Path) -> None:
    """The run breaks off at iteration 137 without a word; going on from the checkpoint at 130 ends in the same."""
    config = replace(SMALL, checkpoint_every=10)
    run = trainer(tmp_path, config)

    class Crash(Exception):
        pass

    step = run.solver.step

    def breaking(*args: Any) -> Any:
        if run.solver.iteration == 137:
            raise Crash
        return step(*args)

    run.solver.step = breaking  # type: ignore[method-assign]
    with pytest.raises(Crash):
        run.run(2, never)
    again = trainer(tmp_path, config, resume=True)
    assert again.solver.iteration == 130
    assert again.run(1, never)
    assert outcome(again) == outcome(unbroken)


def test_divergence_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    step = run.solver.step

    def diverging(*args: Any) -> Any:
        if run.solver.iteration == 60:
            raise AzcaffeError("value loss is nan at iteration 61")
        return step(*args)

    run.solver.step = diverging  # type: ignore[method-assign]
    with pytest.raises(AzcaffeError, match="iteration 61"):
        run.run(1, never)
    assert latest_checkpoint(tmp_path / "checkpoints").state["iteration"] == 50


def test_stops_in_time_while_workers_are_busy(tmp_path: Path) -> None:
    """64 games with 20,000 playouts a move would take minutes; the stop comes after one second."""
    config = replace(SMALL, games=1000, games_per_round=64, lockstep=64)
    slow = SearchConfig(simulations=20_000, noise_epsilon=0.25)
    setup = WorkerSetup(GAME, LinearNet, slow, SelfPlayConfig(), 0, 1000, None)
    run = Trainer(GAME, Encoding(), LinearSolver(GAME), setup, config, RunFolder(tmp_path), Quiet())
    begun = time.monotonic()
    assert not run.run(2, lambda: time.monotonic() > begun + 1)
    assert time.monotonic() - begun < 5
    assert latest_checkpoint(tmp_path / "checkpoints").state["counters"]["next_game"] == 0


def test_resume_refuses_another_game_and_another_solver(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    assert not run.run(1, StopAfter(200))
    found = latest_checkpoint(tmp_path / "checkpoints")
    setup = WorkerSetup(GAME, LinearNet, SearchConfig(simulations=8), SelfPlayConfig(), 0)
    with pytest.raises(CheckpointError, match="its solver stands at 0"):
        Trainer(GAME, Encoding(), LinearSolver(GAME), setup, SMALL, RunFolder(tmp_path), Quiet(), found)
    bigger = make_game("tictactoe", height=4, width=4, connect=4)
    solver = LinearSolver(bigger)
    solver.iteration = found.state["iteration"]
    with pytest.raises(ReplayError, match="not of tictactoe"):
        Trainer(bigger, Encoding(), solver, setup, SMALL, RunFolder(tmp_path), Quiet(), found)


def test_turned_samples_are_the_positions_of_turned_games() -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3, history=2)
    played = next(iter(play_games(game, StubNet(game), SearchConfig(simulations=20), SelfPlayConfig(), 0, [0])))
    samples = played.samples
    for number, symmetry in enumerate(game.symmetries()):
        image = turned(samples, game.symmetries(), np.full(len(samples), number))
        # The oracle plays the game again with every move mapped: image[a] = original[actions[a]], so a -> index of a.
        back = np.argsort(symmetry.actions)
        state = game.initial(1)
        for ply, action in enumerate(played.actions):
            assert np.array_equal(image.board[ply], state.board[0])
            assert np.array_equal(image.past[ply], state.past[0])
            assert image.visits[ply][back[action]] == samples.visits[ply][action]
            assert np.array_equal(np.sort(image.visits[ply]), np.sort(samples.visits[ply]))
            state = game.play(state, np.array([back[action]]))


def test_r20_the_cell_map_moves_every_part() -> None:
    # CASES R20: a stone in column 0 of a 6x7 gravity board and the policy on it are both at column 6 in the mirror.
    game = make_game("connectn", height=6, width=7, connect=4)
    state = game.play(game.initial(1), np.array([0]))
    [played] = list(play_games(game, StubNet(game), SearchConfig(simulations=2), SelfPlayConfig(), 0, [0]))
    sample = replace(played.samples.take(np.array([1])), board=state.board.copy())
    sample.visits[0] = [9, 0, 0, 0, 0, 0, 0]
    assert len(game.symmetries()) == 2
    mirror = turned(sample, game.symmetries(), np.array([1]))
    assert np.flatnonzero(mirror.board[0]).tolist() == [5 * 7 + 6]
    assert mirror.visits[0].tolist() == [0, 0, 0, 0, 0, 0, 9]


def test_planes_of_samples_are_the_planes_the_net_saw() -> None:
    for encoding in (Encoding(), Encoding("relative", 3)):
        game = GAME.with_history(encoding.past)
        [played] = list(play_games(game, StubNet(game), SearchConfig(simulations=5), SelfPlayConfig(), 0, [0]))
        planes = sample_planes(game, played.samples, encoding)
        state = game.initial(1)
        for ply, action in enumerate(played.actions):
            assert np.array_equal(planes[ply], encode(game, state, encoding)[0])
            state = game.play(state, np.array([action]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"games": 0}, "games"), ({"steps_per_game": 0}, "steps_per_game"), ({"lag": -1}, "lag"), ({"seed": -1}, "seed"),
     ({"max_positions": None}, "limit"), ({"max_positions": 600}, "below 5 batches of 128"),
     ({"newest_only": 0}, "newest_only")],
)  # fmt: skip
def test_impossible_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainConfig(**wrong)


@pytest.mark.parametrize(("snapshot", "steps", "seconds"), [(0, 70, 600), (10_000, 70, 600), (50, 1000, 0)])
def test_a_solver_that_seldom_snapshots_still_gets_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: int, steps: int, seconds: float
) -> None:
    monkeypatch.setattr("azcaffe.training.CHECKPOINT_STEPS", steps)
    monkeypatch.setattr("azcaffe.training.CHECKPOINT_SECONDS", seconds)
    run = trainer(tmp_path, replace(SMALL, games=20, num_test=0, num_test_previous=0))
    run.solver.snapshot_every = snapshot  # type: ignore[misc]
    written = []
    monkeypatch.setattr(run, "_fill", lambda path: written.append(run.solver.iteration))
    assert run.run(1, never)
    assert run.solver.iteration in range(100, 200)
    expected = {70, 140, run.solver.iteration} if seconds else set(range(1, run.solver.iteration + 1))
    assert set(written) - {0} == expected
