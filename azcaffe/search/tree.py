# SPDX-License-Identifier: AGPL-3.0-or-later
"""The search trees of many games, side by side, as a struct of arrays.

Axes: S slots (one tree each), M nodes a tree, A actions. A node lives in row `slot * M + node` of every array; node 0
of a tree is its root. Nodes are numbered in the order they are made, so a parent's number is below its children's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import Game, State

UNVISITED = 0
"""`child` of an edge never taken. A root is nobody's child, so 0 is free for this."""

TERMINAL = -2
"""`child` of an edge that ends the game is TERMINAL + winner: -3, -2, -1. Ended positions need no node."""


class Numbers(NamedTuple):
    """Arrays of a tree, flat, for one number at a time: there a memoryview costs a fraction of what NumPy does."""

    score: memoryview[float]
    prior: memoryview[float]
    visits: memoryview[int]
    value_sum: memoryview[float]
    child: memoryview[int]
    node_visits: memoryview[int]
    explore: memoryview[float]
    to_move: memoryview[int]


class Tree:
    """S trees of up to M nodes; M grows by doubling.

    Attributes:
        score: (S*M, 2, A) float32, the two halves of the PUCT score, kept up to date by backup so that selection is
            one gather: [:, 0] the mean value Q for the node's mover (0 unvisited, -inf where the move is illegal),
            [:, 1] P / (1 + N).
        prior: (S*M, A) float32, P over legal moves, sums to 1; at a root with noise, the mixed one.
        visits: (S*M, A) int32, N, playouts through each edge.
        value_sum: (S*M, A) float64, W, their values for the mover at this node.
        child: (S*M, A) int32, the node an edge leads to, UNVISITED, or TERMINAL + winner.
        node_visits: (S*M,) int32, 1 for the visit that expanded the node (0 for a fresh root) + its edges' visits.
        explore: (S*M,) float32, c_puct * sqrt(node_visits).
        net_value: (S*M,) float32, the evaluator's value of the node, for its mover.
        parent: (S*M,) int32, the node above; a root's is itself.
        states: S*M positions.
        used: (S,) int32, nodes in each tree; 0: the root waits to be evaluated.
        numbers: the same memory, for reading and writing single numbers.
        gathered: (S, 2, A) float32, scratch space of the selection rule: scores.
        totals: (S, A) float32, the same: their sums.
    """

    def __init__(self, game: Game, slots: int, nodes: int, c_puct: float) -> None:
        self.slots = slots
        self.nodes = nodes
        self.num_actions = game.num_actions
        self.c_puct = float(np.float32(c_puct))
        self._mean_when_new = np.array([-np.inf, 0], np.float32)  # of an illegal, of a legal move
        rows, actions = slots * nodes, game.num_actions
        # np.zeros takes untouched pages from the system: rows cost memory only once a node is in them.
        self.score = np.zeros((rows, 2, actions), np.float32)
        self.prior = np.zeros((rows, actions), np.float32)
        self.visits = np.zeros((rows, actions), np.int32)
        self.value_sum = np.zeros((rows, actions), np.float64)
        self.child = np.zeros((rows, actions), np.int32)
        self.node_visits = np.zeros(rows, np.int32)
        self.explore = np.zeros(rows, np.float32)
        self.net_value = np.zeros(rows, np.float32)
        self.parent = np.zeros(rows, np.int32)
        self.states = _empty_states(game, rows)
        self.used = np.zeros(slots, np.int32)
        self.numbers = self._numbers()
        self.gathered = np.empty((slots, 2, actions), np.float32)
        self.totals = np.empty((slots, actions), np.float32)

    def roots(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """Rows (n,) of the roots of `slots` (n,)."""
        return slots * self.nodes

    def add(
        self,
        slots: NDArray[np.intp],
        states: State,
        prior: NDArray[np.float32],
        legal: NDArray[np.bool_],
        net_value: NDArray[np.float32],
        above: NDArray[np.intp],
        first_visits: int,
    ) -> NDArray[np.int32]:
        """Put one new node in each of `slots` (n, all different); returns the nodes' numbers (n,) int32.

        `prior` (n, A) is masked and sums to 1; `above` (n,) are the rows of the nodes above, a root's its own;
        `first_visits` is 1 for a leaf, 0 for a fresh root. There must be :meth:`room`.
        """
        rows: NDArray[np.intp] | slice
        parent: NDArray[np.intp] | int
        if len(slots) == 1:  # whole numbers and slices cost a quarter of what index arrays of one do
            slot = int(slots[0])
            node, top = int(self.used[slot]), slot * self.nodes
            self.used[slot] = node + 1
            rows, parent = slice(top + node, top + node + 1), int(above[0]) - top
            nodes = np.array([node], np.int32)
        else:
            tops = slots * self.nodes
            nodes = self.used.take(slots)
            self.used[slots] = nodes + 1
            rows, parent = tops + nodes, above - tops
        self.prior[rows] = prior
        self.score[rows, 0] = self._mean_when_new.take(legal)
        self.score[rows, 1] = prior
        self.node_visits[rows] = first_visits
        self.explore[rows] = self.c_puct * first_visits  # the root of 0 or 1
        self.net_value[rows] = net_value
        self.parent[rows] = parent
        # No node's game is over, so of a position only these change; ended positions occur at roots alone, through
        # `reset`.
        self.states.board[rows] = states.board
        self.states.to_move[rows] = states.to_move
        if states.past.shape[1]:
            self.states.past[rows] = states.past
        return nodes

    def positions(self, rows: NDArray[np.intp]) -> State:
        """The positions (n) at nodes that are not over, copied."""
        states, count = self.states, len(rows)
        return State(
            states.board.take(rows, axis=0),
            states.to_move.take(rows),
            np.zeros(count, np.bool_),
            np.zeros(count, np.int8),
            states.past.take(rows, axis=0),
        )

    def room(self, slots: NDArray[np.intp]) -> int:
        """How many more nodes fit in the fullest of `slots`; where none does, trees grow (rows move, numbers stay)."""
        left = self.nodes - int(self.used[slots].max())
        if left == 0:
            left = self.nodes
            self._grow()
        return left

    def clear(self, slots: NDArray[np.intp]) -> None:
        """Empty these trees; the position at each root stays."""
        for slot in slots:
            self._wipe(slot, 0)

    def reroot(self, slot: int, action: int) -> bool:
        """Make the child behind `action` the root and keep only its subtree; False if there is no such node."""
        top = slot * self.nodes
        new_root = int(self.child[top, action])
        if self.used[slot] == 0 or new_root <= 0:
            return False
        used = int(self.used[slot])
        rows = slice(top, top + used)
        # Pointer jumping: with the new root its own parent, repeated ancestor look-ups end at it or at the old root.
        ancestor = self.parent[rows].copy()
        ancestor[new_root] = new_root
        while True:
            further = ancestor[ancestor]
            if np.array_equal(further, ancestor):
                break
            ancestor = further
        keep = np.flatnonzero(ancestor == new_root)  # ascending, so parents stay before children and the root is first
        number = np.zeros(used, np.int32)
        number[keep] = np.arange(len(keep), dtype=np.int32)
        source = top + keep
        target = slice(top, top + len(keep))
        for array in self._node_arrays():
            array[target] = array[source]
        child = self.child[target]
        inner = child > 0
        child[inner] = number[child[inner]]
        self.parent[target] = number[self.parent[target]]
        self._wipe(slot, len(keep))
        return True

    def _node_arrays(self) -> tuple[NDArray, ...]:
        statistics = (self.score, self.prior, self.visits, self.value_sum, self.child)
        per_node = (self.node_visits, self.explore, self.net_value, self.parent)
        return statistics + per_node + _columns(self.states)

    def _wipe(self, slot: int, keep: int) -> None:
        """Forget all but the first `keep` nodes: `add` relies on zeros in what it does not write."""
        rows = slice(slot * self.nodes + keep, slot * self.nodes + int(self.used[slot]))
        for array in (self.visits, self.value_sum, self.child):
            array[rows] = 0
        self.used[slot] = keep

    def _grow(self) -> None:
        """Double M."""
        old, new = self.nodes, self.nodes * 2

        def grown(array: NDArray) -> NDArray:
            larger = np.zeros((self.slots, new, *array.shape[1:]), array.dtype)
            larger[:, :old] = array.reshape(self.slots, old, *array.shape[1:])
            return larger.reshape(self.slots * new, *array.shape[1:])

        for name in ("score", "prior", "visits", "value_sum", "child", "node_visits", "explore", "net_value", "parent"):
            setattr(self, name, grown(getattr(self, name)))
        self.states = State(*(grown(array) for array in _columns(self.states)))
        self.nodes = new
        self.numbers = self._numbers()

    def _numbers(self) -> Numbers:
        def flat(array: Any) -> memoryview[Any]:
            return memoryview(array.reshape(-1))

        edges = (self.score, self.prior, self.visits, self.value_sum, self.child)
        return Numbers(*map(flat, (*edges, self.node_visits, self.explore, self.states.to_move)))


def _empty_states(game: Game, rows: int) -> State:
    return State(*(np.zeros((rows, *array.shape[1:]), array.dtype) for array in _columns(game.initial(1))))


def _columns(states: State) -> tuple[NDArray, ...]:
    return states.board, states.to_move, states.over, states.winner, states.past
