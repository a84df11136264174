# SPDX-License-Identifier: AGPL-3.0-or-later
"""Connect-N on any board: a stone falls to the lowest empty cell of its column; `connect` in a row win."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import GameError
from azcaffe.games.base import BoolArray, Int8Array, IntArray, State, Symmetry
from azcaffe.games.board import LEAST_SIDE, MOST_SIDE, BoardGame, none_after_the_end, parse_number, require_int
from azcaffe.games.lines import Lines
from azcaffe.games.rollout import fill
from azcaffe.games.symmetry import gravity_symmetries


class ConnectN(BoardGame):
    """Action = column, 0 at the left."""

    def __init__(self, height: int = 6, width: int = 7, connect: int = 4, history: int = 0) -> None:
        """
        Raises:
            GameError: a side outside 3 … 26, or `connect` outside 3 … the longer side.
        """
        height = require_int("height", height, LEAST_SIDE, MOST_SIDE)
        width = require_int("width", width, LEAST_SIDE, MOST_SIDE)
        connect = require_int("connect", connect, LEAST_SIDE, max(height, width))
        super().__init__(height, width, history)
        self.name = f"connectn(height={height},width={width},connect={connect})"
        self.num_actions = width
        self.max_plies = self.cells
        self._connect = connect
        self._lines = Lines(height, width, connect)
        self._upwards = np.arange(self.cells).reshape(height, width)[::-1].T.copy()  # (width, height), bottom first

    def with_history(self, history: int) -> ConnectN:
        return ConnectN(*self.shape, self._connect, history)

    def legal(self, state: State) -> BoolArray:
        return none_after_the_end(state.board[:, : self.num_actions] == 0, state.over)

    def step(self, state: State, action: IntArray) -> State:
        width, mover = self.num_actions, state.to_move
        board, games = state.board.copy(), np.arange(len(state))
        column = board[games[:, None], self._upwards.take(action, axis=0)]  # (B, height)
        cell = self.cells - width * ((column == 0).argmax(axis=1) + 1) + action
        board[games, cell] = mover
        won = self._lines.completed(board, cell, mover)
        full = board[:, :width].all(axis=1)
        return self.successor(state, board, to_move=-mover, over=won | full, winner=won * mover)

    def rollout(self, state: State, uniforms: NDArray[np.float64]) -> Int8Array:
        # Let stones rain on each column in a Poisson process of its own. Its memory is empty, so the next stone is
        # equally likely to fall on any column that has room: a random game in one pass, with the winner read off as in
        # tic-tac-toe.
        gaps = np.where(state.board == 0, -np.log1p(-uniforms), 0.0).reshape(-1, *self.shape)
        times = gaps[:, ::-1].cumsum(axis=1)[:, ::-1].reshape(-1, self.cells)
        signed = fill(state.board, state.to_move, times)
        return np.where(state.over, state.winner, self._lines.first_completed(signed))

    def symmetries(self) -> tuple[Symmetry, ...]:
        return gravity_symmetries(*self.shape)

    def move_name(self, action: int) -> str:
        return f"column {action}"

    def parse_move(self, text: str) -> int:
        action = parse_number(text.strip().lower().removeprefix("column").strip(), self.num_actions)
        if action is None:
            raise GameError(f"{text.strip()!r} is not a move: {self.move_range()}")
        return action

    def move_range(self) -> str:
        return f"a column 0 … {self.num_actions - 1}, 0 at the left"

    def action_map(self) -> str:
        columns = "".join(str(column).rjust(4) for column in range(self.num_actions))
        return f"column{columns}   (0 at the left)\naction{columns}"

    def cell_of(self, state: State, row: int, action: int | None) -> int | None:
        if action is None:
            return None
        filled = np.flatnonzero(state.board[row, self._upwards[action]])
        return int(self._upwards[action, filled[-1]]) if len(filled) else None

    def column_names(self) -> list[str]:
        return [str(column) for column in range(self.num_actions)]

    def row_names(self) -> list[str]:
        return [""] * self.shape[0]
