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


def descend(
    tree: Tree, roots: NDArray[np.intp], select: Select, root_actions: NDArray[np.intp] | None = None
) -> Descent:
    """Walk down from `roots` (n,) rows; `root_actions` (n,), where given, replaces the rule at the root."""
    child_of = tree.child.reshape(-1)
    all_rows: list[NDArray[np.intp]] = []
    all_actions: list[NDArray[np.intp]] = []
    all_trees: list[NDArray[np.intp]] = []
    ends = []  # (trees, rows, actions, child) of the ways that ended at one level
    rows, top, walking = roots, roots, np.arange(len(roots))
    while True:
        actions = select(tree, rows) if root_actions is None or all_rows else root_actions
        child = child_of.take(rows * tree.num_actions + actions)
        all_rows.append(rows)
        all_actions.append(actions)
        all_trees.append(walking)
        inside = child > 0
        going = np.count_nonzero(inside)
        if going == len(rows):
            rows = top + child
            continue
        if not going:
            ends.append((walking, rows, actions, child))
            break
        ended = ~inside
        ends.append((walking[ended], rows[ended], actions[ended], child[ended]))
        walking, top = walking[inside], top[inside]
        rows = top + child[inside]
    if len(ends) == 1:
        leaf_rows, leaf_actions, leaf_child = ends[0][1:]
    else:
        order = np.concatenate([trees for trees, *_ in ends]).argsort()
        _, leaf_rows, leaf_actions, leaf_child = (np.concatenate(parts)[order] for parts in zip(*ends, strict=True))
    rows, actions, trees = (np.concatenate(parts) for parts in (all_rows, all_actions, all_trees))
    return Descent(rows, actions, trees, leaf_rows, leaf_actions, leaf_child)
