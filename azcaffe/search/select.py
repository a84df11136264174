# SPDX-License-Identifier: AGPL-3.0-or-later
"""Which move a playout tries next at a node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from azcaffe.search.config import SearchConfig
from azcaffe.search.tree import Tree

Select = Callable[[Tree, NDArray[np.intp]], NDArray[np.intp]]
"""`select(tree, rows (n,)) -> actions (n,)`, always legal ones; ties go to the lowest action."""


def puct(tree: Tree, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """argmax Q + c_puct * sqrt(N_parent) * P / (1 + N), Q = 0 unvisited (Silver et al. 2017, with the published +0)."""
    # Into arrays kept for it, as fresh ones of this size cost more than the arithmetic; "clip" keeps NumPy from
    # buffering them once more.
    halves = tree.score.take(rows, axis=0, out=tree.gathered[: len(rows)], mode="clip")
    total = tree.totals[: len(rows)]
    np.multiply(halves[:, 1], tree.explore.take(rows)[:, None], out=total)
    total += halves[:, 0]
    return total.argmax(axis=1)


def puct_single(tree: Tree, row: int) -> int:
    """:func:`puct` at one node, in the same single precision."""
    halves = tree.score[row]
    total = halves[1] * tree.explore[row]
    total += halves[0]
    return int(total.argmax())


SINGLE: dict[Select, Callable[[Tree, int], int]] = {puct: puct_single}
"""Rules that have a cheaper form for a tree that is searched alone."""


def puct_with_urgency(reduction: float) -> Select:
    """PUCT whose unvisited children count as the node's mean value - reduction * sqrt(prior mass visited).

    The rule of Leela Chess Zero ("FPU reduction"); the mean is over the node's own evaluation and its playouts.
    """

    def select(tree: Tree, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        halves = tree.score.take(rows, axis=0)
        visited = tree.visits.take(rows, axis=0) > 0
        mass = np.where(visited, tree.prior.take(rows, axis=0), 0).sum(axis=1)
        mean = (tree.net_value.take(rows) + tree.value_sum.take(rows, axis=0).sum(axis=1)) / np.maximum(
            tree.node_visits.take(rows), 1
        )
        urgency = (mean - reduction * np.sqrt(mass)).astype(np.float32)
        total = halves[:, 1] * tree.explore.take(rows)[:, None]
        total += halves[:, 0]
        # The mean value of an unvisited move stands as 0, that of an illegal one as -inf, which nothing makes better.
        np.add(total, urgency[:, None], out=total, where=~visited)
        return total.argmax(axis=1)

    return select


def selection_rule(config: SearchConfig) -> Select:
    """The rule that `config` asks for below the root (and at it, unless the root is Gumbel's)."""
    return puct if config.fpu_reduction is None else puct_with_urgency(config.fpu_reduction)
