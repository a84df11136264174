# SPDX-License-Identifier: AGPL-3.0-or-later
"""N in a row: the winning lines of a board, and who has one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import BoolArray, Int8Array
from azcaffe.games.bits import pack

DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


class Lines:
    """The L straight lines of `connect` cells on a height x width board.

    Attributes:
        cells: (L, connect) int64, the cells of each line, row-major numbers.
    """

    def __init__(self, height: int, width: int, connect: int) -> None:
        self.connect = connect
        self.cells = np.array([
            [(row + i * down) * width + column + i * right for i in range(connect)]
            for down, right in DIRECTIONS
            for row in range(height - (connect - 1) * down)
            for column in range(width)
            if 0 <= column + (connect - 1) * right < width
        ])  # fmt: skip
        on_line = np.zeros((len(self.cells), height * width), np.bool_)
        np.put_along_axis(on_line, self.cells, True, axis=1)
        through = [np.flatnonzero(line) for line in on_line.T]
        most = max(map(len, through))
        # Every cell gets `most` lines: those with fewer repeat theirs, which changes nothing.
        number = [int.from_bytes(line.tobytes(), "little") for line in on_line]
        full = {player: [(0xFF * line, stone * line) for line in number] for player, stone in ((1, 0x01), (-1, 0xFF))}
        # player, cell, line through it -> (mask, the line full of the player's stones)
        self._full = {player: [[pairs[i] for i in lines] for lines in through] for player, pairs in full.items()}
        masks = pack(on_line)[np.array([np.resize(lines, most) for lines in through])]  # (cells, most, words)
        self._masks = masks.transpose(2, 1, 0).copy()  # (words, most, cells)

    def completed(self, board: Int8Array, cell: NDArray[np.integer], player: Int8Array) -> BoolArray:
        """(B,) bool: `player` (B,) owns a whole line through `cell` (B,) of `board` (B, cells)."""
        if len(board) == 1:
            return np.array([self._completed_single(board, int(cell[0]), int(player[0]))])
        missing = pack(board != player[:, None])
        lacking = self._masks[0].take(cell, axis=1) & missing[:, 0]  # (most, B)
        for word in range(1, len(self._masks)):
            lacking |= self._masks[word].take(cell, axis=1) & missing[:, word]
        return ~np.logical_and.reduce(lacking, axis=0)

    def _completed_single(self, board: Int8Array, cell: int, player: int) -> bool:
        """The same for a single board (1, cells), where NumPy would spend its time on calls: the board as one whole
        number, a byte a cell, a stone 0x01 or 0xff."""
        stones = int.from_bytes(board.tobytes(), "little")
        return any(stones & mask == full for mask, full in self._full[player][cell])

    def first_completed(self, signed: NDArray[np.int16]) -> Int8Array:
        """Whose line stands first, (B,) int8, when every cell falls to its owner at its turn > 0; 0: nobody's.

        `signed` (B, cells) is owner * turn. A line stands as soon as its last cell has fallen.
        """
        turns = np.ascontiguousarray(signed.T).take(self.cells.T, axis=0)  # (connect, L, B): whole rows are copied
        low, high = turns.min(axis=0), turns.max(axis=0)
        never = np.int16(np.iinfo(np.int16).max)
        first = np.where(low > 0, high, never).min(axis=0)
        second = np.where(high < 0, -low, never).min(axis=0)
        return np.sign(second - first).astype(np.int8)
