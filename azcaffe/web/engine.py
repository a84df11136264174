# SPDX-License-Identifier: AGPL-3.0-or-later
"""One thread searches for all players: requests for the same game and net run in lockstep, in batches for the net.

Playouts are made in turns of :data:`TURN` for every search in progress. A new request joins at the next turn and a
short one leaves early, so a thousand playouts for one player never hold up fifty for another. A search depends on its
own position, playouts and seed only, not on who else is playing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import AzcaffeError
from azcaffe.games.base import Game, State
from azcaffe.search import Evaluate, Search, SearchConfig, principal_variation

TURN = 16
"""Playouts of each search between two looks at the queue."""

LOG = logging.getLogger(__name__)


class Overloaded(AzcaffeError):
    """More requests are waiting than the server accepts."""


@dataclass(frozen=True)
class EngineLimits:
    """What the searching may take.

    Attributes:
        max_simulations: playouts a request, at most.
        max_seconds: a request that takes longer is answered with the playouts made so far.
        max_waiting: requests that may wait for a place; more are refused.
        max_engines: (game, net) pairs held open; the one longest unused makes room.
        slots: searches of one pair side by side, at most; fewer on large boards (see :meth:`slots_for`).
        tree_edges: bound of slots x playouts x actions, which is what a pair's memory is in proportion to
            (about 30 bytes an edge).
    """

    max_simulations: int = 1600
    max_seconds: float = 10.0
    max_waiting: int = 256
    max_engines: int = 8
    slots: int = 32
    tree_edges: int = 2_500_000

    def slots_for(self, num_actions: int) -> int:
        """Searches side by side on a game with that many actions, at least 4."""
        return max(4, min(self.slots, self.tree_edges // (self.max_simulations * num_actions)))


@dataclass(frozen=True)
class Analysis:
    """What a search found out about one position; the mover is the player to move there.

    Attributes:
        visits: (A,) int32 playouts through each move.
        priors: (A,) float32 the net's policy over legal moves.
        q: (A,) float32 mean value of each move for the mover.
        value: mean value for the mover; with no playouts, the net's own.
        net_value: the net's own value for the mover.
        line: the most visited continuation.
        playouts: made for this answer.
    """

    visits: NDArray[np.int32]
    priors: NDArray[np.float32]
    q: NDArray[np.float32]
    value: float
    net_value: float
    line: list[int]
    playouts: int

    @property
    def best(self) -> int:
        """The move to play: most visited, by prior among equals (so also without any playout)."""
        return int(np.lexsort((-self.priors, -self.visits))[0])


@dataclass(frozen=True)
class Source:
    """Where evaluations come from: `key` tells sources apart, `open(game)` makes the evaluator in the search thread."""

    key: str
    open: Callable[[Game], Evaluate]


@dataclass(eq=False)
class _Job:
    game: Game
    source: Source
    state: State
    simulations: int
    rng: np.random.Generator
    deadline: float
    future: Future[Analysis] = field(default_factory=Future)
    made: int = 0

    def fail(self, error: Exception) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class _Engine:
    """The searches of one game and one net."""

    def __init__(self, game: Game, source: Source, limits: EngineLimits) -> None:
        count = limits.slots_for(game.num_actions)
        self._search = Search(game, source.open(game), SearchConfig(simulations=limits.max_simulations), count)
        self.free = list(range(count))[::-1]
        self.jobs: dict[int, _Job] = {}

    def admit(self, job: _Job) -> None:
        slot = self.free.pop()
        self.jobs[slot] = job
        self._search.reset([slot], job.state, [job.rng])

    def turn(self) -> None:
        """Up to TURN playouts more for everybody; who has enough, or has lost interest, leaves."""
        for slot in [slot for slot, job in self.jobs.items() if job.future.cancelled()]:
            self.leave(slot)
        if not self.jobs:
            return
        slots = np.array(sorted(self.jobs), np.intp)
        jobs = [self.jobs[slot] for slot in slots]
        budget = np.array([min(TURN, job.simulations - job.made) for job in jobs])
        result = self._search.run(slots, budget, noise=False)
        now = time.monotonic()
        for row, (slot, job) in enumerate(zip(slots.tolist(), jobs, strict=True)):
            job.made += int(budget[row])
            if job.made < job.simulations and now < job.deadline:
                continue
            line = principal_variation(self._search, slot)
            answer = Analysis(
                result.visits[row].copy(), result.priors[row].copy(), result.q[row].copy(),
                float(result.value[row]), float(result.net_value[row]), line, job.made,
            )  # fmt: skip
            self.leave(slot)
            if job.future.set_running_or_notify_cancel():
                job.future.set_result(answer)

    def leave(self, slot: int) -> None:
        del self.jobs[slot]
        self.free.append(slot)

    def fail(self, error: Exception) -> None:
        for slot in list(self.jobs):
            job = self.jobs[slot]
            self.leave(slot)
            job.fail(error)


class SearchService:
    """The thread. :meth:`submit` may be called from any other."""

    def __init__(self, limits: EngineLimits) -> None:
        self.limits = limits
        self._engines: OrderedDict[tuple[str, int, str], _Engine] = OrderedDict()
        self._waiting: deque[_Job] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="search", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; requests in progress fail."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join()

    def submit(self, game: Game, source: Source, state: State, simulations: int, seed: int) -> Future[Analysis]:
        """Ask for a search of `state` (B = 1, not over); 0 simulations: the net's opinion alone.

        Cancelling the future ends the search at its next turn.

        Raises:
            Overloaded: too many requests are waiting, or the service has stopped.
        """
        if not 0 <= simulations <= self.limits.max_simulations:
            raise ValueError(f"{simulations} playouts, at most {self.limits.max_simulations} are allowed")
        deadline = time.monotonic() + self.limits.max_seconds
        job = _Job(game, source, state, simulations, np.random.default_rng(seed), deadline)
        with self._condition:
            if self._closing or len(self._waiting) >= self.limits.max_waiting:
                raise Overloaded("the server is busy: try again in a moment")
            self._waiting.append(job)
            self._condition.notify()
        return job.future

    def _work(self) -> None:
        while True:
            with self._condition:
                while not self._closing and not self._waiting and not self._busy():
                    self._condition.wait()
                waiting, closing = list(self._waiting), self._closing
                self._waiting.clear()
            if closing:
                self._fail_all(waiting)
                return
            left = [job for job in waiting if not self._admit(job)]
            with self._condition:
                self._waiting.extendleft(reversed(left))
            for engine in self._busy():
                try:
                    engine.turn()
                except Exception as error:  # a net that fails must not end the thread that serves all others
                    LOG.exception("a search failed")
                    engine.fail(error)
                    self._engines = OrderedDict((k, e) for k, e in self._engines.items() if e is not engine)

    def _busy(self) -> list[_Engine]:
        return [engine for engine in self._engines.values() if engine.jobs]

    def _admit(self, job: _Job) -> bool:
        """Give `job` a place, unless nobody waits for it any more; False: it has to wait for one."""
        if job.future.cancelled():
            return True
        key = (job.game.name, job.game.history, job.source.key)
        engine = self._engines.get(key)
        if engine is None:
            if len(self._engines) >= self.limits.max_engines and not self._drop_idle():
                return False
            try:
                engine = self._engines[key] = _Engine(job.game, job.source, self.limits)
            except Exception as error:
                LOG.exception("a net could not be opened")
                job.fail(error)
                return True
        if not engine.free:
            return False
        self._engines.move_to_end(key)
        engine.admit(job)
        return True

    def _drop_idle(self) -> bool:
        for key, engine in self._engines.items():
            if not engine.jobs:
                del self._engines[key]
                return True
        return False

    def _fail_all(self, waiting: list[_Job]) -> None:
        stopped = Overloaded("the server is stopping")
        for job in waiting:
            job.fail(stopped)
        for engine in self._engines.values():
            engine.fail(stopped)
