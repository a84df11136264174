# SPDX-License-Identifier: AGPL-3.0-or-later
"""The JSON API: a game from start to end, what it refuses, and what every answer carries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the page needs FastAPI (extra web)")

from azcaffe.games.base import State
from azcaffe.web.app import create_app
from azcaffe.web.catalog import Catalog, NetOffer
from azcaffe.web.engine import EngineLimits, Source
from azcaffe.web.runs import RunShelf
from azcaffe.web.security import MAX_BODY
from tests.helpers.stub_net import StubNet
from tests.helpers.waiting import PATIENCE
from tests.web.client import Client
from tests.web.stage import SMALL, served

Begin = Callable[..., dict[str, Any]]


def test_setup_names_everything_on_offer(client: Client) -> None:
    setup = client.get("/api/setup").body
    assert setup["families"] == ["connectn", "othello", "tictactoe"]
    assert [net["id"] for net in setup["nets"]] == ["stub", "rollouts"]
    assert setup["max_simulations"] == 400
    assert setup["runs"] == 1


def test_a_whole_game(client: Client, begin: Begin) -> None:
    """x 0, o ?, … by the rules of the page: a person's move, then the net's, until the end."""
    game = begin()
    path = f"/api/games/{game['id']}"
    while not game["over"]:
        ply = len(game["positions"]) - 1
        if ply % 2 == 0:
            answer = client.post(f"{path}/moves", ply=ply, action=game["legal"][0]["action"])
            game = answer.body
        else:
            answer = client.post(f"{path}/reply", ply=ply, simulations=50)
            game, seen = answer.body["game"], answer.body["analysis"]
            assert seen["playouts"] == 50
            assert sum(move["visits"] for move in seen["moves"]) == 50
            assert sum(move["prior"] for move in seen["moves"]) == pytest.approx(1, abs=1e-3)
            assert game["positions"][-1]["move"] == max(seen["moves"], key=lambda move: move["visits"])["name"]
            assert game["positions"][ply]["value"] == pytest.approx(seen["value"], abs=1e-3)
        assert answer.status == 200
    assert game == client.get(path).body
    assert game["winner"] in (1, 0, -1)
    assert client.post(f"{path}/reply", ply=len(game["positions"]) - 1, simulations=1).status == 409
    assert client.call("DELETE", path).status == 204
    assert client.get(path).status == 404


def test_the_search_finds_the_win_and_tells_the_first_players_view(client: Client, begin: Begin) -> None:
    """R13: X{0,1,8} O{3,4}, O to move picks 5 and wins: value near -1 for the first player, +1 for O's move."""
    game = begin(net="rollouts", human="both")
    path = f"/api/games/{game['id']}"
    for ply, action in enumerate([0, 3, 1, 4, 8]):
        assert client.post(f"{path}/moves", ply=ply, action=action).status == 200
    seen = client.post(f"{path}/analysis", ply=5, simulations=400).body
    assert seen["moves"][0]["action"] == 5
    assert seen["moves"][0]["q"] == 1
    assert seen["value"] < -0.5
    assert seen["to_move"] == -1
    game = client.post(f"{path}/reply", ply=5, simulations=400).body["game"]
    assert (game["winner"], game["line"]) == (-1, [3, 4, 5])


def test_undo_and_a_look_back(client: Client, begin: Begin) -> None:
    game = begin(human="both")
    path = f"/api/games/{game['id']}"
    for ply, action in enumerate([4, 0, 8]):
        client.post(f"{path}/moves", ply=ply, action=action)
    assert client.post(f"{path}/analysis", ply=1, simulations=20).body["ply"] == 1
    undone = client.post(f"{path}/undo", ply=1).body
    assert [position["move"] for position in undone["positions"]] == [None, "b2"]
    assert client.post(f"{path}/undo", ply=2).status == 409


def test_variety_makes_games_differ(client: Client, begin: Begin) -> None:
    firsts = set()
    for _ in range(12):
        id_ = begin(human="none")["id"]
        answer = client.post(f"/api/games/{id_}/reply", ply=0, simulations=60, variety=True)
        firsts.add(answer.body["game"]["positions"][1]["move"])
    assert len(firsts) > 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"game": "chess", "net": "rollouts"}, "unknown game"),
        ({"game": "tictactoe(height=2)", "net": "rollouts"}, "height"),
        ({"game": "tictactoe(height=26,width=26)", "net": "rollouts"}, "boards on this server"),
        ({"game": SMALL, "net": "/etc/passwd"}, "no such net"),
        ({"game": "tictactoe", "net": "stub"}, "plays tictactoe"),
        ({"game": SMALL, "net": "rollouts", "human": "third"}, "human"),
        ({"game": SMALL, "net": "rollouts", "weights": "/tmp/x"}, "weights"),
        ({"game": SMALL}, "net"),
        ({"game": 3, "net": "rollouts"}, "game"),
        ({"game": "x" * 201, "net": "rollouts"}, "game"),
    ],
)
def test_new_games_are_checked(client: Client, body: dict[str, Any], says: str) -> None:
    answer = client.post("/api/games", **body)
    assert answer.status == 422
    assert says in answer.body["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"ply": 0, "action": 9}, {"ply": 0, "action": -1}, {"ply": 0, "action": "4"}, {"ply": 0, "action": 1.5},
        {"ply": 0, "action": True}, {"ply": 0}, {"ply": 0, "action": 4, "extra": 1}, {"ply": -1, "action": 4},
        {"ply": 0, "action": 10**30},
    ],
)  # fmt: skip
def test_moves_are_checked_and_the_board_stays(client: Client, begin: Begin, body: dict[str, Any]) -> None:
    """R23, for the page: a bad move is refused with a line, and it is the same player's turn on the same board."""
    game = begin()
    answer = client.post(f"/api/games/{game['id']}/moves", **body)
    assert answer.status == 422
    assert answer.body["detail"]
    assert client.get(f"/api/games/{game['id']}").body == game


