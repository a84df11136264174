# SPDX-License-Identifier: AGPL-3.0-or-later
"""Caffe's numbers against a net computed independently in NumPy, float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from azcaffe.games.registry import make_game
from azcaffe.network import NetEvaluator, NetSpec, Solver, SolverSpec, write_net, write_solver
from tests.helpers import numpy_net

RATE = 0.5


def files(folder: Path, spec: NetSpec, **solver: object) -> Path:
    write_net(spec, folder / "net.prototxt")
    settings = {"momentum": 0.0, "lr_policy": "fixed", "base_lr": RATE, **solver}
    return write_solver(SolverSpec(**settings), folder / "solver.prototxt", folder / "net.prototxt")  # type: ignore[arg-type]


def batch(count: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    planes = rng.integers(0, 2, (count, 3, size, size)).astype(np.float32)
    policy = rng.dirichlet(np.full(size * size, 0.3), count).astype(np.float32)
    return planes, policy, rng.integers(-1, 2, count).astype(np.float32)


def larger(weights: dict[str, list[np.ndarray]], seed: int = 1) -> dict[str, list[np.ndarray]]:
    """Weights large enough that every path of the net matters (the fillers' 0.01 leaves deep gradients near 0)."""
    rng = np.random.default_rng(seed)
    return {
        name: [
            blob if blob.ndim == 0 else rng.normal(0, (2 / max(blob[0].size, 4)) ** 0.5, blob.shape).astype(np.float32)
            for blob in blobs
        ]
        for name, blobs in weights.items()
    }


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def test_a_step_is_the_gradient_of_value_and_policy_loss(tmp_path: Path) -> None:
    from azcaffe.network import save_weights

    game = make_game("tictactoe", height=4, width=4, connect=3)
    solver_file = files(tmp_path, NetSpec(4, 4, 16, blocks=1, channels=8))
    start = larger(Solver(solver_file, game, batch_size=16, seed=0).weights())
    save_weights(tmp_path / "start.caffemodel", start)
    solver = Solver(solver_file, game, batch_size=16, weights=tmp_path / "start.caffemodel")
    planes, policy, value = batch(16, 4)
    value_loss, policy_loss, gradients = numpy_net.losses_and_gradients(start, planes, policy, value)
    entropy = -np.sum(policy * np.log(np.where(policy > 0, policy, 1))) / len(policy)

    losses = solver.step(planes, policy, value)

    assert losses.value == pytest.approx(value_loss, rel=1e-4)
    assert losses.policy == pytest.approx(policy_loss, rel=1e-4)
    assert losses.kl == pytest.approx(policy_loss - entropy, rel=1e-4)
    assert set(gradients) == {name for name, blobs in start.items() if blobs[0].ndim}
    after = solver.weights()
    for name, blobs in gradients.items():
        for old, new, gradient in zip(start[name], after[name], blobs):
            assert relative((old - new) / RATE, gradient) < 1e-4, name


def test_the_batch_size_of_a_step_may_change(tmp_path: Path) -> None:
    game = make_game("tictactoe", height=4, width=4, connect=3)
    solver = Solver(files(tmp_path, NetSpec(4, 4, 16, blocks=1, channels=8)), game, batch_size=16, seed=0)
    for count in (5, 16, 1):
        planes, policy, value = batch(count, 4)
        value_loss, policy_loss, _ = numpy_net.losses_and_gradients(solver.weights(), planes, policy, value)
        losses = solver.step(planes, policy, value)
        assert (losses.value, losses.policy) == (
            pytest.approx(value_loss, rel=1e-4),
            pytest.approx(policy_loss, rel=1e-4),
        )


def test_batch_norm_is_right_in_both_phases(tmp_path: Path) -> None:
    game = make_game("tictactoe", height=4, width=4, connect=3)
    solver = Solver(
        files(tmp_path, NetSpec(4, 4, 16, blocks=1, channels=8, batch_norm=True)), game, batch_size=16, seed=0
    )
    for seed in range(3):
        planes, policy, value = batch(16, 4, seed)
        weights = solver.weights()
        priors, values = numpy_net.batch_norm_forward(weights, planes, training=True)
        losses = solver.step(planes, policy, value)
        assert losses.value == pytest.approx(((values - value) ** 2).sum() / 32, rel=1e-4)
        assert losses.policy == pytest.approx(-(policy * np.log(priors)).sum() / 16, rel=1e-4)
    # Inference uses the statistics gathered so far: they must come along when weights are refreshed, at any batch size.
    evaluate = NetEvaluator(game, tmp_path / "net.prototxt")
    evaluate.set_weights(solver.weights())
    for count in (1, 7):
        planes = batch(count, 4, 9)[0]
        priors, values = evaluate.forward(planes)
        expected_priors, expected_values = numpy_net.batch_norm_forward(solver.weights(), planes, training=False)
        np.testing.assert_allclose(priors, expected_priors, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(values, expected_values, rtol=1e-4, atol=1e-6)


def test_the_solver_leaves_batch_norm_statistics_to_the_forward_pass(tmp_path: Path) -> None:
    # After one step the accumulated weight is 1 and the accumulated mean the batch's own, whatever the learning rate.
    game = make_game("tictactoe", height=4, width=4, connect=3)
    solver_file = files(tmp_path, NetSpec(4, 4, 16, blocks=1, channels=8, batch_norm=True), weight_decay=0.1)
    solver = Solver(solver_file, game, batch_size=16, seed=0)
    planes, policy, value = batch(16, 4)
    first = numpy_net.conv(planes.astype(np.float64), *[b.astype(np.float64) for b in solver.weights()["conv1"]])[0]
    solver.step(planes, policy, value)
    mean, _, count = solver.weights()["conv1_norm"]
    assert count[0] == 1
    np.testing.assert_allclose(mean, first.mean(axis=(0, 2, 3)), rtol=1e-4, atol=1e-7)
