# SPDX-License-Identifier: AGPL-3.0-or-later
"""How fast self-play runs, as ratios to bare `caffe.Net` forwards measured in the same minutes.

A rate is the median over repeats; the repeats of all measures are interleaved, so a machine that slows down slows
them all, and a ratio is the median of the repeats' own ratios. Every measure does a fixed piece of work and returns
how much of it
a second.
"""

from __future__ import annotations

import multiprocessing as mp
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from azcaffe.games.base import Game
from azcaffe.search import CachedEvaluator, Evaluate, Search, SearchConfig

Measure = Callable[[], float]
"""Does its work once; returns a rate in units a second."""


@dataclass(frozen=True)
class Bar:
    """A figure to hold: `measure`, in ratio to `against` where given, must reach `least`."""

    name: str
    measure: str
    against: str | None
    least: float


@dataclass(frozen=True)
class Figure:
    """One measured rate: median, and the range over the repeats."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """A bar, what was measured for it, and whether it holds."""

    bar: Bar
    value: float
    passed: bool


def interleaved(
    measures: Mapping[str, Measure], repeats: int, tick: Callable[[int, str], None]
) -> dict[str, list[float]]:
    """Run every measure once, then all again, `repeats` times; {name: rates}. `tick(done, name)` follows each."""
    rates: dict[str, list[float]] = {name: [] for name in measures}
    for repeat in range(repeats):
        for place, (name, measure) in enumerate(measures.items(), 1):
            rates[name].append(measure())
            tick(repeat * len(measures) + place, name)
    return rates


def figure(rates: list[float]) -> Figure:
    """Median and range."""
    return Figure(statistics.median(rates), min(rates), max(rates))


def judge(bar: Bar, rates: Mapping[str, list[float]]) -> Verdict:
    """The bar's value: the median of the repeats' ratios, or of the rates themselves."""
    values = rates[bar.measure]
    if bar.against is not None:
        values = [rate / base for rate, base in zip(values, rates[bar.against], strict=True)]
    value = statistics.median(values)
    return Verdict(bar, value, value >= bar.least)


def timed(work: Callable[[], int]) -> float:
    """Units of `work` a second."""
    start = time.perf_counter()
    units = work()
    return units / (time.perf_counter() - start)


def lockstep(
    game: Game, evaluate: Evaluate, slots: int, simulations: int, moves: int, c_puct: float = 3.0, seed: int = 0
) -> int:
    """Self-play of `slots` games for `moves` plies from the start, noise and temperature 1; returns the playouts made.

    Finished games sit out, as in training.
    """
    if isinstance(evaluate, CachedEvaluator):
        evaluate.clear()
    config = SearchConfig(simulations=simulations, c_puct=c_puct, noise_epsilon=0.25)
    search = Search(game, evaluate, config, slots)
    live = np.arange(slots)
    rngs = [np.random.default_rng([seed, slot]) for slot in range(slots)]
    search.reset(live, game.initial(slots), rngs)
    playouts = 0
    for _ in range(moves):
        result = search.run(live)
        playouts += result.playouts
        cumulative = result.visits.cumsum(axis=1)
        draws = np.array([rngs[slot].random() for slot in live]) * cumulative[:, -1]
        search.advance(live, (cumulative > draws[:, None]).argmax(axis=1))
        live = live[~search.states(live).over]
        if not len(live):
            break
    return playouts


def one_game(game: Game, evaluate: Evaluate, simulations: int, moves: int, c_puct: float = 3.0) -> int:
    """One game against itself by the most visited moves, as when a person plays; returns the playouts made."""
    if isinstance(evaluate, CachedEvaluator):
        evaluate.clear()
    search = Search(game, evaluate, SearchConfig(simulations=simulations, c_puct=c_puct), 1)
    search.reset([0], game.initial(1), [np.random.default_rng(0)])
    playouts = 0
    for _ in range(moves):
        result = search.run([0])
        playouts += result.playouts
        search.advance([0], result.selected)
        if search.states([0]).over[0]:
            break
    return playouts


def peak_memory() -> int:
    """Most memory this process ever had resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Crew:
    """Spawned processes that do the same work at the same moment; each builds its own net.

    `make` is called in the child and returns its measure; it must be importable by name.
    """

    def __init__(self, make: Callable[..., Measure], args: tuple, count: int) -> None:
        context = mp.get_context("spawn")
        self._pipes = []
        self._processes = []
        for _ in range(count):
            mine, theirs = context.Pipe()
            process = context.Process(target=_crew_member, args=(theirs, make, args), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(mine)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def rate(self, members: int) -> float:
        """Sum of the rates of the first `members`, working together."""
        for pipe in self._pipes[:members]:
            pipe.send(True)
        return sum(pipe.recv()[0] for pipe in self._pipes[:members])

    def memory(self) -> int:
        """Peak memory of the first member so far, bytes, after one more piece of work."""
        self._pipes[0].send(True)
        return int(self._pipes[0].recv()[1])

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.send(False)
            pipe.close()
        for process in self._processes:
            process.join()


def _crew_member(pipe: Connection, make: Callable[..., Measure], args: tuple) -> None:
    measure = make(*args)
    pipe.send(None)
    try:
        while pipe.recv():
            pipe.send((measure(), peak_memory()))
    except EOFError:
        pass
