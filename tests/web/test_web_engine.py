# SPDX-License-Identifier: AGPL-3.0-or-later
"""The search thread: right answers, the same for everybody, within its limits, and standing after a net fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the page needs FastAPI (extra web)")

from azcaffe.games import make_game
from azcaffe.games.base import Game, State
from azcaffe.search import RolloutEvaluator, UniformEvaluator
from azcaffe.web.engine import TURN, Analysis, EngineLimits, Overloaded, SearchService, Source
from tests.helpers.stub_net import StubNet
from tests.helpers.waiting import PATIENCE

TICTACTOE = make_game("tictactoe", height=3, width=3, connect=3)
UNIFORM = Source("uniform", UniformEvaluator)
ROLLOUTS = Source("rollouts", RolloutEvaluator)
STUB = Source("stub", StubNet)


@pytest.fixture
def service() -> Iterator[SearchService]:
    service = SearchService(EngineLimits(max_simulations=2000, max_seconds=PATIENCE, slots=4, max_waiting=100))
    service.start()
    yield service
    service.stop()


def after(moves: list[int], game: Game = TICTACTOE) -> State:
    state = game.initial(1)
    for move in moves:
        state = game.play(state, np.array([move]))
    return state


def test_wins_are_taken_and_blocked(service: SearchService) -> None:
    """Public report R13: X{0,1} O{3,4}, X to move wins by 2; X{0,1,8} O{3,4}, O to move wins by 5; values say so."""
    for moves, best in (([0, 3, 1, 4], 2), ([0, 3, 1, 4, 8], 5)):
        found = service.submit(TICTACTOE, UNIFORM, after(moves), 200, 0).result(PATIENCE)
        assert found.best == best
        assert found.value > 0.5  # for the mover
        assert found.line[0] == best
        assert found.playouts == found.visits.sum() == 200


def test_the_same_alone_and_beside_others(service: SearchService) -> None:
    """Roll-outs too: a search's chance comes from its own seed."""
    state = after([4])
    for source in (STUB, ROLLOUTS):
        alone = service.submit(TICTACTOE, source, state, 100, 7).result(PATIENCE)
        crowd = [service.submit(TICTACTOE, source, after([n]), 30 + 17 * n, n) for n in range(9)]
        beside = service.submit(TICTACTOE, source, state, 100, 7).result(PATIENCE)
        np.testing.assert_array_equal(alone.visits, beside.visits)
        assert alone.value == beside.value
        assert [other.result(PATIENCE).playouts for other in crowd] == [30 + 17 * n for n in range(9)]


def test_without_playouts_the_nets_policy_decides(service: SearchService) -> None:
    state = after([4])
    found = service.submit(TICTACTOE, STUB, state, 0, 0).result(PATIENCE)
    priors, value = StubNet(TICTACTOE).scalar(state)
    assert found.playouts == 0
    assert found.value == found.net_value == pytest.approx(value)
    assert found.best == int(np.where(np.arange(9) == 4, 0, priors).argmax())


def test_a_search_can_be_cancelled(service: SearchService) -> None:
    asked = threading.Event()
    go_on = threading.Event()

    class Slow(UniformEvaluator):
        def __call__(self, states: State, slots: Any) -> Any:
            asked.set()
            go_on.wait(PATIENCE)
            return super().__call__(states, slots)

    search = service.submit(TICTACTOE, Source("slow", Slow), after([]), 2000, 0)
    assert asked.wait(PATIENCE)
    assert search.cancel()
    go_on.set()
    with pytest.raises(CancelledError):
        search.result(PATIENCE)
    assert service.submit(TICTACTOE, UNIFORM, after([]), 10, 0).result(PATIENCE).playouts == 10


def test_a_failing_net_fails_its_own_requests_only(service: SearchService) -> None:
    class Broken(UniformEvaluator):
        def __call__(self, states: State, slots: Any) -> Any:
            raise RuntimeError("the net broke")

    def refuse(game: Game) -> Any:
        raise RuntimeError("cannot be opened")

    broken = service.submit(TICTACTOE, Source("broken", Broken), after([]), 50, 0)
    closed = service.submit(TICTACTOE, Source("closed", refuse), after([]), 50, 0)
    good = service.submit(TICTACTOE, UNIFORM, after([]), 50, 0)
    with pytest.raises(RuntimeError, match="broke"):
        broken.result(PATIENCE)
    with pytest.raises(RuntimeError, match="opened"):
        closed.result(PATIENCE)
    assert good.result(PATIENCE).playouts == 50


def test_time_is_limited() -> None:
    service = SearchService(EngineLimits(max_simulations=10_000_000, max_seconds=0.2, tree_edges=1, slots=4))
    service.start()
    try:
        found = service.submit(TICTACTOE, STUB, after([]), 10_000_000, 0).result(PATIENCE)
        assert TURN <= found.playouts < 10_000_000
    finally:
        service.stop()


def test_waiting_is_limited_and_stopping_answers_everybody() -> None:
    service = SearchService(EngineLimits(max_waiting=2))
    waiting: list[Future[Analysis]] = [service.submit(TICTACTOE, UNIFORM, after([]), 10, 0) for _ in range(2)]
    with pytest.raises(Overloaded, match="busy"):
        service.submit(TICTACTOE, UNIFORM, after([]), 10, 0)
    service.start()
    service.stop()
    for search in waiting:
        try:
            assert search.result(PATIENCE).playouts == 10
        except Overloaded as stopped:
            assert "stopping" in str(stopped)
    with pytest.raises(Overloaded):
        service.submit(TICTACTOE, UNIFORM, after([]), 10, 0)


def test_more_pairs_than_may_be_open() -> None:
    service = SearchService(EngineLimits(max_engines=2, slots=4))
    service.start()
    try:
        games = [make_game("tictactoe", height=3, width=width, connect=3) for width in range(3, 9)]
        searches = [service.submit(game, UNIFORM, game.initial(1), 60, 0) for game in games for _ in range(3)]
        assert all(search.result(PATIENCE).playouts == 60 for search in searches)
    finally:
        service.stop()


def test_large_boards_get_fewer_places() -> None:
    limits = EngineLimits()
    assert limits.slots_for(9) == limits.slots
    assert 4 <= limits.slots_for(100) < limits.slots
    with pytest.raises(ValueError, match="at most"):
        SearchService(limits).submit(TICTACTOE, UNIFORM, after([]), limits.max_simulations + 1, 0)
