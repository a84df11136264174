# SPDX-License-Identifier: AGPL-3.0-or-later
"""`azcaffe show`: the JSON that other programs read, moves in every spelling, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from azcaffe.cli.text import moves_text, parse_moves, side_by_side, table
from azcaffe.games import make_game
from azcaffe.network import NetEvaluator
from tests.cli.conftest import Run

BOARD = ("--board-size", "3")


@pytest.fixture(autouse=True)
def models(nets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZCAFFE_MODELS", str(nets))


def test_json_is_exactly_the_documented_object(nets: Path, azcaffe: Run) -> None:
    found = azcaffe(
        "show", *BOARD, "--weights", nets / "small.caffemodel", "--moves", "4,0", "--simulations", 50, "--json"
    )
    assert found.code == 0
    shown = json.loads(found.out)
    assert list(shown) == ["to_move", "value", "priors", "visits", "best"]
    assert shown["to_move"] == 1
    legal = [str(cell) for cell in range(9) if cell not in (0, 4)]
    assert list(shown["priors"]) == list(shown["visits"]) == legal
    assert sum(shown["priors"].values()) == pytest.approx(1, abs=1e-5)
    assert sum(shown["visits"].values()) == 50
    assert shown["best"] == int(max(legal, key=lambda a: (shown["visits"][a], -int(a))))
    assert "b2 a1" in found.err  # the text is on stderr

    # The value and priors are the net's own, from a net opened here.
    game = make_game("tictactoe", height=3, width=3, connect=3)
    net = NetEvaluator(game, nets / "small.prototxt", nets / "small.caffemodel")
    state = game.play(game.play(game.initial(1), np.array([4])), np.array([0]))
    priors, values = net(state, np.array([0]))
    assert shown["value"] == pytest.approx(float(values[0]), abs=1e-5)
    mass = sum(priors[0, int(a)] for a in legal)
    assert shown["priors"]["8"] == pytest.approx(float(priors[0, 8] / mass), abs=1e-5)


def test_text_has_board_value_table_and_line(nets: Path, azcaffe: Run) -> None:
    found = azcaffe("show", *BOARD, "--weights", nets / "small.caffemodel", "--moves", "b2 a1", "--top", "3")
    assert found.code == 0
    for part in ("x to move", "small: value", "prior", "visits", "expected line", "best"):
        assert part in found.out
    assert found.err == ""


def test_original_search_differs_and_both_repeat(nets: Path, azcaffe: Run) -> None:
    def visits(search: str) -> dict[str, int]:
        words = ["show", *BOARD, "--weights", nets / "small.caffemodel", "--search", search, "--json"]
        return json.loads(azcaffe(*words).out)["visits"]

    assert visits("original") == visits("original") != visits("corrected")


def test_a_net_with_history_is_shown_the_past(nets: Path, azcaffe: Run) -> None:
    def priors(moves: str) -> dict[str, float]:
        words = ["show", *BOARD, "--weights", nets / "history.caffemodel", "--moves", moves, "--json"]
        return json.loads(azcaffe(*words).out)["priors"]

    assert priors("0,1,2,3") != priors("0,3,2,1")  # the same stones, laid in another order


def test_moves_are_names_or_numbers() -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3)
    assert parse_moves(game, "b2,a1") == parse_moves(game, " B2  a1 ") == parse_moves(game, "4 0") == [4, 0]
    assert parse_moves(game, "") == parse_moves(game, "-") == []
    falling = make_game("connectn", height=6, width=7, connect=4)
    moves = [3, 3, 0, 6]
    assert parse_moves(falling, moves_text(falling, moves)) == moves
    assert parse_moves(falling, "column 3, column 0") == [3, 0]
    passing = make_game("othello", size=6)
    assert parse_moves(passing, moves_text(passing, [36])) == [36]


def test_refusals(nets: Path, refused: Callable[..., str]) -> None:
    small = ("--weights", nets / "small.caffemodel")
    assert "not a move" in refused("show", *BOARD, *small, "--moves", "z9")
    assert "not a legal move" in refused("show", *BOARD, *small, "--moves", "a1,a1")
    assert "x has won" in refused("show", *BOARD, *small, "--moves", "0,3,1,4,2")
    assert "--top" in refused("show", *BOARD, *small, "--top", "0")
    assert "make-net" in refused("show", "--board-size", "4", *small)


def test_boards_of_a_game_need_no_net(azcaffe: Run) -> None:
    found = azcaffe("show", *BOARD, "--moves", "0,4,8", "--boards")
    assert found.code == 0
    assert found.out.count("a  b  c") == 3
    game = make_game("tictactoe", height=3, width=3, connect=3)
    narrow = side_by_side(game, [0, 4, 8], columns=20)
    assert max(map(len, narrow.splitlines())) <= 20


def test_table_aligns() -> None:
    assert table([("a", "bb"), ("ccc", "d")], right=(1,)) == "a    bb\nccc   d"
