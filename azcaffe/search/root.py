# SPDX-License-Identifier: AGPL-3.0-or-later
"""What happens at roots only: Dirichlet noise, and Gumbel's choice of moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from azcaffe.search.config import SearchConfig
from azcaffe.search.tree import Tree

C_VISIT = 50.0
C_SCALE = 1.0
"""sigma(q) = (C_VISIT + max N) * C_SCALE * q, with the constants of Danihelka et al. 2022 for board games."""


def set_root_prior(tree: Tree, row: int, prior: NDArray[np.float32]) -> None:
    """Give the root in `row` the prior (A,) and bring its half of the score up to date."""
    tree.prior[row] = prior
    tree.score[row, 1] = prior / (tree.visits[row] + 1)


def mix_noise(
    prior: NDArray[np.float32], legal: NDArray[np.bool_], config: SearchConfig, rng: np.random.Generator
) -> NDArray[np.float32]:
    """P * (1 - epsilon) + epsilon * Dirichlet(alpha) over the legal moves of one root; (A,), sums to 1."""
    noise = np.zeros(len(prior))
    noise[legal] = rng.dirichlet(np.full(np.count_nonzero(legal), config.noise_alpha))
    return ((1 - config.noise_epsilon) * prior + config.noise_epsilon * noise).astype(np.float32)


def completed_q(tree: Tree, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Mean values (n, A) for the mover, unvisited moves completed by v_mix (Danihelka et al. 2022, eq. 33)."""
    visits = tree.visits.take(rows, axis=0)
    prior = tree.prior.take(rows, axis=0).astype(np.float64)
    visited = visits > 0
    q = np.where(visited, tree.value_sum.take(rows, axis=0) / np.maximum(visits, 1), 0.0)
    mass = np.where(visited, prior, 0.0).sum(axis=1)
    mean_q = (np.where(visited, prior, 0.0) * q).sum(axis=1) / np.maximum(mass, 1e-12)
    total = visits.sum(axis=1)
    mixed = (tree.net_value.take(rows) + total * mean_q) / (1 + total)
    return np.where(visited, q, mixed[:, None])


def gumbel_scores(tree: Tree, rows: NDArray[np.intp], gumbel: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """g(a) + logits(a) + sigma(completed q(a)), (n, A); -inf for illegal moves."""
    with np.errstate(divide="ignore"):
        logits = np.log(tree.prior.take(rows, axis=0).astype(np.float64))
    scale = (C_VISIT + tree.visits.take(rows, axis=0).max(axis=1)) * C_SCALE
    scores = logits + scale[:, None] * completed_q(tree, rows) + gumbel
    return np.where(np.isneginf(tree.score.take(rows, axis=0)[:, 0]), -np.inf, scores)


def improved_policy(tree: Tree, rows: NDArray[np.intp]) -> NDArray[np.float32]:
    """softmax(logits + sigma(completed q)), (n, A): the policy target of Gumbel AlphaZero (eq. 11)."""
    scores = gumbel_scores(tree, rows, 0.0)
    scores -= scores.max(axis=1, keepdims=True)
    weights = np.exp(scores)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def visit_schedule(considered: int, simulations: int) -> list[int]:
    """Sequential halving as a list: playout t goes to a considered move that has had schedule[t] visits so far.

    Danihelka et al. 2022, Algorithm 2: log2(considered) phases of equal cost, each keeping the better half.
    """
    if considered <= 1:
        return list(range(simulations))
    phases = int(np.ceil(np.log2(considered)))
    schedule: list[int] = []
    visits = 0
    remaining = considered
    while len(schedule) < simulations:
        rounds = max(1, simulations // (phases * remaining))
        for _ in range(rounds):
            schedule += [visits] * remaining
            visits += 1
        remaining = max(2, remaining // 2)
    return schedule[:simulations]


class GumbelRoots:
    """The n roots of one run: which move each playout tries, and which is played in the end."""

    def __init__(
        self, tree: Tree, slots: NDArray[np.intp], simulations: NDArray[np.integer], considered: int,
        rngs: Sequence[np.random.Generator],
    ) -> None:  # fmt: skip
        self._tree = tree
        self._slots = slots
        rows = tree.roots(slots)
        self._start = tree.visits.take(rows, axis=0)
        self._gumbel = np.stack([rng.gumbel(size=tree.num_actions) for rng in rngs])
        first = gumbel_scores(tree, rows, self._gumbel)
        legal_count = np.isfinite(first).sum(axis=1)
        self._schedules = [
            visit_schedule(min(considered, int(k)), int(n)) for k, n in zip(legal_count, simulations, strict=True)
        ]
        order = np.argsort(-first, axis=1, kind="stable")
        self._considered = np.zeros(first.shape, bool)
        for row, kept in enumerate(order):
            self._considered[row, kept[: min(considered, int(legal_count[row]))]] = True

    def next_actions(self, roots: NDArray[np.intp], playout: int) -> NDArray[np.intp]:
        """The move (m,) that playout number `playout` tries at each of `roots` (m,) indices into the n."""
        rows = self._tree.roots(self._slots[roots])
        wanted = np.array([self._schedules[r][playout] for r in roots])
        done = self._tree.visits.take(rows, axis=0) - self._start[roots]
        candidates = self._considered[roots] & (done == wanted[:, None])
        scores = gumbel_scores(self._tree, rows, self._gumbel[roots])
        return np.where(candidates, scores, -np.inf).argmax(axis=1)

    def selected(self) -> NDArray[np.intp]:
        """The move (n,) to play: the best of those with the most visits in this run."""
        rows = self._tree.roots(self._slots)
        done = np.where(self._considered, self._tree.visits.take(rows, axis=0) - self._start, -1)
        scores = gumbel_scores(self._tree, rows, self._gumbel)
        return np.where(done == done.max(axis=1, keepdims=True), scores, -np.inf).argmax(axis=1)
