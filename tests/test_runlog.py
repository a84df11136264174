# SPDX-License-Identifier: AGPL-3.0-or-later
"""The records of a run: the published columns, and no line twice after a resume."""

from __future__ import annotations

import json
from pathlib import Path

from azcaffe.runlog import MAX_GAME_LINES, LogRow, RunLog


def open_log(folder: Path, iteration: int = 0, game: int = 0) -> RunLog:
    return RunLog(folder / "log.csv", folder / "metrics.jsonl", folder / "games.jsonl", iteration, game)


def row(iteration: int) -> LogRow:
    return LogRow(iteration, iteration // 10, 0.5, 3.583519, 0.25, 400, 20, 1, 4)


def test_the_published_header_and_columns(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.row(row(250))
    log.close()
    # The header is in REFERENCE, "Training of the original"; plotting sheets look for it.
    assert (tmp_path / "log.csv").read_text() == (
        "Iter;Num Game played;Value loss;Probas loss;KL div;Opponent playouts;Win;Draw;Lost\n"
        "250;25;0.5;3.58352;0.25;400;20;1;4\n"
    )


def test_resume_drops_what_the_checkpoint_does_not_know(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for iteration in (250, 500, 750):
        log.row(row(iteration))
        log.metrics({"iteration": iteration})
        log.game({"game": iteration // 10, "actions": [0]})
    log.close()
    with open(tmp_path / "log.csv", "a") as file:
        file.write("1000;100;0.")  # the half line of a killed run
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"iterat')
    again = open_log(tmp_path, iteration=500, game=50)
    again.row(row(750))
    again.close()
    assert [line.split(";")[0] for line in (tmp_path / "log.csv").read_text().splitlines()] == [
        "Iter",
        "250",
        "500",
        "750",
    ]
    assert [json.loads(line)["iteration"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [
        250,
        500,
    ]
    assert [json.loads(line)["game"] for line in (tmp_path / "games.jsonl").read_text().splitlines()] == [25]


def test_games_are_bounded_over_resumes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for game in range(MAX_GAME_LINES - 1):
        log.game({"game": game})
    log.close()
    again = open_log(tmp_path, game=MAX_GAME_LINES)
    for game in range(5):
        again.game({"game": MAX_GAME_LINES + game})
    again.close()
    assert len((tmp_path / "games.jsonl").read_text().splitlines()) == MAX_GAME_LINES
