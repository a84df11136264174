# SPDX-License-Identifier: AGPL-3.0-or-later
"""Games of uniformly random moves, many at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import Game, Int8Array, State


def play_randomly(game: Game, state: State, uniforms: NDArray[np.float64]) -> Int8Array:
    """Winners (B,) of random play, move by move: works for every game.

    `uniforms` (B, max_plies): column t decides the t-th move from here; position b looks at row b alone.
    """
    winner = state.winner.copy()
    rows = np.flatnonzero(~state.over)
    state = state.take(rows)
    for ply in range(game.max_plies):
        if not len(rows):
            break
        state = game.step(state, nth_legal(game.legal(state), uniforms[rows, ply]))
        if state.over.any():
            winner[rows[state.over]] = state.winner[state.over]
            rows, state = rows[~state.over], state.take(~state.over)
    return winner


def random_step(game: Game, state: State, rng: np.random.Generator) -> tuple[int, State]:
    """A legal action of one position (B = 1), all equally likely, and the position after it; one draw from `rng`."""
    action = int(rng.choice(game.legal(state)[0].nonzero()[0]))
    return action, game.step(state, np.array([action]))


def nth_legal(legal: NDArray[np.bool_], uniforms: NDArray[np.float64]) -> NDArray[np.intp]:
    """One legal action (B,) of each row of `legal` (B, A), all equally likely under `uniforms` (B,) in [0, 1)."""
    counted = legal.cumsum(axis=1, dtype=np.int16)
    wanted = (uniforms * counted[:, -1]).astype(np.int16) + 1
    return (counted == wanted[:, None]).argmax(axis=1)


def fill(board: Int8Array, to_move: Int8Array, times: NDArray[np.float64]) -> NDArray[np.int16]:
    """Let the empty cells of `board` (B, cells) fall, in the order of `times` (B, cells) >= 0, to the players in turn.

    Returns owner * turn (B, cells) int16 of every cell: turn 1 for stones already there, then 2, 3, … as cells fall.
    """
    count, cells = board.shape
    empty = board == 0
    # Sorting numbers is three times as fast as argsort. Bits of floats >= 0 sort like the floats; the lowest ten, too
    # fine to matter, make room for the cell's number (a board has at most 26 * 26 cells).
    order = np.where(empty, times, 0.0).view(np.int64)
    order &= ~1023
    order |= np.where(empty, 1024 + np.arange(cells), np.arange(cells))  # stones come first, whatever the times
    order.sort(axis=1)
    order &= 1023
    order += (np.arange(count) * cells)[:, None]
    stones = cells - np.count_nonzero(empty, axis=1)
    turn = np.arange(2, cells + 2) - stones[:, None]  # (B, cells): the first empty cell falls at turn 2, to the mover
    signed = np.empty((count, cells), np.int16)
    signed.reshape(-1)[order] = turn * (1 - 2 * (turn & 1)) * to_move[:, None]
    return np.where(empty, signed, board)
