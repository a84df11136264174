# SPDX-License-Identifier: AGPL-3.0-or-later
"""How fast self-play runs, as ratios of rates that share every second of a machine whose speed drifts.

What is compared is measured together: self-play with bare `caffe.Net` forwards after each of its own, on the same
input; two processes between short stretches of one. A rate is the median over repeats, and a ratio is the median of the
repeats' own ratios.
"""

from __future__ import annotations

import itertools
import multiprocessing as mp
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import Game, State
from azcaffe.search import CachedEvaluator, Evaluate, Search, SearchConfig

Measure = Callable[[], Mapping[str, float]]
"""Does its work once; returns the rates that were measured together, by name, in units a second."""

PIECE = 6400
"""Playouts of all games together between two looks at the clock, where work is measured by time."""


Forwards = Callable[[int], object]
"""Does the forward of so many positions with nothing around it."""


@dataclass(frozen=True)
class Bar:
    """A figure to hold: `measure`, in ratio to `against` where given, must reach `least`.

    Without `least` it is there to compare another with, and always passes.
    """

    name: str
    measure: str
    against: str | None
    least: float | None


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


def interleaved(measures: Sequence[Measure], repeats: int, tick: Callable[[int, str], None]) -> dict[str, list[float]]:
    """Run every measure once, then all again, `repeats` times; {name: rates}. `tick(done, name)` follows each.

    A measure that stands in `measures` more than once gives that many rates a repeat.
    """
    rates: dict[str, list[float]] = {}
    for done, measure in enumerate(itertools.chain(*[measures] * repeats), 1):
        measured = measure()
        for name, rate in measured.items():
            rates.setdefault(name, []).append(rate)
        tick(done, next(iter(measured)))
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
    return Verdict(bar, value, bar.least is None or value >= bar.least)


def timed(name: str, work: Callable[[], int]) -> Measure:
    """Units of `work` a second, under `name`."""

    def measure() -> dict[str, float]:
        start = time.perf_counter()
        units = work()
        return {name: units / (time.perf_counter() - start)}

    return measure


def beside_bare(
    name: str, net: Evaluate, bares: Mapping[str, Forwards], work: Callable[[Evaluate], Iterator[int]], units: int
) -> Measure:
    """Units a second of the endless `work` done with `net`, and positions a second of `bares`, forwards alone, by name.

    After each evaluation each of `bares` does the forward of as many positions once, on a clock of its own. So all
    rates are over the same seconds and the same batch sizes; in ratio to its own net's, the work's is the share of the
    time that is the net's. A measure takes as many pieces of the work as at least `units` need.
    """
    positions, seconds = 0, dict.fromkeys(bares, 0.0)

    def evaluate(states: State, slots: NDArray[np.intp]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        nonlocal positions
        answer = net(states, slots)
        positions += len(states)
        for bare, forwards in bares.items():
            start = time.perf_counter()
            forwards(len(states))
            seconds[bare] += time.perf_counter() - start
        return answer

    pieces = work(evaluate)

    def measure() -> dict[str, float]:
        nonlocal positions
        positions, done = 0, 0
        seconds.update(dict.fromkeys(bares, 0.0))
        start = time.perf_counter()
        while done < units:
            done += next(pieces)
        own = time.perf_counter() - start - sum(seconds.values())
        return {name: done / own} | {bare: positions / spent for bare, spent in seconds.items()}

    return measure


def lockstep(game: Game, evaluate: Evaluate, slots: int, simulations: int, moves: int) -> int:
    """Self-play of `slots` games for `moves` plies from the start; returns the playouts made."""
    if isinstance(evaluate, CachedEvaluator):
        evaluate.clear()
    return sum(_games(_search(game, evaluate, slots, simulations), moves, simulations, 0))


def endless(game: Game, evaluate: Evaluate, slots: int, simulations: int, moves: int) -> Iterator[int]:
    """The same over and over, in pieces of few playouts, in one search, whose memory is fresh only once."""
    search = _search(game, evaluate, slots, simulations)
    for seed in itertools.count():
        yield from _games(search, moves, max(1, PIECE // slots), seed)


def _search(game: Game, evaluate: Evaluate, slots: int, simulations: int) -> Search:
    return Search(game, evaluate, SearchConfig(simulations=simulations, noise_epsilon=0.25), slots)


def _games(search: Search, moves: int, piece: int, seed: int) -> Iterator[int]:
    """A game in each slot for `moves` plies from the start, noise and temperature 1, `piece` playouts a game at once.

    Yields the playouts made. Finished games sit out, as in training.
    """
    slots, simulations = search.tree.slots, search.config.simulations or 0
    live = np.arange(slots)
    rngs = [np.random.default_rng([seed, slot]) for slot in range(slots)]
    search.reset(live, search.game.initial(slots), rngs)
    for _ in range(moves):
        for done in range(0, simulations, piece):
            result = search.run(live, min(piece, simulations - done))
            yield result.playouts
        cumulative = result.visits.cumsum(axis=1)
        draws = np.array([rngs[slot].random() for slot in live]) * cumulative[:, -1]
        search.advance(live, (cumulative > draws[:, None]).argmax(axis=1))
        live = live[~search.states(live).over]
        if not len(live):
            break


def peak_memory() -> int:
    """Most memory this process ever had resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Crew:
    """Spawned processes that do the same work at the same time; each builds its own net.

    `make` is called in the child and returns its kinds of work by name, each an endless iterator of units done; it must
    be importable by name.
    """

    def __init__(self, make: Callable[..., Mapping[str, Iterator[int]]], args: tuple, count: int) -> None:
        context = mp.get_context("spawn")
        self._pipes: list[Connection] = []
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

    def rates(self, works: Mapping[str, tuple[str, str]], seconds: float) -> dict[str, float]:
        """`works` {work: (name, name)}: rates of one member alone and of all together, under these names.

        Each stretch takes `seconds`. All together work between the first member alone and the last one alone, whose
        mean is one member's rate: so a machine that slows down steadily, or whose cores differ, favours neither.
        """
        first, last = self._pipes[:1], self._pipes[-1:]
        before = {work: self._rate(first, work, seconds) for work in works}
        together = {work: self._rate(self._pipes, work, seconds) for work in works}
        after = {work: self._rate(last, work, seconds) for work in works}
        rates: dict[str, float] = {}
        for work, (one, all_) in works.items():
            rates |= {one: (before[work] + after[work]) / 2, all_: together[work]}
        return rates

    def _rate(self, pipes: Sequence[Connection], work: str, seconds: float) -> float:
        for pipe in pipes:
            pipe.send((work, seconds))
        return sum(pipe.recv()[0] for pipe in pipes)

    def memory(self, work: str, seconds: float) -> int:
        """Peak memory of the first member so far, bytes, after `seconds` more of `work`."""
        self._pipes[0].send((work, seconds))
        return int(self._pipes[0].recv()[1])

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.send(None)
            pipe.close()
        for process in self._processes:
            process.join()


def rate_over(seconds: float, work: Iterator[int]) -> float:
    """Units of `work` a second, from as many pieces as `seconds` take."""
    start, units, spent = time.perf_counter(), 0, 0.0
    while spent < seconds:
        units += next(work)
        spent = time.perf_counter() - start
    return units / spent


def _crew_member(pipe: Connection, make: Callable[..., Mapping[str, Iterator[int]]], args: tuple) -> None:
    works = make(*args)
    pipe.send(None)
    try:
        while (task := pipe.recv()) is not None:
            work, seconds = task
            pipe.send((rate_over(seconds, works[work]), peak_memory()))
    except EOFError:
        pass
