# SPDX-License-Identifier: AGPL-3.0-or-later
"""Othello (Reversi) on 4x4, 6x6 or 8x8: enclose the other's stones in straight lines to turn them; most stones win.

Who has no move passes, so one player may move twice running. Rules: World Othello Federation, with the start position
laid out so that player 1 (black) opens with d3, c4, f5 or e6 on 8x8.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import GameError
from azcaffe.games.base import BoolArray, Int8Array, IntArray, State, Symmetry
from azcaffe.games.bits import Words, pack, unpack
from azcaffe.games.board import BoardGame, none_after_the_end, require_int
from azcaffe.games.rollout import nth_legal
from azcaffe.games.symmetry import board_symmetries

_SHIFTS: tuple[Callable[[Words, Words], Words], ...] = (np.left_shift, np.right_shift)


class Othello(BoardGame):
    """Action = row * size + column, row 0 at the top; the last action, size * size, passes."""

    def __init__(self, size: int = 8, history: int = 0) -> None:
        """
        Raises:
            GameError: `size` is not 4, 6 or 8.
        """
        size = require_int("size", size, 4, 8)
        if size % 2:
            raise GameError(f"size must be 4, 6 or 8, not {size}")
        super().__init__(size, size, history)
        self.name = f"othello(size={size})"
        self.num_actions = self.cells + 1
        self.max_plies = 2 * (self.cells - 4)  # never two passes in a row
        # A line of stones to turn runs to the right, down, down right or down left, or the other way round. It never
        # holds a stone of the first or last column unless it is a column, which also keeps shifts from wrapping rows.
        self._distance = np.array([[1], [size], [size + 1], [size - 1]], np.uint64)
        inner = np.ones((4, size, size), np.bool_)
        inner[np.ix_([0, 2, 3], range(size), [0, size - 1])] = False
        self._inner = pack(inner.reshape(4, -1))  # (4, 1)
        self._everywhere = pack(np.ones((1, self.cells), np.bool_))[0, 0]
        self._bit = np.append(np.uint64(1) << np.arange(self.cells, dtype=np.uint64), np.uint64(0))  # a pass sets none

    def with_history(self, history: int) -> Othello:
        return Othello(self.shape[0], history)

    def initial(self, batch: int) -> State:
        state = super().initial(batch)
        half, grid = self.shape[0] // 2, state.board.reshape(batch, *self.shape)
        grid[:, [half - 1, half], [half, half - 1]] = 1
        grid[:, [half - 1, half], [half - 1, half]] = -1
        return state

    def legal(self, state: State) -> BoolArray:
        mine, theirs = self._stones(state.board, state.to_move)
        moves = self._moves(mine, theirs)
        legal = np.empty((len(state), self.num_actions), np.bool_)
        legal[:, :-1] = unpack(moves, self.cells)
        legal[:, -1] = moves == 0
        return none_after_the_end(legal, state.over)

    def step(self, state: State, action: IntArray) -> State:
        mover = state.to_move
        mine, theirs = self._put(*self._stones(state.board, mover), self._bit[action])
        board = (unpack(mine, self.cells).view(np.int8) - unpack(theirs, self.cells).view(np.int8)) * mover[:, None]
        over = self._stuck(mine, theirs)
        winner = np.sign(board.sum(axis=1, dtype=np.int8)) * over
        return self.successor(state, board, -mover, over, winner)

    def rollout(self, state: State, uniforms: NDArray[np.float64]) -> Int8Array:
        # As the general loop does, but bit sets stay bit sets from move to move.
        winner = state.winner.copy()
        rows = np.flatnonzero(~state.over)
        mover = state.to_move[rows]
        mine, theirs = self._stones(state.board[rows], mover)
        passed = np.zeros(len(rows), np.bool_)
        for ply in range(self.max_plies + 2):  # two passes end the game here
            if not len(rows):
                break
            moves = self._moves(mine, theirs)
            none = moves == 0
            ended = none & passed
            if ended.any():
                lead = (unpack(mine, self.cells).view(np.int8) - unpack(theirs, self.cells).view(np.int8)).sum(axis=1)
                winner[rows[ended]] = (np.sign(lead) * mover)[ended]
                rows, mover, mine, theirs, moves, none = (x[~ended] for x in (rows, mover, mine, theirs, moves, none))
            column = min(ply, self.max_plies - 1)
            flags = unpack(moves, self.cells).view(np.bool_)
            action = np.where(none, self.cells, nth_legal(flags, uniforms[rows, column]))
            mine, theirs = self._put(mine, theirs, self._bit[action])
            mine, theirs, mover, passed = theirs, mine, -mover, none
        return winner

    def symmetries(self) -> tuple[Symmetry, ...]:
        return board_symmetries(*self.shape, extra_actions=1)

    def move_name(self, action: int) -> str:
        return "pass" if action == self.cells else super().move_name(action)

    def parse_move(self, text: str) -> int:
        return self.cells if text.strip().lower() in ("pass", str(self.cells)) else super().parse_move(text)

    def move_range(self) -> str:
        return f"{super().move_range()}, or pass ({self.cells})"

    def _stones(self, board: Int8Array, mover: Int8Array) -> tuple[Words, Words]:
        """Bit sets (B,) of the mover's and the opponent's stones."""
        return pack(board == mover[:, None])[:, 0], pack(board == -mover[:, None])[:, 0]

    def _moves(self, mine: Words, theirs: Words) -> Words:
        """Bit sets (B,) of the cells where the owner of `mine` turns at least one stone."""
        turnable = theirs & self._inner  # (4, B)
        ends = np.zeros_like(turnable)
        for shift in _SHIFTS:
            ends |= shift(self._run(mine, turnable, shift), self._distance)
        return np.bitwise_or.reduce(ends, axis=0) & ~(mine | theirs) & self._everywhere

    def _put(self, mine: Words, theirs: Words, stone: Words) -> tuple[Words, Words]:
        """Bit sets (B,) of both after the owner of `mine` puts `stone` (one bit, or none to pass)."""
        turnable = theirs & self._inner
        turned = np.zeros_like(turnable)
        for shift in _SHIFTS:
            run = self._run(stone, turnable, shift)
            turned |= run * (shift(run, self._distance) & mine != 0)
        flips = np.bitwise_or.reduce(turned, axis=0)
        return mine | stone | flips, theirs & ~flips

    def _run(self, start: Words, turnable: Words, shift: Callable[[Words, Words], Words]) -> Words:
        """The stones of `turnable` (4, B) that stand in unbroken lines from `start` (B,) on."""
        run = shift(start, self._distance) & turnable
        for _ in range(self.shape[0] - 3):
            run |= shift(run, self._distance) & turnable
        return run

    def _stuck(self, mine: Words, theirs: Words) -> BoolArray:
        """(B,) bool: neither side has a move."""
        stuck = self._moves(theirs, mine) == 0
        if stuck.any():
            stuck[stuck] = self._moves(mine[stuck], theirs[stuck]) == 0
        return stuck
