# SPDX-License-Identifier: AGPL-3.0-or-later
"""The arithmetic of the bench, and that its pieces of work do what they count."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from azcaffe import bench
from azcaffe.bench import Bar
from azcaffe.games.base import State
from azcaffe.games.tictactoe import TicTacToe
from azcaffe.search import CachedEvaluator, Evaluate, UniformEvaluator
from tests.helpers.stub_net import StubNet


def test_repeats_are_interleaved_and_progress_is_told() -> None:
    order: list[str] = []
    told: list[tuple[int, str]] = []

    def measure(*names: str) -> bench.Measure:
        return lambda: order.extend(names) or {name: float(len(order)) for name in names}  # type: ignore[func-returns-value]

    one, pair = measure("a"), measure("b", "c")
    rates = bench.interleaved([one, pair, pair], 2, lambda done, name: told.append((done, name)))
    assert order == ["a", "b", "c", "b", "c"] * 2
    assert rates == {"a": [1, 6], "b": [3, 5, 8, 10], "c": [3, 5, 8, 10]}
    assert told == [(1, "a"), (2, "b"), (3, "b"), (4, "a"), (5, "b"), (6, "b")]


def test_a_bar_is_judged_by_the_median_of_the_repeats_ratios() -> None:
    # Ratios 0.5, 2, 1: their median is 1, whereas the ratio of the medians would be 20 / 20 too only by chance of
    # order.
    rates = {"ours": [5.0, 40.0, 30.0], "bare": [10.0, 20.0, 30.0]}
    assert bench.judge(Bar("x", "ours", "bare", 1.0), rates).passed
    assert bench.judge(Bar("x", "ours", "bare", 1.0), rates).value == 1.0
    assert not bench.judge(Bar("x", "ours", None, 30.5), rates).passed
    assert bench.judge(Bar("only to compare with", "ours", "bare", None), rates).passed
    assert bench.figure([3.0, 1.0, 2.0]) == bench.Figure(2.0, 1.0, 3.0)


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(bench.time, "perf_counter", lambda: self.now)


class SlowNet(StubNet):
    """1 second a position for the forward, half a second an evaluation for the rest of its call."""

    def __init__(self, game: TicTacToe, clock: Clock) -> None:
        super().__init__(game)
        self.clock = clock
        self.batches: list[tuple[str, int]] = []

    def __call__(self, states: State, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.batches.append(("evaluated", len(states)))
        self.clock.now += len(states) + 0.5
        return super().__call__(states, slots)

    def bare(self, name: str, seconds: float) -> bench.Forwards:
        def forwards(count: int) -> None:
            self.batches.append((name, count))
            self.clock.now += seconds * count

        return forwards


def test_every_evaluation_is_followed_by_its_bare_forwards_on_clocks_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = TicTacToe(3, 3, 3)
    clock = Clock(monkeypatch)
    net = SlowNet(game, clock)

    def work(evaluate: Evaluate) -> Iterator[int]:
        for playouts in bench.endless(game, evaluate, 4, 20, 9):
            clock.now += 10  # the search's own time
            yield playouts

    bares = {"bare": net.bare("bare", 1), "slower": net.bare("slower", 2)}
    measure = bench.beside_bare("ours", net, bares, work, 600)
    measure()
    net.batches.clear()
    started = clock.now
    rates = measure()
    kinds = [[size for kind, size in net.batches if kind == wanted] for wanted in ("evaluated", "bare", "slower")]
    assert kinds[0] == kinds[1] == kinds[2]
    assert [kind for kind, _ in net.batches[:4]] == ["evaluated", "bare", "slower", "evaluated"]
    assert len(set(kinds[0])) > 1  # ended games ask for no evaluation
    positions = sum(kinds[0])
    assert rates["bare"] == 1.0 and rates["slower"] == 0.5
    assert 600 <= round(rates["ours"] * (clock.now - started - 3 * positions)) < 600 + 4 * 20


def test_lockstep_counts_every_playout_and_stops_with_the_games() -> None:
    game = TicTacToe(3, 3, 3)
    assert bench.lockstep(game, UniformEvaluator(game), slots=4, simulations=10, moves=2) == 80
    whole = bench.lockstep(game, UniformEvaluator(game), slots=6, simulations=5, moves=100)
    assert 6 * 5 * 5 <= whole <= 6 * 5 * 9  # a game takes 5 to 9 plies


def test_self_play_in_pieces_is_the_same_self_play(monkeypatch: pytest.MonkeyPatch) -> None:
    game = TicTacToe(6, 6, 4)
    whole, pieces = StubNet(game), StubNet(game)
    monkeypatch.setattr(bench, "PIECE", 13)
    assert bench.lockstep(game, whole, 3, 10, 2) == 60
    endless = bench.endless(game, pieces, 3, 10, 2)
    assert list(itertools.islice(endless, 6)) == [12, 12, 6] * 2
    assert pieces.asked == whole.asked
    assert list(itertools.islice(endless, 6)) == [12, 12, 6] * 2


def test_a_cache_starts_empty_every_time() -> None:
    game = TicTacToe(3, 3, 3)
    net = StubNet(game)
    cached = CachedEvaluator(net, game, 1000)
    bench.lockstep(game, cached, 4, 20, 1)
    first = net.asked
    bench.lockstep(game, cached, 4, 20, 1)
    assert net.asked == 2 * first


def test_a_rate_over_some_time_takes_whole_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def work() -> Iterator[int]:
        while True:
            clock.now += 2
            yield 10

    assert bench.rate_over(5, work()) == 30 / 6


def make_works(units: int) -> dict[str, Iterator[int]]:
    def steady() -> Iterator[int]:
        while True:
            bench.time.sleep(0.01)
            yield units

    return {"little": steady(), "much": (100 * piece for piece in steady())}


def test_two_members_do_twice_the_work_of_one() -> None:
    crew = bench.Crew(make_works, (7,), 2)
    try:
        rates = crew.rates({"little": ("one", "two"), "much": ("one of much", "two of much")}, 0.2)
        assert list(rates) == ["one", "two", "one of much", "two of much"]
        assert 0 < rates["one"] <= 700  # 7 every hundredth of a second, or less often on a busy machine
        assert rates["two"] == pytest.approx(2 * rates["one"], rel=0.5)
        assert rates["one of much"] == pytest.approx(100 * rates["one"], rel=0.5)
        assert 10e6 < crew.memory("little", 0.02) < 4e9
    finally:
        crew.close()
