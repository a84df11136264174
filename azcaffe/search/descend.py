# SPDX-License-Identifier: AGPL-3.0-or-later
"""The way down: every tree follows its selection rule to an edge that no node hangs from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from azcaffe.search.select import SINGLE, Select
from azcaffe.search.tree import Tree


class Descent(NamedTuple):
    """One playout's way down in n trees; an edge is `row * A + action`.

    Attributes:
        rows: (T,) the nodes passed, all trees and levels in one list.
        edges: (T,) the edge taken at each.
        tree_of: (T,) which of the n trees each belongs to.
        leaf_rows: (n,) the last node of each way.
        leaf_actions: (n,) the move that left the tree.
        leaf_edges: (n,) its edge.
        leaf_child: (n,) UNVISITED, or TERMINAL + winner.
    """

    rows: NDArray[np.intp]
    edges: NDArray[np.intp]
    tree_of: NDArray[np.intp]
    leaf_rows: NDArray[np.intp]
    leaf_actions: NDArray[np.intp]
    leaf_edges: NDArray[np.intp]
    leaf_child: NDArray[np.integer]


class SingleDescent(NamedTuple):
    """The same where n is 1: numbers instead of arrays along the way, arrays (1,) at its end."""

    rows: list[int]
    edges: list[int]
    leaf_rows: NDArray[np.intp]
    leaf_actions: NDArray[np.intp]
    leaf_edges: NDArray[np.intp]
    leaf_child: NDArray[np.integer]


def descend(
    tree: Tree, roots: NDArray[np.intp], select: Select, root_actions: NDArray[np.intp] | None = None
) -> Descent | SingleDescent:
    """Walk down from `roots` (n,) rows; `root_actions` (n,), where given, replaces the rule at the root."""
    if len(roots) == 1 and root_actions is None and select in SINGLE:
        return _descend_single(tree, int(roots[0]), select)
    child_of = tree.child.reshape(-1)
    passed: list[tuple[NDArray, ...]] = []  # (rows, edges, trees) of each level
    rows, top, walking = roots, roots, np.arange(len(roots))
    while True:
        actions = select(tree, rows) if root_actions is None or passed else root_actions
        edges = rows * tree.num_actions + actions
        child = child_of.take(edges)
        passed.append((rows, edges, walking))
        inside = (child > 0).nonzero()[0]
        if not len(inside):
            break
        if len(inside) < len(rows):
            walking, top, child = walking.take(inside), top.take(inside), child.take(inside)
        rows = top + child
    rows, edges, trees = (np.concatenate(parts) for parts in zip(*passed, strict=True))
    last = np.empty(len(roots), np.intp)
    last[trees] = np.arange(len(trees))  # of all places in a tree's way the deepest is written last, and stays
    leaf_rows, leaf_edges = rows.take(last), edges.take(last)
    leaf_actions = leaf_edges - leaf_rows * tree.num_actions
    return Descent(rows, edges, trees, leaf_rows, leaf_actions, leaf_edges, child_of.take(leaf_edges))


def _descend_single(tree: Tree, root: int, select: Select) -> SingleDescent:
    """One tree alone, where calls on arrays of one element would cost most of the playout."""
    choose, child_of, num_actions = SINGLE[select], tree.numbers.child, tree.num_actions
    rows, edges = [], []
    row = root
    while True:
        action = choose(tree, row)
        edge = row * num_actions + action
        child = child_of[edge]
        rows.append(row)
        edges.append(edge)
        if child <= 0:
            break
        row = root + child
    end = np.array((row, action, edge, child))
    return SingleDescent(rows, edges, end[0:1], end[1:2], end[2:3], end[3:4])
