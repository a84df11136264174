# SPDX-License-Identifier: AGPL-3.0-or-later
"""Cases from public reports that the rules alone decide: R13 (whose result), R16 (draws), R23 (typed moves)."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.errors import GameError
from azcaffe.games.base import Game
from azcaffe.games.connectn import ConnectN
from azcaffe.games.tictactoe import TicTacToe
from tests.games.walk import played


def targets(game: Game, *moves: int) -> list[int]:
    """The result for the player to move, at each position of the game before its end."""
    final = played(game, *moves)
    assert final.over[0]
    return [int(final.winner[0] * played(game, *moves[:ply]).to_move[0]) for ply in range(len(moves))]


def test_r13_results_belong_to_the_player_to_move() -> None:
    game = TicTacToe(3, 3, 3)
    assert targets(game, 0, 3, 1, 4, 2) == [1, -1, 1, -1, 1]
    assert targets(game, 0, 3, 1, 4, 8, 5) == [-1, 1, -1, 1, -1, 1]


@pytest.mark.parametrize(
    "game,moves",
    [
        (TicTacToe(3, 3, 3), (0, 1, 2, 4, 3, 5, 7, 6, 8)),
        (ConnectN(4, 4, 4), (0, 2, 0, 3, 1, 1, 0, 2, 1, 2, 3, 0, 3, 3, 2, 1)),
    ],
    ids=lambda x: getattr(x, "name", "moves"),
)
def test_r16_a_full_board_without_a_line_is_nobodys(game: Game, moves: tuple[int, ...]) -> None:
    for ply in range(len(moves)):
        assert not played(game, *moves[:ply]).over[0]
    over, winner = game.outcome(played(game, *moves))
    assert (bool(over[0]), int(winner[0])) == (True, 0)
    assert targets(game, *moves) == [0] * len(moves)


def test_a_win_with_the_last_stone_is_a_win() -> None:
    state = played(TicTacToe(3, 3, 3), 0, 1, 2, 3, 5, 4, 7, 6, 8)  # 8 fills the board and joins 2 5 8
    assert (bool(state.over[0]), int(state.winner[0])) == (True, 1)


R23_LINES = ["", "abc", "-1", "7", "8", "3.0", "99999999999", "1,1", " ", "1 2", "0x1", "1e0", "column", "³"]


@pytest.mark.parametrize("line", R23_LINES)
def test_r23_a_bad_column_is_refused_with_base_and_range(line: str) -> None:
    game = ConnectN(6, 7, 4)
    with pytest.raises(GameError) as caught:
        game.parse_move(line)
    assert "column 0 … 6, 0 at the left" in str(caught.value)


def test_r23_base_and_both_ends() -> None:
    game = ConnectN(6, 7, 4)
    assert [game.parse_move(line) for line in ("0", "6", " 3\n", "column 4", "05")] == [0, 6, 3, 4, 5]


def test_r23_a_full_column_leaves_the_board_alone() -> None:
    game = ConnectN(6, 7, 4)
    state = played(game, 0, 0, 0, 0, 0, 0)
    before = state.board.copy()
    with pytest.raises(GameError, match=r"column 0 \(action 0\) is not a legal move here"):
        game.play(state, np.array([game.parse_move("0")]))
    assert np.array_equal(state.board, before)


def test_negative_actions_are_not_counted_from_the_end() -> None:
    for game in (TicTacToe(3, 3, 3), ConnectN(6, 7, 4)):
        with pytest.raises(GameError, match=rf"action -1 is outside 0 … {game.num_actions - 1}"):
            game.play(game.initial(1), np.array([-1]))


def test_squares_have_names_and_numbers() -> None:
    game = TicTacToe(6, 6, 4)
    assert [game.parse_move(text) for text in ("a1", "f1", "a2", "F6", "14", "35")] == [0, 5, 6, 35, 14, 35]
    for text in ("g1", "a7", "a0", "1a", "a", "aa1", "a-1", "36"):
        with pytest.raises(GameError, match=r"a1 … f6 \(column letter, row number from the top\) or its number 0 … 35"):
            game.parse_move(text)
