# SPDX-License-Identifier: AGPL-3.0-or-later
"""The way up: a playout's value goes into every edge it passed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from azcaffe.search.descend import Descent
from azcaffe.search.tree import Tree


def backup(tree: Tree, way: Descent, value: NDArray[np.float64]) -> None:
    """Add `value` (n,) float64, player 1's view, to all edges of `way`.

    All (node, action) pairs of one descent differ (a tree's way never meets a node twice), so plain fancy assignment is
    a correct scatter.
    """
    rows, actions = way.rows, way.actions
    edges = rows * tree.num_actions + actions
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