def test_an_occupied_square_and_a_repeated_request(client: Client, begin: Begin) -> None:
    path = f"/api/games/{begin(human='both')['id']}/moves"
    assert client.post(path, ply=0, action=4).status == 200
    assert client.post(path, ply=0, action=4).status == 409
    taken = client.post(path, ply=1, action=4)
    assert taken.status == 422
    assert "b2" in taken.body["detail"]


def test_work_is_bounded(client: Client, begin: Begin) -> None:
    path = f"/api/games/{begin()['id']}"
    for verb in ("reply", "analysis"):
        answer = client.post(f"{path}/{verb}", ply=0, simulations=401)
        assert answer.status == 422
        assert "at most 400" in answer.body["detail"]


def test_a_move_ends_the_search_before_it(run_folder: Path) -> None:
    """A player has one search at a time: whoever moves does not wait for the analysis of the position before."""
    asked, go_on = threading.Event(), threading.Event()

    class Halting(StubNet):
        def __call__(self, states: State, slots: Any) -> Any:
            asked.set()
            go_on.wait(PATIENCE)
            return super().__call__(states, slots)

    net = NetOffer("halting", "A net that halts", Source("halting", Halting), SMALL)
    limits = EngineLimits(max_simulations=400, max_seconds=2 * PATIENCE)
    with served(create_app(Catalog([net]), RunShelf([run_folder]), limits)) as port:
        client, other, answers = Client(port), Client(port), []
        path = f"/api/games/{client.post('/api/games', game=SMALL, net='halting', human='both').body['id']}"
        thread = threading.Thread(target=lambda: answers.append(other.post(f"{path}/analysis", ply=0, simulations=400)))
        thread.start()
        assert asked.wait(PATIENCE)
        assert client.post(f"{path}/moves", ply=0, action=4).status == 200
        go_on.set()
        thread.join(PATIENCE)
        for one in (client, other):
            one.close()
    assert answers[0].status == 409


def test_bad_json_wrong_paths_and_large_bodies(client: Client) -> None:
    assert client.call("POST", "/api/games", b"{").status == 400
    assert client.call("POST", "/api/games", b"[]").status == 422
    assert client.get("/api/games/" + "A" * 22).status == 404
    assert client.get("/api/games/short").status == 422
    assert client.get("/nowhere").status == 404
    assert client.get("/static/../app.py").status == 404
    assert client.get("/static/%2e%2e/app.py").status == 404
    assert client.call("PUT", "/api/games", b"{}").status == 405
    large = client.call("POST", "/api/games", b" " * (MAX_BODY + 1))
    assert large.status == 413


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/base.css", "/api/setup", "/no", "/api/runs/0/curves"])
def test_every_answer_carries_the_security_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] in ("no-store", "no-cache")


def test_foreign_names_and_sites_are_refused(client: Client) -> None:
    for good in ("localhost:8000", "127.0.0.1", "[::1]:8000", "192.168.1.7:8000", "play.example", "PLAY.example:80"):
        assert client.get("/api/setup", host=good).status == 200, good
    for bad in ("evil.example", "127.0.0.1.evil.example:8000", "localhost.evil.example", ""):
        assert client.get("/api/setup", host=bad).status == 421, bad
    assert client.get("/api/setup", sec_fetch_site="cross-site").status == 403
    assert client.get("/api/setup", sec_fetch_site="same-origin").status == 200


def test_the_page_asks_nobody_else_and_holds_no_inline_code() -> None:
    """Checked in the files; the content policy forbids it too."""
    static = Path(__file__).resolve().parents[2] / "azcaffe" / "web" / "static"
    for path in static.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text and "//cdn" not in text, path
        if path.suffix == ".html":
            assert " style=" not in text and " onclick=" not in text and "<style" not in text
            assert text.count("<script") == text.count('<script type="module" src="/static/')
        assert len(text.splitlines()) < 400, path


def test_there_is_no_documentation_page_from_elsewhere(client: Client) -> None:
    assert client.get("/docs").status == 404
    assert client.get("/redoc").status == 404
    assert client.get("/api/openapi.json").status == 200
