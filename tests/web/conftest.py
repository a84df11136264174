# SPDX-License-Identifier: AGPL-3.0-or-later
"""A server of tests/web/stage.py, and a small training run. Nothing here needs FastAPI before a test asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from azcaffe.curves import COLUMNS
from tests.web.client import Client

SMALL = "tictactoe(height=3,width=3,connect=3)"
HEADER = ";".join(COLUMNS.values())


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one training run `toy`: two lines of log, a match, two games (a win and a draw)."""
    folder = tmp_path_factory.mktemp("runs") / "toy"
    folder.mkdir()
    (folder / "log.csv").write_text(f"{HEADER}\n250;25;0.5;2.1;0.6;400;0;0;0\n500;50;0.4;1.9;0.5;800;20;3;2\n")
    match = {"kind": "match", "iteration": 300, "snapshot": 250}
    metrics = [
        {"kind": "line", "iteration": 250, "games": 25, "playouts_per_second": 9000, "mean_plies": 7.5},
        match | {"opponent": "rollout", "score": 0.86, "opponent_simulations": 400},
        match | {"opponent": "previous", "score": 0.5},
        {"kind": "line", "iteration": 500, "games": 50, "playouts_per_second": 9500, "mean_plies": 7.25},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in metrics) + '{"kind": "li')
    games = [
        {"game": 0, "generation": 0, "rules": SMALL, "actions": [0, 3, 1, 4, 2], "winner": 1},
        {"game": 32, "generation": 1, "rules": SMALL, "actions": [0, 1, 2, 4, 3, 5, 7, 6, 8], "winner": 0},
    ]
    (folder / "games.jsonl").write_text("".join(json.dumps(record) + "\n" for record in games))
    return folder.parent


@pytest.fixture(scope="session")
def app(run_folder: Path) -> Any:
    """The application."""
    from tests.web.stage import make_app

    return make_app(run_folder)


@pytest.fixture(scope="session")
def port(app: Any) -> Iterator[int]:
    """Where it is served, for the whole session."""
    from tests.web.stage import served

    with served(app) as number:
        yield number


@pytest.fixture
def client(port: int) -> Iterator[Client]:
    """A connection to it."""
    connection = Client(port)
    yield connection
    connection.close()


@pytest.fixture
def begin(client: Client) -> Callable[..., dict[str, Any]]:
    """Begins a game and returns its view."""

    def start(game: str = SMALL, net: str = "stub", human: str = "first") -> dict[str, Any]:
        answer = client.post("/api/games", game=game, net=net, human=human)
        assert answer.status == 201, answer.body
        return answer.body

    return start
