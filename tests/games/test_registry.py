# SPDX-License-Identifier: AGPL-3.0-or-later
"""Games by name, and boards that cannot be: refused in one line that states what is allowed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from azcaffe.errors import GameError
from azcaffe.games import make_game, parse_game
from azcaffe.games.connectn import ConnectN
from azcaffe.games.othello import Othello
from azcaffe.games.tictactoe import TicTacToe


@pytest.mark.parametrize(
    "text,name",
    [
        ("tictactoe", "tictactoe(height=6,width=6,connect=4)"),
        (" tictactoe( width = 3 , height=3,connect=3) ", "tictactoe(height=3,width=3,connect=3)"),
        ("connectn()", "connectn(height=6,width=7,connect=4)"),
        ("connectn(width=9)", "connectn(height=6,width=9,connect=4)"),
        ("othello", "othello(size=8)"),
        ("othello(size=6,history=3)", "othello(size=6)"),
    ],
)
def test_parse(text: str, name: str) -> None:
    game = parse_game(text)
    assert game.name == name
    assert parse_game(game.name).name == name


def test_history_is_kept_but_is_not_part_of_the_rules() -> None:
    game = make_game("connectn", history=3)
    assert game.history == 3 and game.name == "connectn(height=6,width=7,connect=4)"
    assert game.initial(2).past.shape == (2, 3, 42)


@pytest.mark.parametrize(
    "text,says",
    [
        ("", "is not a game"),
        ("chess", "unknown game 'chess': there are connectn, othello, tictactoe and openspiel:NAME"),
        ("tictactoe(height=6", "is not a game"),
        ("tictactoe(6,6,4)", "'6' in"),
        ("tictactoe(height=)", "parameter=number"),
        ("tictactoe(height=6.5)", "parameter=number"),
        ("tictactoe(height=٣)", "parameter=number"),
        ("tictactoe(height=3,height=4)", "stands twice"),
        ("tictactoe(heigth=3)", "no parameter 'heigth': there are height, width, connect, history"),
        ("tictactoe(height=99999999999)", "parameter=number"),
        ("tictactoe(height=6)(x)", "parameter=number"),
    ],
)
def test_text_that_is_no_game(text: str, says: str) -> None:
    with pytest.raises(GameError) as caught:
        parse_game(text)
    assert says in str(caught.value) and "\n" not in str(caught.value)


IMPOSSIBLE = [
    *[(TicTacToe, {"height": side}, "from 3 to 26") for side in (-1, 0, 1, 2, 27, 64, 2**31, 10**30)],
    *[(TicTacToe, {"width": side}, "from 3 to 26") for side in (0, 2, 64)],
    *[(ConnectN, {"height": side}, "from 3 to 26") for side in (0, 1, 2, 64)],
    *[(ConnectN, {"width": side}, "from 3 to 26") for side in (0, 1, 2, 64)],
    *[(TicTacToe, {"height": 3, "width": 5, "connect": k}, "from 3 to 5") for k in (-4, 0, 1, 2, 6, 10**9)],
    *[(ConnectN, {"connect": k}, "from 3 to 7") for k in (0, 2, 8)],
    *[(Othello, {"size": size}, "4") for size in (0, 1, 2, 3, 5, 7, 10, 64)],
    (TicTacToe, {"height": 3.0}, "whole number"),
    (TicTacToe, {"height": "6"}, "whole number"),
    (TicTacToe, {"height": True}, "whole number"),
    (TicTacToe, {"height": None}, "whole number"),
    *[(game, {"history": h}, "from 0 to 32") for game in (TicTacToe, ConnectN, Othello) for h in (-1, 33)],
]


@pytest.mark.parametrize("factory,parameters,says", IMPOSSIBLE, ids=str)
def test_impossible_boards_are_refused_with_the_allowed_range(factory, parameters: dict, says: str) -> None:
    with pytest.raises(GameError) as caught:
        factory(**parameters)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_numpy_numbers_are_numbers() -> None:
    assert TicTacToe(np.int64(4), np.int8(5), np.uint8(3)).name == "tictactoe(height=4,width=5,connect=3)"


def test_largest_board_works() -> None:
    for game in (TicTacToe(26, 26, 26), ConnectN(26, 26, 26)):
        state = game.play(game.initial(2), np.array([25, 0]))
        assert game.legal(state).sum() > 0
        assert np.isin(game.rollout(state, np.random.default_rng(0).random((2, 676))), (1, 0, -1)).all()


def test_openspiel_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(GameError, match=r"need the package open_spiel: pip install 'azcaffe\[openspiel\]'"):
        parse_game("openspiel:this_is_not_cached")
