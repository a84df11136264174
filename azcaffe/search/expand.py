# SPDX-License-Identifier: AGPL-3.0-or-later
"""The leaf: step the game, ask the evaluator, hang a node on the tree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import Game, State
from azcaffe.search.descend import Descent, SingleDescent
from azcaffe.search.tree import TERMINAL, UNVISITED, Tree

Evaluate = Callable[[State, NDArray[np.intp]], tuple[NDArray[np.float32], NDArray[np.float32]]]
"""`evaluate(states (B), slots (B,)) -> priors (B, A) float32, values (B,) float32`.

Values are for the mover of each position, in [-1, 1]. Priors need not be masked. `slots` says which tree asks: only
an evaluator that draws random numbers looks at it. An evaluator with a method `seed(slots, generators)` is given the
games' own streams.
"""


def masked_priors(priors: NDArray[np.float32], legal: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Priors (B, A) over legal moves, each row summing to 1; uniform where the net left nothing to a legal move."""
    masked = priors * legal
    total = np.add.reduce(masked, axis=1, keepdims=True)
    if np.count_nonzero(total) < len(total):
        empty = (total == 0)[:, 0]
        masked[empty] = legal[empty]
        total = masked.sum(axis=1, keepdims=True)
    masked /= total
    return masked


def for_player_one(values: NDArray[np.float32], to_move: NDArray[np.int8], variant: str) -> NDArray[np.float64]:
    """Values (B,) of the movers, as player 1 sees them; `original` repeats the published error and leaves them."""
    return values.astype(np.float64) if variant == "original" else np.multiply(values, to_move, dtype=np.float64)


def expand_roots(game: Game, tree: Tree, slots: NDArray[np.intp], evaluate: Evaluate) -> int:
    """Evaluate the roots that wait for it; returns how many. A root's evaluation is not a visit."""
    waiting = slots[tree.used[slots] == 0]
    if len(waiting):
        roots = tree.roots(waiting)
        states = tree.states.take(roots)
        priors, values = evaluate(states, waiting)
        legal = game.legal(states)
        tree.add(waiting, states, masked_priors(priors, legal), legal, values, roots, 0)
    return len(waiting)


def expand(
    game: Game, tree: Tree, slots: NDArray[np.intp], way: Descent | SingleDescent, evaluate: Evaluate, variant: str
) -> tuple[NDArray[np.float64], int]:
    """Give each leaf of `way` its value (n,) float64, player 1's view; new positions get nodes.

    Returns the values and how many positions were evaluated: an ended game needs no evaluation.
    """
    rows, actions, edges, asking = way.leaf_rows, way.leaf_actions, way.leaf_edges, slots
    new = way.leaf_child == UNVISITED
    count = np.count_nonzero(new)
    index: NDArray[np.intp] | slice = slice(None)
    if count == len(new):
        value = np.empty(count)
    else:
        value = (way.leaf_child - TERMINAL).astype(np.float64)
        if not count:
            return value, 0
        index = new.nonzero()[0]
        rows, actions, edges, asking = rows[index], actions[index], edges[index], asking[index]
    states = game.step(tree.positions(rows), actions)
    child = tree.child.reshape(-1)
    if np.count_nonzero(states.over):
        over = states.over.nonzero()[0]
        live = (~states.over).nonzero()[0]
        winner = states.winner.take(over)
        child[edges[over]] = winner + np.int32(TERMINAL)
        places = np.arange(count) if isinstance(index, slice) else index
        value[places[over]] = winner
        if not len(live):
            return value, 0
        rows, edges, asking, index = rows[live], edges[live], asking[live], places[live]
        states = states.take(live)
    priors, values = evaluate(states, asking)
    legal = game.legal(states)
    nodes = tree.add(asking, states, masked_priors(priors, legal), legal, values, rows, 1)
    child[edges] = nodes
    value[index] = for_player_one(values, states.to_move, variant)
    return value, len(asking)
