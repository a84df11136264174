# SPDX-License-Identifier: AGPL-3.0-or-later
"""Rules written once more, in plain Python and from the rule books alone: what the fast ones are compared with."""

from __future__ import annotations

Grid = list[list[int]]
EVERYWHERE = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if (down, right) != (0, 0)]


def stones_in_a_row(grid: Grid, row: int, column: int, down: int, right: int) -> int:
    """How many stones of the colour at (row, column) follow each other in one direction, itself included."""
    colour, count = grid[row][column], 0
    while 0 <= row < len(grid) and 0 <= column < len(grid[0]) and grid[row][column] == colour:
        count += 1
        row, column = row + down, column + right
    return count


def winner_of(grid: Grid, connect: int) -> int:
    """1 or -1 if that player has `connect` in a row anywhere, else 0."""
    for row in range(len(grid)):
        for column in range(len(grid[0])):
            if grid[row][column] != 0:
                for down, right in EVERYWHERE:
                    if stones_in_a_row(grid, row, column, down, right) >= connect:
                        return grid[row][column]
    return 0


def othello_flips(grid: Grid, row: int, column: int, player: int) -> list[tuple[int, int]]:
    """The stones that `player` turns by a move to (row, column)."""
    flips = []
    for down, right in EVERYWHERE:
        line = []
        r, c = row + down, column + right
        while 0 <= r < len(grid) and 0 <= c < len(grid) and grid[r][c] == -player:
            line.append((r, c))
            r, c = r + down, c + right
        if 0 <= r < len(grid) and 0 <= c < len(grid) and grid[r][c] == player:
            flips += line
    return flips


def othello_moves(grid: Grid, player: int) -> set[int]:
    """Cells where `player` may move."""
    size = len(grid)
    return {
        row * size + column
        for row in range(size)
        for column in range(size)
        if grid[row][column] == 0 and othello_flips(grid, row, column, player)
    }
