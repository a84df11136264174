# SPDX-License-Identifier: AGPL-3.0-or-later
"""The contract suite over every registered game, several boards each, and over some of OpenSpiel's."""

from __future__ import annotations

import importlib.util
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azcaffe.games.base import Game
from azcaffe.games.registry import GAMES, parse_game
from tests.games.contract import CHECKS

BOARDS = [
    "tictactoe(height=3,width=3,connect=3)",
    "tictactoe(height=6,width=6,connect=4)",
    "tictactoe(height=4,width=7,connect=5)",
    "tictactoe(height=9,width=8,connect=5)",  # more than 64 cells
    "connectn(height=6,width=7,connect=4)",
    "connectn(height=5,width=4,connect=3)",
    "connectn(height=3,width=11,connect=4)",
    "othello(size=4)",
    "othello(size=6)",
    "othello(size=8)",
]
OPENSPIEL = ["tic_tac_toe()", "mancala()", "breakthrough(columns=5,rows=5)", "hex(board_size=4)"]
needs_openspiel = pytest.mark.skipif(
    importlib.util.find_spec("pyspiel") is None, reason="open_spiel is not installed (extra openspiel)"
)
NAMES = [*BOARDS, *(pytest.param(f"openspiel:{name}", marks=needs_openspiel) for name in OPENSPIEL)]


@cache
def game_of(name: str) -> Game:
    return parse_game(name)


def test_every_registered_game_is_checked() -> None:
    assert {name.partition("(")[0] for name in BOARDS} == set(GAMES)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str, check) -> None:
    game = game_of(name)

    @settings(max_examples=3, deadline=None, derandomize=True, database=None)
    @given(seed=st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        check(game, np.random.default_rng(seed))

    run()
