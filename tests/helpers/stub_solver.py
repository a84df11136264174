# SPDX-License-Identifier: AGPL-3.0-or-later
"""A linear net and its gradient descent in NumPy: all that the training loop needs of a solver, without Caffe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from azcaffe.checkpoint import load_weights, save_weights
from azcaffe.encoding import Encoding, encode
from azcaffe.games.base import Game, State
from azcaffe.jobs import MatchJob, MatchScore
from azcaffe.search import Evaluate

Weights = dict[str, list[np.ndarray]]


def linear(weights: Weights, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Policy (B, A) and value (B,) of planes (B, C, H, W)."""
    flat = planes.reshape(len(planes), -1)
    logits = flat @ weights["policy"][0] + weights["policy"][1]
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    return probabilities / probabilities.sum(axis=1, keepdims=True), np.tanh(flat @ weights["value"][0])


class LinearNet:
    """The evaluator of the workers."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.weights: Weights = {}

    def set_weights(self, weights: Weights) -> None:
        self.weights = weights

    def __call__(self, states: State, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        policy, value = linear(self.weights, encode(self.game, states, Encoding()))
        return policy.astype(np.float32), value.astype(np.float32)


@dataclass(frozen=True)
class Losses:
    value: float
    policy: float
    kl: float


class LinearSolver:
    """Plain gradient descent; notes the size of every batch it is given."""

    display = 20
    snapshot_every = 50

    def __init__(self, game: Game, restore: Path | None = None) -> None:
        inputs = 3 * game.cells
        self.iteration = 0
        self.learning_rate = 0.05
        self.batches: list[int] = []
        self._weights: Weights = {
            "policy": [np.zeros((inputs, game.num_actions)), np.zeros(game.num_actions)],
            "value": [np.zeros(inputs)],
        }
        if restore is not None:
            loaded = load_weights(restore)
            self.iteration = int(loaded.pop("iteration")[0])
            self._weights = loaded

    def step(self, planes: np.ndarray, policy: np.ndarray, value: np.ndarray) -> Losses:
        predicted, expected = linear(self._weights, planes)
        flat = planes.reshape(len(planes), -1)
        error = (predicted - policy) / len(planes)
        self._weights["policy"][0] -= self.learning_rate * flat.T @ error
        self._weights["policy"][1] -= self.learning_rate * error.sum(axis=0)
        slope = (expected - value) * (1 - expected**2) / len(planes)
        self._weights["value"][0] -= self.learning_rate * flat.T @ slope
        self.iteration += 1
        self.batches.append(len(planes))
        cross = float(-(policy * np.log(predicted)).sum(axis=1).mean())
        return Losses(float(((expected - value) ** 2).mean() / 2), cross, cross)

    def weights(self) -> Weights:
        return {name: [blob.copy() for blob in blobs] for name, blobs in self._weights.items()}

    def save(self, directory: Path, stem: str) -> None:
        save_weights(directory / f"{stem}.npz", self._weights | {"iteration": [np.array(self.iteration)]})

    def save_weights(self, path: Path) -> None:
        save_weights(path, self._weights)


def stub_match(game: Game, job: MatchJob, evaluate: Evaluate, opponent: Evaluate | None) -> MatchScore:
    """A result that depends on everything a match may depend on, the weights included."""
    start = game.initial(1)
    value = evaluate(start, np.arange(1))[1][0] + (opponent(start, np.arange(1))[1][0] if opponent else 0)
    wins = int(abs(value) * 1e6 + job.iteration + sum(job.seed)) % (job.games + 1)
    if job.opponent == "rollout" and job.opponent_simulations < 3 * 8:
        wins = job.games
    return MatchScore(wins, 0, job.games - wins)
