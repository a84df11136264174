# SPDX-License-Identifier: AGPL-3.0-or-later
"""`azcaffe actions`: the order of the policy's outputs, drawn and as JSON."""

from __future__ import annotations

import json

import pytest

from azcaffe.cli.main import main


def test_squares_count_row_by_row_from_the_top_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["actions", "--board_size=3", "--aligned_to_win=3"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tictactoe(height=3,width=3,connect=3): 9 actions (num_output of the net's policy layer)",
        "     a  b  c",
        "  1  0  1  2",
        "  2  3  4  5",
        "  3  6  7  8",
    ]


def test_columns_count_from_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["actions", "--game", "connectn", "--board-width", "5", "--board-height", "4"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "connectn(height=4,width=5,connect=4): 5 actions (num_output of the net's policy layer)",
        "column   0   1   2   3   4   (0 at the left)",
        "action   0   1   2   3   4",
    ]


def test_pass_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["actions", "--game", "othello(size=4)"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "16 = pass"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["actions", "--game", "othello(size=4)", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)
    assert len(names) == 17 and names["0"] == "a1" and names["7"] == "d2" and names["16"] == "pass"


@pytest.mark.parametrize(
    "options,says",
    [
        (["--board-size", "0"], "from 3 to 26, not 0"),
        (["--board-size", "64"], "from 3 to 26, not 64"),
        (["--connect", "9"], "connect must be a whole number from 3 to 6, not 9"),
        (["--game", "othello", "--board-size", "5"], "size must be 4, 6 or 8"),
        (["--game", "draughts"], "unknown game 'draughts'"),
    ],
)
def test_impossible_boards_are_one_line_and_exit_2(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["actions", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and says in captured.err
