# SPDX-License-Identifier: AGPL-3.0-or-later
"""The way down: every tree follows its selection rule to an edge that no node hangs from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from azcaffe.search.select import Select
from azcaffe.search.tree import Tree


class Descent(NamedTuple):
    """One playout's way down in n trees.

    Attributes:
        rows: (T,) the nodes passed, all trees and levels in one list.
        actions: (T,) the move taken at each.
        tree_of: (T,) which of the n trees each belongs to.
        leaf_rows: (n,) the last node of each way.
        leaf_actions: (n,) the move that left the tree.
        leaf_child: (n,) int32, UNVISITED, or TERMINAL + winner.
    """

    rows: NDArray[np.intp]
    actions: NDArray[np.intp]
    tree_of: NDArray[np.intp]
    leaf_rows: NDArray[np.intp]
    leaf_actions: NDArray[np.intp]
    leaf_child: NDArray[np.int32]


def descend(tree: Tree, roots: NDArray[np.intp], select: Select, root_actions: NDArray[np.intp] | None = None) -> Descent:
    """Walk down from `roots` (n,) rows; `root_actions` (n,), where given, replaces the rule at the root."""
    count = len(roots)
    leaf_rows = np.empty(count, np.intp)
    leaf_actions = np.empty(count, np.intp)
    leaf_child = np.empty(count, np.int32)
    all_rows, all_actions, all_trees = [], [], []
    rows, top, walking = roots, roots, np.arange(count)
    child_flat = tree.child.reshape(-1)
    while True:
        actions = select(tree, rows) if root_actions is None or all_rows else root_actions
        child = child_flat.take(rows * tree.num_actions + actions)
        all_rows.append(rows)
        all_actions.append(actions)
        all_trees.append(walking)
        inside = child > 0
        going = np.count_nonzero(inside)
        if going < len(rows):
            ended = ~inside
            leaves = walking[ended]
            leaf_rows[leaves] = rows[ended]
            leaf_actions[leaves] = actions[ended]
            leaf_child[leaves] = child[ended]
            if not going:
                break
            walking, top, child = walking[inside], top[inside], child[inside]
        rows = top + child
    return Descent(
        np.concatenate(all_rows), np.concatenate(all_actions), np.concatenate(all_trees), leaf_rows, leaf_actions, leaf_child
    )
