# SPDX-License-Identifier: AGPL-3.0-or-later
"""Ways through a game for tests: all positions ply by ply, and random games."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import Game, State
from azcaffe.games.rollout import nth_legal


def played(game: Game, *moves: int) -> State:
    """The position (a batch of one) after `moves`."""
    state = game.initial(1)
    for move in moves:
        state = game.play(state, np.array([move]))
    return state


def all_positions(game: Game, plies: int) -> Iterator[tuple[State, NDArray[np.int64]]]:
    """For each ply 0 … `plies`: the different positions, and in how many games each is reached."""
    state, games = game.initial(1), np.ones(1, np.int64)
    yield state, games
    for _ in range(plies):
        rows, actions = game.legal(state).nonzero()
        if not len(rows):
            return
        state, games = game.step(state.take(rows), actions), games[rows]
        keys = game.keys(state)
        number = {key: at for at, key in enumerate(dict.fromkeys(keys))}
        inverse = np.array([number[key] for key in keys])
        _, first = np.unique(inverse, return_index=True)
        state, games = state.take(first), np.bincount(inverse, weights=games).astype(np.int64)
        yield state, games


def random_games(game: Game, count: int, rng: np.random.Generator) -> Iterator[tuple[State, NDArray, NDArray, State]]:
    """Plies of `count` random games: (positions under way, which games they are, moves, positions after)."""
    state, index = game.initial(count), np.arange(count)
    while len(index):
        action = nth_legal(game.legal(state), rng.random(len(index)))
        after = game.play(state, action)
        yield state, index, action, after
        state, index = after.take(~after.over), index[~after.over]


def random_position(game: Game, plies: int, rng: np.random.Generator) -> State:
    """A position (a batch of one) after `plies` random moves; one ply fewer until the game is not over."""
    positions = [game.initial(1)]
    for _, _, _, after in random_games(game, 1, rng):
        positions.append(after)
    return [p for p in positions[: plies + 1] if not p.over[0]][-1]
