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


def nth_legal(legal: NDArray[np.bool_], uniforms: NDArray[np.float64]) -> NDArray[np.intp]:
    """One legal action (B,) of each row of `legal` (B, A), all equally likely under `uniforms` (B,) in [0, 1)."""
    counted = legal.cumsum(axis=1, dtype=np.int16)
    wanted = (uniforms * counted[:, -1]).astype(np.int16) + 1
    return (counted == wanted[:, None]).argmax(axis=1)


def fill(
    board: Int8Array, to_move: Int8Array, times: NDArray[np.float64]
) -> tuple[Int8Array, NDArray[np.int16]]:
    """Let the empty cells of `board` (B, cells) fall, in the order of `times` (B, cells) > 0, to the players in turn.

    Returns the owner (B, cells) int8 of every cell and the turn (B, cells) int16 of its fall, 1 for stones already there.
    """
    count, cells = board.shape
    empty = board == 0
    order = np.where(empty, times, 0.0).argsort(axis=1)  # stones first
    turn = np.empty((count, cells), np.int16)
    np.put_along_axis(turn, order, np.arange(1, cells + 1, dtype=np.int16), axis=1)
    turn -= np.count_nonzero(board, axis=1).astype(np.int16)[:, None]  # empty cells: 1, 2, …
    mover = (turn & 1).astype(np.int8) * 2 - 1  # 1 for the player to move
    return np.where(empty, mover * to_move[:, None], board), np.where(empty, turn + np.int16(1), np.int16(1))
