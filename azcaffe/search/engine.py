# SPDX-License-Identifier: AGPL-3.0-or-later
"""The search: many games in lockstep, one playout each per turn, one evaluation for all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import GameError
from azcaffe.games.base import Game, State
from azcaffe.search.backup import backup
from azcaffe.search.config import SearchConfig
from azcaffe.search.descend import descend
from azcaffe.search.expand import Evaluate, expand, expand_roots
from azcaffe.search.root import GumbelRoots, improved_policy, mix_noise, set_root_prior
from azcaffe.search.select import selection_rule
from azcaffe.search.tree import Tree

FIRST_NODES = 256


@dataclass(frozen=True)
class SearchResult:
    """What n searches found; the mover is the player to move at each root.

    Attributes:
        visits: (n, A) int32, playouts through each root move, those kept from earlier moves included.
        priors: (n, A) float32, the evaluator's priors over legal moves, without noise.
        q: (n, A) float32, mean value of each root move for the mover, 0 where unvisited.
        value: (n,) float32, mean value of all playouts for the mover.
        net_value: (n,) float32, the evaluator's own value of the root for the mover.
        improved_policy: (n, A) float32, the policy target: visits / their sum, or Gumbel's.
        selected: (n,) int64, the move to play without temperature: most visited, ties to the lowest; or Gumbel's.
        playouts: playouts made in all n trees.
        evaluations: positions that the evaluator was asked for.
    """

    visits: NDArray[np.int32]
    priors: NDArray[np.float32]
    q: NDArray[np.float32]
    value: NDArray[np.float32]
    net_value: NDArray[np.float32]
    improved_policy: NDArray[np.float32]
    selected: NDArray[np.intp]
    playouts: int
    evaluations: int


class Search:
    """`slots` trees of one game, searched together.

    A tree's result depends on its own position, generator and evaluations only, never on its neighbours (with
    Caffe the evaluations' last bits depend on the batch size).
    """

    def __init__(self, game: Game, evaluate: Evaluate, config: SearchConfig, slots: int) -> None:
        self.game = game
        self.config = config
        self.tree = Tree(game, slots, FIRST_NODES, config.c_puct)
        self._evaluate = evaluate
        self._seed = getattr(evaluate, "seed", None)
        self._select = selection_rule(config)
        self._rngs: list[np.random.Generator | None] = [None] * slots
        self._clean_prior: list[NDArray[np.float32] | None] = [None] * slots  # of roots whose prior has noise

    def reset(self, slots: Sequence[int] | NDArray, states: State, rngs: Sequence[np.random.Generator]) -> None:
        """Start fresh trees at `states` (n) in `slots` (n,), each with its own generator."""
        index = np.asarray(slots, np.intp)
        self.tree.clear(index)
        self.tree.states.put(self.tree.roots(index), states)
        for slot, rng in zip(index, rngs, strict=True):
            self._rngs[slot] = rng
            self._clean_prior[slot] = None
        if self._seed is not None:
            self._seed(index, rngs)

    def states(self, slots: Sequence[int] | NDArray) -> State:
        """The positions (n) at the roots."""
        return self.tree.states.take(self.tree.roots(np.asarray(slots, np.intp)))

    def advance(self, slots: Sequence[int] | NDArray, actions: Sequence[int] | NDArray) -> None:
        """Play `actions` (n,) in `slots` (n,), keeping what was searched below them.

        Raises:
            GameError: a move is illegal; no tree has changed then.
        """
        index, moves = np.asarray(slots, np.intp), np.asarray(actions)
        after = self.game.play(self.states(index), moves)
        for row, (slot, action) in enumerate(zip(index, moves, strict=True)):
            self._clean_prior[slot] = None
            if not self.tree.reroot(int(slot), int(action)):
                self.tree.clear(index[row : row + 1])
        self.tree.states.put(self.tree.roots(index), after)

    def run(
        self,
        slots: Sequence[int] | NDArray,
        simulations: int | NDArray | None = None,
        noise: bool | NDArray | None = None,
    ) -> SearchResult:
        """Search the roots of `slots` (n,), all different.

        Args:
            simulations: playouts for each tree, one number or (n,); the configuration's when None.
            noise: whether a root gets Dirichlet noise (once, however often it is searched), one answer or (n,);
                when None, wherever the configuration's noise_epsilon is above 0.

        Raises:
            GameError: a game is already over.
        """
        index = np.asarray(slots, np.intp)
        if self.tree.states.over[self.tree.roots(index)].any():
            raise GameError("the game is over: there is nothing to search")
        deadline = None if self.config.time_ms is None else time.monotonic() + self.config.time_ms / 1000
        budget = self._budget(len(index), simulations)
        evaluations = expand_roots(self.game, self.tree, index, self._evaluate)
        self._mix_noise(index, self.config.noise_epsilon > 0 if noise is None else noise)
        gumbel = None
        if self.config.root == "gumbel":
            rngs = [self._rng(slot) for slot in index]
            gumbel = GumbelRoots(self.tree, index, budget, self.config.gumbel_considered, rngs)
        playouts = 0
        done = 0  # playouts that every tree still running has had
        running = np.flatnonzero(budget > 0)
        while len(running):
            active = index[running]
            steps = min(int(budget[running].min()) - done, self.tree.room(active))
            roots = self.tree.roots(active)
            for step in range(done, done + steps):
                forced = None if gumbel is None else gumbel.next_actions(running, step)
                way = descend(self.tree, roots, self._select, forced)
                value, asked = expand(self.game, self.tree, active, way, self._evaluate, self.config.variant)
                backup(self.tree, way, value)
                playouts += len(active)
                evaluations += asked
                if deadline is not None and time.monotonic() >= deadline:
                    budget[running] = step + 1
                    break
            done += steps
            running = running[budget[running] > done]
        return self._result(index, gumbel, playouts, evaluations)

    def _budget(self, count: int, simulations: int | NDArray | None) -> NDArray[np.int64]:
        asked = self.config.simulations if simulations is None else simulations
        unlimited = np.iinfo(np.int64).max
        return np.broadcast_to(np.asarray(unlimited if asked is None else asked, np.int64), (count,)).copy()

    def _rng(self, slot: int) -> np.random.Generator:
        rng = self._rngs[slot]
        if rng is None:
            raise ValueError(f"slot {slot} was never reset")
        return rng

    def _mix_noise(self, index: NDArray[np.intp], noise: bool | NDArray) -> None:
        for slot, wanted in zip(index, np.broadcast_to(noise, index.shape), strict=True):
            clean, row = self._clean_prior[slot], int(slot) * self.tree.nodes
            if wanted and clean is None:
                clean = self.tree.prior[row].copy()
                legal = np.isfinite(self.tree.score[row, 0])
                self._clean_prior[slot] = clean
                set_root_prior(self.tree, row, mix_noise(clean, legal, self.config, self._rng(slot)))
            elif not wanted and clean is not None:
                self._clean_prior[slot] = None
                set_root_prior(self.tree, row, clean)

    def _result(
        self, index: NDArray[np.intp], gumbel: GumbelRoots | None, playouts: int, evaluations: int
    ) -> SearchResult:
        tree, roots = self.tree, self.tree.roots(index)
        visits = tree.visits[roots]
        value_sum = tree.value_sum[roots]
        total = visits.sum(axis=1)
        net_value = tree.net_value[roots]
        priors = tree.prior[roots]
        for row, slot in enumerate(index):
            clean = self._clean_prior[slot]
            if clean is not None:
                priors[row] = clean
        visited_share = (visits / np.maximum(total, 1)[:, None]).astype(np.float32)
        return SearchResult(
            visits=visits,
            priors=priors,
            q=(value_sum / np.maximum(visits, 1)).astype(np.float32),
            value=np.where(total > 0, value_sum.sum(axis=1) / np.maximum(total, 1), net_value).astype(np.float32),
            net_value=net_value,
            improved_policy=visited_share if gumbel is None else improved_policy(tree, roots),
            selected=visits.argmax(axis=1) if gumbel is None else gumbel.selected(),
            playouts=playouts,
            evaluations=evaluations,
        )


def principal_variation(search: Search, slot: int) -> list[int]:
    """The most visited move at each node from the root of `slot` down, ties to the lowest, while there are visits."""
    tree, line = search.tree, []
    node = 0
    while node >= 0 and tree.used[slot]:
        row = slot * tree.nodes + node
        action = int(tree.visits[row].argmax())
        if tree.visits[row, action] == 0:
            break
        line.append(action)
        node = int(tree.child[row, action]) or -1
    return line
