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
        masks = pack(on_line)[np.array([np.resize(lines, most) for lines in through])]  # (cells, most, words)
        self._masks = masks[:, :, 0] if masks.shape[2] == 1 else masks

    def completed(self, board: Int8Array, cell: NDArray[np.integer], player: Int8Array) -> BoolArray:
        """(B,) bool: `player` (B,) owns a whole line through `cell` (B,) of `board` (B, cells)."""
        missing = pack(board != player[:, None])
        if self._masks.ndim == 2:
            return ~(self._masks.take(cell, axis=0) & missing).all(axis=1)
        return ~(self._masks.take(cell, axis=0) & missing[:, None]).any(axis=2).all(axis=1)

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
