# SPDX-License-Identifier: AGPL-3.0-or-later
"""The way up: a playout's value goes into every edge it passed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from azcaffe.search.descend import Descent, SingleDescent
from azcaffe.search.tree import Tree


def backup(tree: Tree, way: Descent | SingleDescent, value: NDArray[np.float64]) -> None:
    """Add `value` (n,) float64, player 1's view, to all edges of `way`.

    All (node, action) pairs of one descent differ (a tree's way never meets a node twice), so plain fancy assignment is
    a correct scatter.
    """
    if isinstance(way, SingleDescent):
        _backup_single(tree, way, float(value[0]))
        return
    rows, edges = way.rows, way.edges
    # The one place where a value changes sides: W of an edge is for the mover at the edge's upper node.
    for_mover = value.take(way.tree_of) * tree.states.to_move.take(rows)
    visits = tree.visits.reshape(-1)
    count = visits.take(edges) + 1
    visits[edges] = count
    sums = tree.value_sum.reshape(-1)
    total = sums.take(edges) + for_mover
    sums[edges] = total
    score = tree.score.reshape(-1)
    mean_at = edges + rows * tree.num_actions  # row * 2A + action; the prior's half lies A further on
    score[mean_at] = total / count
    score[mean_at + tree.num_actions] = tree.prior.reshape(-1).take(edges) / (count + 1)
    passed = tree.node_visits.take(rows) + 1
    tree.node_visits[rows] = passed
    tree.explore[rows] = tree.c_puct * np.sqrt(passed, dtype=np.float32)


def _backup_single(tree: Tree, way: SingleDescent, value: float) -> None:
    """The same for one way, to the last bit.

    NumPy, too, divides in double precision here and rounds when it stores. `explore` it computes in single precision:
    so every step of it passes through its place in the array.
    """
    score, prior, visits, sums, _, node_visits, explore, to_move = tree.numbers
    num_actions, c_puct = tree.num_actions, tree.c_puct
    for row, edge in zip(way.rows, way.edges, strict=True):
        count = visits[edge] + 1
        visits[edge] = count
        total = sums[edge] + value * to_move[row]
        sums[edge] = total
        mean_at = edge + row * num_actions
        score[mean_at] = total / count
        score[mean_at + num_actions] = prior[edge] / (count + 1)
        node_visits[row] += 1
        explore[row] = node_visits[row]
        explore[row] = math.sqrt(explore[row])
        explore[row] = c_puct * explore[row]
