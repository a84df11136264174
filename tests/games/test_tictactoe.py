# SPDX-License-Identifier: AGPL-3.0-or-later
"""Tic-tac-toe against known counts and against rules written a second time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from azcaffe.games.lines import Lines
from azcaffe.games.tictactoe import TicTacToe
from tests.games.naive import winner_of
from tests.games.walk import all_positions, played, random_games


def test_3x3_has_5478_positions_and_255168_games() -> None:
    # The usual figures, e.g. https://en.wikipedia.org/wiki/Tic-tac-toe#Combinatorics
    positions = 0
    games = {1: 0, 0: 0, -1: 0}
    for state, ways in all_positions(TicTacToe(3, 3, 3), 9):
        positions += len(state)
        for winner in games:
            games[winner] += int(ways[state.over & (state.winner == winner)].sum())
    assert positions == 5478
    assert games == {1: 131184, 0: 46080, -1: 77904}
    assert sum(games.values()) == 255168


BOARDS = [
    (3, 3, 3),
    (4, 4, 3),
    (5, 5, 4),
    (6, 6, 4),
    (7, 7, 5),
    (9, 9, 5),
    (3, 7, 4),
    (8, 5, 3),
    (12, 13, 6),
    (3, 26, 12),
]


@pytest.mark.parametrize("height,width,connect", BOARDS)
def test_winner_is_the_naive_one_at_every_ply(height: int, width: int, connect: int) -> None:
    rng = np.random.default_rng(height * 100 + width)
    for _, _, _, after in random_games(TicTacToe(height, width, connect), 300 // width, rng):
        for row in range(len(after)):
            grid = after.board[row].reshape(height, width).tolist()
            winner = winner_of(grid, connect)
            assert after.winner[row] == winner
            assert after.over[row] == (winner != 0 or all(all(line) for line in grid))


@pytest.mark.parametrize("height,width,connect", [(3, 3, 3), (6, 6, 4), (4, 7, 4), (9, 9, 5)])
def test_every_winning_line_wins_and_no_shorter_one(height: int, width: int, connect: int) -> None:
    game = TicTacToe(height, width, connect)
    lines = {
        tuple((row + i * down) * width + column + i * right for i in range(connect))
        for row in range(height)
        for column in range(width)
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1))
        if row + (connect - 1) * down < height and 0 <= column + (connect - 1) * right < width
    }
    for line in lines:
        for last in (0, connect // 2, connect - 1):
            for player in (1, -1):
                state = game.initial(1)
                state.board[0, list(line)] = player
                state.board[0, line[last]] = 0
                state.to_move[0] = player
                assert game.play(state, np.array([line[last]])).winner[0] == player
                assert game.play(state, np.array([line[last]])).over[0]
                shorter = game.initial(1)
                shorter.board[0, list(line[1:])] = player
                shorter.board[0, line[-1]] = 0
                shorter.to_move[0] = player
                assert not game.play(shorter, np.array([line[-1]])).over[0]


def test_lines_do_not_wrap_around_the_edge() -> None:
    state = played(TicTacToe(3, 3, 3), 1, 8, 2, 7, 3)  # x on 1 2 3: neighbours in number, not on the board
    assert not state.over[0]


def test_more_than_enough_in_a_row_wins() -> None:
    state = played(TicTacToe(6, 6, 4), 0, 30, 1, 31, 2, 33, 4, 34, 5, 35, 3)  # 0 … 5 joined by 3
    assert (state.over[0], state.winner[0]) == (True, 1)


@given(st.data())
def test_a_line_is_completed_alone_as_in_a_batch(data: st.DataObject) -> None:
    """One board alone is asked another way (whole numbers instead of arrays)."""
    height, width = data.draw(st.integers(3, 12)), data.draw(st.integers(3, 12))
    lines = Lines(height, width, data.draw(st.integers(3, max(height, width))))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    # Mostly one player's stones, so that about half the answers are yes.
    board = rng.choice(np.array([1, -1, 0], np.int8), (40, height * width), p=[0.75, 0.2, 0.05])
    board[::2] *= -1
    cell = rng.integers(0, height * width, 40)
    player = board[np.arange(40), cell] | np.int8(1)  # of an empty cell: 1, who has no line there
    together = lines.completed(board, cell, player)
    expected = [
        any((board[row, line] == player[row]).all() for line in lines.cells if cell[row] in line) for row in range(40)
    ]
    assert together.tolist() == expected
    for row in range(40):
        one = slice(row, row + 1)
        assert lines.completed(board[one], cell[one], player[one]).tolist() == expected[row : row + 1]
