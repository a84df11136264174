# SPDX-License-Identifier: AGPL-3.0-or-later
"""What games with stones of two colours on a rectangular board have in common."""

from __future__ import annotations

from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import GameError
from azcaffe.games.base import BoolArray, Game, Int8Array, State
from azcaffe.games.rollout import play_randomly

LEAST_SIDE, MOST_SIDE = 3, 26
MOST_HISTORY = 32


class BoardGame(Game):
    """Empty board at the start, keys from the stones, text with coordinates, roll-outs move by move.

    A cell's name is its column's letter and its row's number, counted from the top left: `a1` is cell 0.
    """

    def __init__(self, height: int, width: int, history: int) -> None:
        """
        Raises:
            GameError: more past boards than 32, or fewer than 0.
        """
        self.shape = (height, width)
        self.history = require_int("history", history, 0, MOST_HISTORY)

    def initial(self, batch: int) -> State:
        return State(
            np.zeros((batch, self.cells), np.int8),
            np.ones(batch, np.int8),
            np.zeros(batch, np.bool_),
            np.zeros(batch, np.int8),
            np.zeros((batch, self.history, self.cells), np.int8),
        )

    def successor(
        self, state: State, board: Int8Array, to_move: Int8Array, over: BoolArray, winner: Int8Array
    ) -> State:
        """The positions that follow `state`, its board now the newest past one."""
        past = state.past
        if self.history:
            past = np.concatenate([state.board[:, None], past[:, :-1]], axis=1)
        return State(board, to_move, over, winner, past)

    def keys(self, state: State) -> list[bytes]:
        count, size = len(state), self.cells
        everything = np.empty((count, size * (1 + self.history) + 1), np.int8)
        everything[:, :size] = state.board
        everything[:, size] = state.to_move
        if self.history:
            everything[:, size + 1 :] = state.past.reshape(count, -1)
        return everything.view(f"V{everything.shape[1]}")[:, 0].tolist()

    def rollout(self, state: State, uniforms: NDArray[np.float64]) -> Int8Array:
        return play_randomly(self, state, uniforms)

    def move_name(self, action: int) -> str:
        row, column = divmod(action, self.shape[1])
        return f"{ascii_lowercase[column]}{row + 1}"

    def parse_move(self, text: str) -> int:
        word = text.strip().lower()
        action = parse_number(word, self.cells)
        if action is None and len(word) > 1 and word[0] in ascii_lowercase[: self.shape[1]]:
            row = parse_number(word[1:], self.shape[0] + 1)
            if row:
                action = (row - 1) * self.shape[1] + ascii_lowercase.index(word[0])
        if action is None:
            raise GameError(f"{text.strip()!r} is not a move: {self.move_range()}")
        return action

    def move_range(self) -> str:
        last = self.cells - 1
        return f"a square a1 … {self.move_name(last)} (column letter, row number from the top) or its number 0 … {last}"

    def action_map(self) -> str:
        """The board with each square's action in it, then the actions that are no squares."""
        width = self.shape[1]
        size = len(str(self.cells - 1)) + 2
        lines = ["   " + "".join(name.rjust(size) for name in self.column_names())]
        for row, name in enumerate(self.row_names()):
            lines.append(f"{name:>3}" + "".join(str(row * width + column).rjust(size) for column in range(width)))
        lines += [f"{action} = {self.move_name(action)}" for action in range(self.cells, self.num_actions)]
        return "\n".join(lines)

    def render(self, state: State, row: int = 0, last: int | None = None) -> str:
        """Rows of x, o and `.`; the stone of action `last` stands in brackets."""
        height, width = self.shape
        marked = self.cell_of(state, row, last)
        lines = ["    " + "  ".join(self.column_names())]
        for r in range(height):
            text = f"{self.row_names()[r]:>2} "
            for cell in range(r * width, (r + 1) * width):
                stone = ".xo"[state.board[row, cell]]
                text += f"[{stone}]" if cell == marked else f" {stone} "
            lines.append(text.rstrip())
        return "\n".join(lines)

    def cell_of(self, state: State, row: int, action: int | None) -> int | None:
        """The cell on which the last move `action` put a stone, None for no move or a pass."""
        return action if action is not None and action < self.cells else None

    def column_names(self) -> list[str]:
        """Names over the columns of a drawn board."""
        return list(ascii_lowercase[: self.shape[1]])

    def row_names(self) -> list[str]:
        """Names beside the rows of a drawn board."""
        return [str(row + 1) for row in range(self.shape[0])]


def none_after_the_end(moves: BoolArray, over: BoolArray) -> BoolArray:
    """`moves` (B, A), all False where the game is `over` (B,)."""
    return moves & ~over[:, None] if np.count_nonzero(over) else moves


def require_int(what: str, value: int, least: int, most: int) -> int:
    """`value` itself, when it is a whole number in least … most.

    Raises:
        GameError: it is not; the message states the range.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise GameError(f"{what} must be a whole number from {least} to {most}, not {value!r}")
    return int(value)


def parse_number(text: str, count: int) -> int | None:
    """The number 0 … count-1 that `text` writes in plain digits, else None."""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) >= count:
        return None
    return int(text)
