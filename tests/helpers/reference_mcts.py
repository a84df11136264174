# SPDX-License-Identifier: AGPL-3.0-or-later
"""A naive search, one node and one game at a time, written from REFERENCE's description alone: the oracle of the
engine's tests.

It shares nothing with azcaffe.search; positions come from the game's batch interface with a batch of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from azcaffe.games.base import Game, State


class Node:
    """A position with the statistics of its moves, for the player to move there."""

    def __init__(self, state: State, priors: dict[int, float], visits: int) -> None:
        self.state = state
        self.mover = int(state.to_move[0])
        self.visits = visits
        self.priors = priors
        self.counts = dict.fromkeys(priors, 0)
        self.sums = dict.fromkeys(priors, 0.0)
        self.children: dict[int, Node] = {}


class ReferenceSearch:
    """PUCT for one game; `evaluate(state of one) -> (priors (A,), value)` for the mover."""

    def __init__(
        self, game: Game, evaluate: Callable[[State], tuple[np.ndarray, float]], c_puct: float, original: bool
    ) -> None:
        self.game, self.evaluate, self.c_puct, self.original = game, evaluate, c_puct, original

    def node(self, state: State, visits: int) -> tuple[Node, float]:
        priors, value = self.evaluate(state)
        legal = np.flatnonzero(self.game.legal(state)[0])
        masked = np.zeros(self.game.num_actions, np.float32)
        masked[legal] = priors[legal]
        masked /= masked.sum()
        return Node(state, {int(a): float(masked[a]) for a in legal}, visits), float(value)

    def search(self, root: Node, simulations: int) -> dict[int, int]:
        for _ in range(simulations):
            self.playout(root)
        return root.counts

    def playout(self, root: Node) -> None:
        node, way = root, []
        while True:
            action = max(node.priors, key=lambda a: (self.score(node, a), -a))
            way.append((node, action))
            if action in node.children:
                node = node.children[action]
                continue
            state = self.game.step(node.state, np.array([action]))
            if state.over[0]:
                for_player_one = float(state.winner[0])
            else:
                child, value = self.node(state, visits=1)
                node.children[action] = child
                for_player_one = value if self.original else value * child.mover
            break
        for node, action in way:
            node.visits += 1
            node.counts[action] += 1
            node.sums[action] += for_player_one * node.mover

    def score(self, node: Node, action: int) -> np.float32:
        count = node.counts[action]
        mean = np.float32(node.sums[action] / count) if count else np.float32(0)
        explore = np.float32(self.c_puct) * np.float32(math.sqrt(node.visits))
        return np.float32(mean + np.float32(explore * np.float32(node.priors[action] / (1 + count))))
