# SPDX-License-Identifier: AGPL-3.0-or-later
"""Worker processes: spawned (never forked: Caffe and BLAS do not survive it), fed with jobs, replaced when they die.

A job is a value and its results a function of that value, so the job of a dead worker is simply run again, by its
replacement; what had arrived before is not delivered twice.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any, Protocol

from azcaffe.errors import AzcaffeError, ConfigError

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

Handler = Callable[[Any], Iterable[Any]]
"""Runs one job, yields its results."""

Setup = Callable[[], Handler]
"""Called once in each new process; must pickle."""

NICENESS = 5
"""Workers give way to the trainer: it is one process, all wait for it, and they play ahead. While it waits for games
itself, that costs them nothing."""

MAX_DEATHS = 3
"""So often may workers die on one job, or before their first one is done, until the pool gives up."""


class WorkerError(AzcaffeError):
    """A job failed, or kills every worker that tries it."""


@dataclass(frozen=True)
class Event:
    """Something a worker reports.

    Attributes:
        kind: `result`, `done` (the job gave all its results), `died` (a worker was replaced) or `note` (nothing to do).
        key: the job's key; None where a worker died without one, and for `note`.
        value: the result; for `died` and `note` a line that says what happened.
    """

    kind: str
    key: Hashable
    value: Any = None


class Pool(Protocol):
    """Does jobs somewhere; :class:`WorkerPool` in processes of this machine, azcaffe.cluster on others.

    The methods do what those of :class:`WorkerPool` do.
    """

    def submit(self, key: Hashable, job: Any, ahead: bool = False) -> None: ...
    def poll(self, timeout: float = 0.0) -> list[Event]: ...
    def waiting_share(self) -> float: ...
    def close(self) -> None: ...


MakePool = Callable[[int, Setup], Pool]
"""`make_pool(count, setup)` starts a pool of `count` workers."""


@dataclass
class _Worker:
    number: int
    process: SpawnProcess
    connection: Connection
    idle_since: float | None = None  # None while it starts up or works
    job: tuple[Hashable, Any] | None = None
    received: int = 0  # results of the present job delivered in this attempt


class WorkerPool:
    """`count` processes and a queue of jobs, oldest first."""

    def __init__(self, count: int, setup: Setup) -> None:
        """Start the processes.

        Raises:
            ConfigError: fewer than one.
        """
        if count < 1:
            raise ConfigError(f"workers must be at least 1, not {count}")
        self._setup = setup
        self._queue: deque[tuple[Hashable, Any]] = deque()
        self._delivered: dict[Hashable, int] = {}  # results already given to the caller, by job
        self._deaths: dict[Hashable, int] = {}
        self._waited = 0.0
        self._measured_from = time.monotonic()
        self._workers: list[_Worker] = []
        for number in range(count):
            self._workers.append(self._start(number))

    def submit(self, key: Hashable, job: Any, ahead: bool = False) -> None:
        """Queue `job`, behind all others or `ahead` of them; events about it carry `key`."""
        self._delivered[key] = 0
        (self._queue.appendleft if ahead else self._queue.append)((key, job))
        self._hand_out()

    def poll(self, timeout: float = 0.0) -> list[Event]:
        """Events since the last call; waits up to `timeout` seconds for the first.

        Raises:
            WorkerError: a job raised, or killed MAX_DEATHS workers.
        """
        events: list[Event] = []
        ready = multiprocessing.connection.wait([worker.connection for worker in self._workers], timeout)
        for number, worker in enumerate(self._workers):
            if worker.connection in ready:
                try:
                    while worker.connection.poll():
                        self._receive(worker, worker.connection.recv(), events)
                except (EOFError, OSError):
                    events.append(self._replace(number))
        self._hand_out()
        return events

    def waiting_share(self) -> float:
        """Share of the workers' time since the last call that they had no job, 0 … 1; start-up counts as work."""
        now = time.monotonic()
        idle = 0.0
        for worker in self._workers:
            if worker.idle_since is not None:
                idle += now - max(worker.idle_since, self._measured_from)
        share = (self._waited + idle) / max(1e-9, (now - self._measured_from) * len(self._workers))
        self._waited, self._measured_from = 0.0, now
        return min(1.0, share)

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [worker.process.pid or 0 for worker in self._workers]

    def close(self) -> None:
        """End the processes at once, whatever they do; they hold nothing that is needed."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()
        self._workers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, number: int) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._setup), name=f"worker {number}", daemon=True)
        with _quiet_signals(), _one_blas_thread():
            process.start()
        theirs.close()
        return _Worker(number, process, ours)

    def _hand_out(self) -> None:
        for worker in self._workers:
            if worker.idle_since is not None and self._queue:
                worker.job = self._queue.popleft()
                worker.received = 0
                self._waited += time.monotonic() - max(worker.idle_since, self._measured_from)
                worker.idle_since = None
                with suppress(OSError):  # it has died: the next poll finds its pipe closed and replaces it
                    worker.connection.send(worker.job[1])

    def _receive(self, worker: _Worker, message: tuple[str, Any], events: list[Event]) -> None:
        kind, value = message
        if kind == "ready":
            worker.idle_since = time.monotonic()
            return
        if kind == "failed":
            raise WorkerError(value)
        if kind == "crashed":
            raise RuntimeError(f"a worker failed:\n{value}")
        assert worker.job is not None
        key = worker.job[0]
        if kind == "result":
            worker.received += 1
            if worker.received > self._delivered[key]:
                self._delivered[key] += 1
                events.append(Event("result", key, value))
        else:
            worker.job, worker.idle_since = None, time.monotonic()
            self._deaths.pop(key, None)
            del self._delivered[key]
            events.append(Event("done", key))

    def _replace(self, number: int) -> Event:
        old = self._workers[number]
        old.connection.close()
        old.process.join(5)
        old.process.kill()
        old.process.join()
        code = old.process.exitcode or 0
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        key = None if old.job is None else old.job[0]
        self._deaths[key] = self._deaths.get(key, 0) + 1
        if self._deaths[key] >= MAX_DEATHS:
            raise WorkerError(
                f"{MAX_DEATHS} workers in a row died at the same work (the last: {how}); is there enough memory?"
            )
        if old.job is not None:
            self._queue.appendleft(old.job)
        self._workers[number] = self._start(number)
        again = "" if old.job is None else "; its work is done again"
        return Event("died", key, f"worker {number} (process {old.process.pid}) died, {how}; it is replaced{again}")


def _work(connection: Connection, setup: Setup) -> None:
    """What a worker process does until its pipe closes."""
    os.nice(NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def tell(kind: str, value: Any = None) -> None:
        try:
            connection.send((kind, value))
        except OSError:  # the trainer is gone: so are we
            os._exit(0)

    try:
        handler = setup()
        tell("ready")
        while True:
            try:
                job = connection.recv()
            except (EOFError, OSError):
                return
            for result in handler(job):
                tell("result", result)
            tell("done")
    except AzcaffeError as problem:
        tell("failed", str(problem))
    except Exception:
        tell("crashed", traceback.format_exc())


def _end_with_parent() -> None:
    """Exit the moment the trainer is gone, in the middle of a search too."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(0)


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """Processes started here never see Ctrl-C or SIGTERM (both may go to the whole group): the trainer ends them."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Processes started here run BLAS on one thread, unless the user says otherwise: each has a core of its own."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    if any(name in os.environ for name in names):
        yield
        return
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
