# SPDX-License-Identifier: AGPL-3.0-or-later
"""Training runs over the API: what the files say, live, and nothing outside the folders given."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the page needs FastAPI (extra web)")

from azcaffe.runlog import HEADER
from azcaffe.web.runs import MAX_POINTS, RunShelf, UnknownRun
from tests.web.client import Client


def test_runs_and_curves(client: Client) -> None:
    (run,) = client.get("/api/runs").body
    assert (run["title"], run["games"], run["game"]) == ("toy", 50, "tictactoe(height=3,width=3,connect=3)")
    curves = client.get(f"/api/runs/{run['id']}/curves").body
    assert curves["log"]["games"] == [25, 50]
    assert curves["log"]["value_loss"] == [0.5, 0.4]
    assert curves["log"]["opponent"] == [400, 800]
    assert curves["metrics"]["playouts_per_second"] == [9000, 9500]
    assert curves["metrics"]["learning_rate"] == [None, None]
    assert curves["matches"] == {"snapshot": [250], "score": [0.86], "opponent_simulations": [400]}


def test_unchanged_curves_are_not_sent_again(client: Client) -> None:
    first = client.get("/api/runs/0/curves")
    again = client.get("/api/runs/0/curves", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_saved_games_newest_first_and_replayed(client: Client) -> None:
    listed = client.get("/api/runs/0/games?limit=1").body
    assert listed == {"total": 2, "games": [{"number": 32, "plies": 9, "winner": 0}]}
    assert client.get("/api/runs/0/games?offset=1").body["games"][0]["number"] == 0
    replay = client.get("/api/runs/0/games/0").body
    assert [position["board"] for position in replay["positions"]][-1] == "xxxoo...."
    assert (replay["winner"], replay["line"], replay["over"]) == (1, [0, 1, 2], True)
    draw = client.get("/api/runs/0/games/32").body
    assert (draw["winner"], draw["over"], draw["line"]) == (0, True, [])


def test_unknown_runs_and_games(client: Client) -> None:
    for path in ("/api/runs/7/curves", "/api/runs/7/games", "/api/runs/0/games/1"):
        assert client.get(path).status == 404
    for path in ("../curves", "%2e%2e%2f/curves", "0/games?limit=101", "a/games"):
        assert client.get(f"/api/runs/{path}").status in (404, 422)


def test_a_run_that_grows_is_read_again(tmp_path: Path, run_folder: Path) -> None:
    shutil.copytree(run_folder / "toy", tmp_path / "live")
    shelf = RunShelf([tmp_path])
    os.utime(tmp_path / "live" / "log.csv")  # copies keep their age
    (run,) = shelf.runs()
    assert run.active
    before = shelf.stamp(run.id)
    with open(tmp_path / "live" / "log.csv", "a", encoding="utf-8") as log:
        log.write("750;75;0.3;1.8;0.4;800;0;0;0\n1000;10")
    assert shelf.stamp(run.id) != before
    assert shelf.curves(run.id).log["games"] == [25, 50, 75]
    os.utime(tmp_path / "live" / "log.csv", (0, 0))
    os.utime(tmp_path / "live" / "metrics.jsonl", (0, 0))
    assert not shelf.runs()[0].active


def test_the_folder_itself_may_be_the_run_and_new_runs_appear(tmp_path: Path) -> None:
    shelf = RunShelf([tmp_path])
    assert shelf.runs() == []
    (tmp_path / "log.csv").write_text(f"{HEADER}\n")
    assert [run.games for run in shelf.runs()] == [None]
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "log.csv").write_text("not a log\n")
    assert len(shelf.runs()) == 2  # a damaged one is listed, without numbers


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "log.csv").write_text(f"{HEADER}\n")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(outside)
    assert RunShelf([tmp_path / "runs"]).runs() == []


def test_long_logs_are_thinned_and_keep_their_ends(tmp_path: Path) -> None:
    lines = [f"{n * 10};{n};0.5;2;0.5;400;0;0;0" for n in range(1, 5001)]
    (tmp_path / "log.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    records = [json.dumps({"kind": "line", "games": n, "playouts_per_second": n}) for n in range(1, 5001)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(records))
    shelf = RunShelf([tmp_path])
    curves = shelf.curves(shelf.runs()[0].id)
    for group in (curves.log, curves.metrics):
        assert len(group["games"]) <= MAX_POINTS
        assert group["games"][-1] == 5000
    assert curves.log["games"][0] == 1


def test_records_that_are_no_games_are_left_out(tmp_path: Path, run_folder: Path) -> None:
    shutil.copytree(run_folder / "toy", tmp_path / "toy")
    bad = [{}, {"game": "1"}, {"game": 1, "actions": [0.5], "winner": 1, "rules": "x"}, [1], "text"]
    with open(tmp_path / "toy" / "games.jsonl", "a", encoding="utf-8") as games:
        games.write("".join(json.dumps(record) + "\n" for record in bad) + '{"game"')
    shelf = RunShelf([tmp_path])
    assert shelf.games(shelf.runs()[0].id, 0, 20).total == 2
    with pytest.raises(UnknownRun):
        shelf.replay("0", 1)
