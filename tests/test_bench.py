# SPDX-License-Identifier: AGPL-3.0-or-later
"""The arithmetic of the bench, and that its pieces of work do what they count."""

from __future__ import annotations

from azcaffe import bench
from azcaffe.bench import Bar
from azcaffe.games.tictactoe import TicTacToe
from azcaffe.search import CachedEvaluator, UniformEvaluator
from tests.helpers.stub_net import StubNet


def test_repeats_are_interleaved_and_progress_is_told() -> None:
    order: list[str] = []
    told: list[tuple[int, str]] = []

    def measure(name: str) -> bench.Measure:
        return lambda: order.append(name) or float(len(order))  # type: ignore[func-returns-value]

    rates = bench.interleaved({"a": measure("a"), "b": measure("b")}, 3, lambda done, name: told.append((done, name)))
    assert order == ["a", "b"] * 3
    assert rates == {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert told == [(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "a"), (6, "b")]


def test_a_bar_is_judged_by_the_median_of_the_repeats_ratios() -> None:
    # Ratios 0.5, 2, 1: their median is 1, whereas the ratio of the medians would be 20 / 20 too only by chance of
    # order.
    rates = {"ours": [5.0, 40.0, 30.0], "bare": [10.0, 20.0, 30.0]}
    assert bench.judge(Bar("x", "ours", "bare", 1.0), rates).passed
    assert bench.judge(Bar("x", "ours", "bare", 1.0), rates).value == 1.0
    assert not bench.judge(Bar("x", "ours", None, 30.5), rates).passed
    assert bench.figure([3.0, 1.0, 2.0]) == bench.Figure(2.0, 1.0, 3.0)


def test_lockstep_counts_every_playout_and_stops_with_the_games() -> None:
    game = TicTacToe(3, 3, 3)
    assert bench.lockstep(game, UniformEvaluator(game), slots=4, simulations=10, moves=2) == 80
    whole = bench.lockstep(game, UniformEvaluator(game), slots=6, simulations=5, moves=100)
    assert 6 * 5 * 5 <= whole <= 6 * 5 * 9  # a game takes 5 to 9 plies
    assert 5 * 30 <= bench.one_game(game, UniformEvaluator(game), simulations=30, moves=100) <= 9 * 30


def test_a_cache_starts_empty_every_time() -> None:
    game = TicTacToe(3, 3, 3)
    net = StubNet(game)
    cached = CachedEvaluator(net, game, 1000)
    bench.lockstep(game, cached, 4, 20, 1)
    first = net.asked
    bench.lockstep(game, cached, 4, 20, 1)
    assert net.asked == 2 * first


def make_counter(step: int) -> bench.Measure:
    return lambda: float(step)


def test_crew_adds_up_its_members_rates() -> None:
    crew = bench.Crew(make_counter, (7,), 2)
    try:
        assert crew.rate(1) == 7
        assert crew.rate(2) == 14
        assert 10e6 < crew.memory() < 4e9
    finally:
        crew.close()
