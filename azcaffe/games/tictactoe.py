# SPDX-License-Identifier: AGPL-3.0-or-later
"""Tic-tac-toe on any board: put a stone on an empty cell; `connect` in a row win."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import BoolArray, Int8Array, IntArray, State, Symmetry
from azcaffe.games.board import LEAST_SIDE, MOST_SIDE, BoardGame, none_after_the_end, require_int
from azcaffe.games.lines import Lines
from azcaffe.games.rollout import fill
from azcaffe.games.symmetry import board_symmetries


class TicTacToe(BoardGame):
    """Action = row * width + column, row 0 at the top."""

    def __init__(self, height: int = 6, width: int = 6, connect: int = 4, history: int = 0) -> None:
        """
        Raises:
            GameError: a side outside 3 … 26, or `connect` outside 3 … the longer side.
        """
        height = require_int("height", height, LEAST_SIDE, MOST_SIDE)
        width = require_int("width", width, LEAST_SIDE, MOST_SIDE)
        connect = require_int("connect", connect, LEAST_SIDE, max(height, width))
        super().__init__(height, width, history)
        self.name = f"tictactoe(height={height},width={width},connect={connect})"
        self.num_actions = self.max_plies = self.cells
        self._connect = connect
        self._lines = Lines(height, width, connect)

    def with_history(self, history: int) -> TicTacToe:
        return TicTacToe(*self.shape, self._connect, history)

    def legal(self, state: State) -> BoolArray:
        return none_after_the_end(state.board == 0, state.over)

    def step(self, state: State, action: IntArray) -> State:
        board, mover = state.board.copy(), state.to_move
        board.put(np.arange(0, board.size, self.cells) + action, mover)
        won = self._lines.completed(board, action, mover)
        over = won | np.logical_and.reduce(board, axis=1)
        return self.successor(state, board, to_move=-mover, over=over, winner=won * mover)

    def rollout(self, state: State, uniforms: NDArray[np.float64]) -> Int8Array:
        # Random play is a random order of the empty cells: fill the whole board and see whose line stood first.
        signed = fill(state.board, state.to_move, uniforms)
        return np.where(state.over, state.winner, self._lines.first_completed(signed))

    def symmetries(self) -> tuple[Symmetry, ...]:
        return board_symmetries(*self.shape)
