# SPDX-License-Identifier: AGPL-3.0-or-later
"""Chess and Go 9x9 of OpenSpiel with real nets: self-play, a step of `caffe.SGDSolver` on it, a whole run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from azcaffe.encoding import Encoding
from azcaffe.games.base import IntArray, State
from azcaffe.games.openspiel import OpenSpielGame
from azcaffe.network import NetEvaluator, NetSpec, Solver, SolverSpec, load_weights, write_net, write_solver
from azcaffe.search import CachedEvaluator, SearchConfig
from azcaffe.selfplay import SelfPlayConfig, play_games
from azcaffe.training import sample_planes
from tests.cli.conftest import Run

pytest.importorskip("pyspiel", reason="open_spiel is not installed (extra openspiel)")

MOVES = 20
GO = "openspiel:go(board_size=9)"


class Shortened(OpenSpielGame):
    """A game of OpenSpiel that is a draw after 20 moves."""

    def step(self, state: State, action: IntArray) -> State:
        after = super().step(state, action)
        return replace(after, over=after.over | (np.array([p.move_number() for p in after.board[:, 0]]) >= MOVES))


@pytest.mark.parametrize("text", ["chess", "go(board_size=9)"])
def test_twenty_moves_of_self_play_and_a_training_step(text: str, tmp_path: Path) -> None:
    """A net of one block of 8 channels plays 20 moves of 8 playouts against itself and learns from the 20 positions.

    Whole games of chess take hundreds of moves: this one is called a draw after 20. All else is as in `azcaffe train`.
    """
    game = Shortened(text)
    encoding = Encoding.of_game(game)
    assert encoding is not None
    spec = NetSpec.for_game(game, encoding.channels, blocks=1, channels=8, value_units=16, filler="msra")
    net = write_net(spec, tmp_path / "net.prototxt")
    solver_file = write_solver(SolverSpec(), tmp_path / "solver.prototxt", net)
    solver = Solver(solver_file, game, batch_size=MOVES, seed=1)
    first = solver.save_weights(tmp_path / "first.caffemodel")

    evaluator = NetEvaluator(game, net, first)
    search = SearchConfig(simulations=8, noise_epsilon=0.25)
    [played] = play_games(game, CachedEvaluator(evaluator, game), search, SelfPlayConfig(), seed=1, game_ids=[0])
    samples = played.samples
    assert len(played.actions) == len(samples) == MOVES
    positions = [game.initial(1)]
    for action in played.actions:
        positions.append(game.play(positions[-1], np.array([action])))  # raises where a move is illegal
    # 8 playouts from a new root, which takes the first, or on the subtree that is kept: at least 7 visits of moves.
    assert (samples.visits.sum(axis=1, dtype=int) >= 7).all()

    planes, policy, value = sample_planes(game, samples, encoding), samples.policy(), samples.value.astype(np.float32)
    before = solver.weights()
    losses = solver.step(planes, policy, value)
    # By hand from what the net said before the step: the cross-entropy, and half the mean square (all are draws).
    said = [evaluator(position, np.array([0])) for position in positions[:MOVES]]
    logs = np.log(np.maximum([priors[0] for priors, _ in said], 1e-30))
    assert losses.policy == pytest.approx(-(policy * logs).sum() / MOVES, rel=1e-4)
    assert losses.value == pytest.approx(np.square([values[0] for _, values in said]).mean() / 2, rel=1e-4)
    assert solver.iteration == 1
    after = solver.weights()
    assert all(not np.array_equal(after[layer][0], before[layer][0]) for layer in spec_layers(before))
    assert solver.step(planes, policy, value).policy < losses.policy

    saved, _ = solver.save(tmp_path, "trained")
    loaded, learned = load_weights(saved), solver.weights()
    for layer in spec_layers(before):
        for mine, theirs in zip(loaded[layer], learned[layer], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    priors, _ = NetEvaluator(game, net, saved)(positions[0], np.array([0]))
    assert np.isfinite(priors).all()
    assert priors[0, played.actions[0]] != said[0][0][0, played.actions[0]]


def spec_layers(weights: dict[str, list[np.ndarray]]) -> list[str]:
    """The layers that learn."""
    return [layer for layer in weights if "conv" in layer or "fc" in layer or layer.endswith("_Output")]


def test_go_9x9_from_the_command_line(azcaffe: Run, tmp_path: Path) -> None:
    """make-net, train, show: a whole game (OpenSpiel ends it by move 162) at 2 playouts, 4 steps of 8 positions."""
    net = tmp_path / "go.prototxt"
    made = azcaffe("make-net", "--game", GO, "--blocks=1", "--channels=4", "--filler=msra", "--output", net)
    assert made.code == 0, made.err
    words = ["--num-game=1", "--num-playouts=2", "--batch-size=8", "--warmup-batches=1", "--steps-per-game=4"]
    words += ["--games=1", "--num-test=0", "--num-test-previous=0", "--workers=1", "--quiet"]
    run = tmp_path / "run"
    trained = azcaffe(
        "train", "--game", GO, "--solver-file", tmp_path / "solver_go.prototxt", "--output-dir", run, *words
    )
    assert trained.code == 0, trained.err
    weights = run / "weights" / "go_iter_4.caffemodel"
    assert trained.out == f"1 games, 4 iterations: {weights}\n"
    shown = azcaffe("show", "--game", GO, "--weights", weights, "--simulations=4")
    assert shown.code == 0, shown.err
    assert "go_iter_4: value" in shown.out
