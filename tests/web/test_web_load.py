# SPDX-License-Identifier: AGPL-3.0-or-later
"""Fifty players at once, whole games, no error. A minute with AZCAFFE_LOAD_SECONDS=60; CI plays for ten seconds."""

from __future__ import annotations

import os
import random
import threading
import time
from dataclasses import dataclass, field

import pytest

pytest.importorskip("fastapi", reason="the page needs FastAPI (extra web)")

from tests.helpers.waiting import PATIENCE
from tests.web.client import Client

PLAYERS = 50
SECONDS = float(os.environ.get("AZCAFFE_LOAD_SECONDS", "10"))
GAMES = (
    ("tictactoe(height=3,width=3,connect=3)", "stub"),
    ("tictactoe(height=6,width=6,connect=4)", "rollouts"),
    ("connectn(height=6,width=7,connect=4)", "rollouts"),
    ("othello(size=4)", "rollouts"),
)


@dataclass
class Tally:
    """What one player saw."""

    games: int = 0
    waits: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def play(port: int, number: int, until: float, tally: Tally) -> None:
    """Games against the net, one after the other, thinking for a tenth of a second."""
    rng = random.Random(number)
    game_name, net = GAMES[number % len(GAMES)]
    client = Client(port)

    def ask(method: str, path: str, **body: object) -> dict:
        started = time.monotonic()
        answer = client.call(method, path, body or None)
        if path.endswith("/reply"):
            tally.waits.append(time.monotonic() - started)
        if answer.status >= 400:
            raise AssertionError(f"{method} {path}: {answer.status} {answer.body}")
        return answer.body

    try:
        while time.monotonic() < until or not tally.waits:  # everybody is answered at least once
            human = rng.choice(["first", "second"])
            game = ask("POST", "/api/games", game=game_name, net=net, human=human)
            path, side = f"/api/games/{game['id']}", 1 if human == "first" else -1
            while not game["over"] and (time.monotonic() < until or not tally.waits):
                ply = len(game["positions"]) - 1
                if game["positions"][-1]["to_move"] == side:
                    time.sleep(0.1)
                    action = rng.choice(game["legal"])["action"]
                    game = ask("POST", f"{path}/moves", ply=ply, action=action)
                else:
                    game = ask("POST", f"{path}/reply", ply=ply, simulations=50)["game"]
            tally.games += game["over"]
            ask("DELETE", path)
    except Exception as problem:  # told by the test; a thread's exception would only be printed
        tally.errors.append(repr(problem))
    finally:
        client.close()


@pytest.mark.slow
def test_fifty_players_at_once(port: int) -> None:
    until = time.monotonic() + SECONDS
    tallies = [Tally() for _ in range(PLAYERS)]
    threads = [threading.Thread(target=play, args=(port, n, until, tally)) for n, tally in enumerate(tallies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + PATIENCE)
        assert not thread.is_alive(), "a player is still waiting for an answer"
    assert not [error for tally in tallies for error in tally.errors]
    waits = sorted(wait for tally in tallies for wait in tally.waits)
    games = sum(tally.games for tally in tallies)
    assert all(tally.waits for tally in tallies), "some player was never answered"
    print(
        f"{PLAYERS} players, {SECONDS:.0f} s: {games} games, {len(waits)} net moves of 50 playouts, "
        f"median wait {waits[len(waits) // 2] * 1000:.0f} ms, 95 % {waits[len(waits) * 95 // 100] * 1000:.0f} ms, "
        f"longest {waits[-1] * 1000:.0f} ms"
    )
