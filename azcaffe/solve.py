# SPDX-License-Identifier: AGPL-3.0-or-later
"""Small games solved outright: every reachable position, its value, its best moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import GameError
from azcaffe.games.base import Game, State, concatenate

MAX_POSITIONS = 300_000
CHUNK = 4096


@dataclass(frozen=True)
class Layer:
    """The n different positions reachable in exactly so many plies.

    Attributes:
        states: the positions (n).
        value: (n,) int8, the result under best play for the mover (of an ended game: for player 1).
        optimal: (n, A) bool, the legal moves that reach it; all False where the game is over.
    """

    states: State
    value: NDArray[np.int8]
    optimal: NDArray[np.bool_]


def solve(game: Game, limit: int = MAX_POSITIONS) -> list[Layer]:
    """All positions by ply, solved from the end backwards.

    Raises:
        GameError: there are more than `limit` positions.
    """
    layers = [game.initial(1)]
    children: list[NDArray[np.intp]] = []  # (n, A): row in the next layer, -1 where illegal
    total = 1
    while True:
        successors, child = _expand(game, layers[-1], limit - total)
        children.append(child)
        if not len(successors):
            break
        layers.append(successors)
        total += len(successors)
    solved: list[Layer] = []
    below = np.zeros(0, np.int8)  # results of the next layer, for player 1
    for states, child in zip(reversed(layers), reversed(children), strict=True):
        legal = child >= 0
        result = below[child] if len(below) else np.zeros(child.shape, np.int8)  # (n, A), for player 1
        mine = np.where(legal, result * states.to_move[:, None], -2).astype(np.int8)
        best = mine.max(axis=1)
        value = np.where(states.over, states.winner, best).astype(np.int8)
        solved.append(Layer(states, value, legal & (mine == best[:, None])))
        below = np.where(states.over, states.winner, best * states.to_move).astype(np.int8)
    return solved[::-1]


def _expand(game: Game, states: State, room: int) -> tuple[State, NDArray[np.intp]]:
    """The different positions one ply on, and (n, A) which move leads to which of them."""
    legal = game.legal(states)
    rows, actions = legal.nonzero()
    place: dict[bytes, int] = {}
    targets = np.empty(len(rows), np.intp)
    kept = [states.take(np.zeros(0, np.intp))]
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        after = game.step(states.take(rows[part]), actions[part])
        fresh = []
        for at, key in enumerate(game.keys(after)):
            known = len(place)
            targets[start + at] = place.setdefault(key, known)
            if len(place) > known:
                fresh.append(at)
        kept.append(after.take(np.array(fresh, np.intp)))
        if len(place) > room:
            raise GameError(f"{game.name} has more positions than can be walked here")
    child = np.full(legal.shape, -1, np.intp)
    child[rows, actions] = targets
    return concatenate(kept), child
