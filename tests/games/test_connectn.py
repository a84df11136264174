# SPDX-License-Identifier: AGPL-3.0-or-later
"""Connect-N against known counts and against rules written a second time."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.games.connectn import ConnectN
from tests.games.naive import winner_of
from tests.games.walk import all_positions, played, random_games


def test_7x6_position_counts_by_ply() -> None:
    # John Tromp, https://oeis.org/A212693
    counts = [len(state) for state, _ in all_positions(ConnectN(6, 7, 4), 8)]
    assert counts == [1, 7, 49, 238, 1120, 4263, 16422, 54859, 184275]


@pytest.mark.parametrize("height,width,connect", [(6, 7, 4), (5, 4, 3), (4, 4, 4), (3, 9, 5), (9, 9, 5), (8, 3, 3)])
def test_stones_fall_and_the_naive_winner_wins(height: int, width: int, connect: int) -> None:
    game = ConnectN(height, width, connect)
    for state, _, action, after in random_games(game, 40, np.random.default_rng(height)):
        for row, column in enumerate(action):
            grid = state.board[row].reshape(height, width).tolist()
            lowest = max(r for r in range(height) if grid[r][column] == 0)
            grid[lowest][column] = int(state.to_move[row])
            assert after.board[row].reshape(height, width).tolist() == grid
            winner = winner_of(grid, connect)
            assert after.winner[row] == winner
            assert after.over[row] == (winner != 0 or all(grid[0]))
            legal = [] if after.over[row] else [c for c in range(width) if grid[0][c] == 0]
            assert game.legal(after)[row].nonzero()[0].tolist() == legal


def test_bottom_row_is_the_last_and_column_0_the_left() -> None:
    state = played(ConnectN(6, 7, 4), 0, 6, 0)
    board = state.board.reshape(6, 7)
    assert (board[5, 0], board[5, 6], board[4, 0]) == (1, -1, 1)
    assert np.count_nonzero(board) == 3


def test_drawing_marks_the_stone_that_fell_last() -> None:
    game = ConnectN(4, 5, 4)
    text = game.render(played(game, 2, 2, 4), 0, 2)
    assert text.split("\n") == [
        "    0  1  2  3  4",
        "    .  .  .  .  .",
        "    .  .  .  .  .",
        "    .  . [o] .  .",
        "    .  .  x  .  x",
    ]
