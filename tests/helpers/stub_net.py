# SPDX-License-Identifier: AGPL-3.0-or-later
"""A stand-in for a net in tests of the search: pseudo-random priors and values, a function of the position alone."""

from __future__ import annotations

import zlib

import numpy as np

from azcaffe.games.base import Game, State


class StubNet:
    """Priors and a value scrambled out of the position's key; counts the positions it is asked for."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.asked = 0
        self.factors = np.random.default_rng(0).integers(1, 2**32, game.num_actions + 1, dtype=np.uint64) | np.uint64(1)

    def __call__(self, states: State, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.asked += len(states)
        seeds = np.array([zlib.crc32(key) for key in self.game.keys(states)], np.uint64)
        mixed = (seeds[:, None] * self.factors) % np.uint64(2**32 - 5) / 2**32  # (B, A + 1) in [0, 1)
        priors = (mixed[:, :-1] ** 4 + 1e-3).astype(np.float32)
        return priors / priors.sum(axis=1, keepdims=True), (2 * mixed[:, -1] - 1).astype(np.float32)

    def scalar(self, state: State) -> tuple[np.ndarray, float]:
        priors, values = self(state, np.zeros(1, np.intp))
        return priors[0], float(values[0])
