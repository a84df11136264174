# SPDX-License-Identifier: AGPL-3.0-or-later
"""Worker processes: what is delivered, in which order, and what deaths do (R10)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from azcaffe.errors import ConfigError
from azcaffe.workers import NICENESS, Event, WorkerError, WorkerPool
from tests.helpers.jobs import broken_setup, count_setup, dying_setup
from tests.helpers.waiting import PATIENCE, alive, wait_for

REPOSITORY = Path(__file__).resolve().parents[1]


def drain(pool: WorkerPool, jobs: int) -> list[Event]:
    """Events until so many jobs are done."""
    events: list[Event] = []
    deadline = time.monotonic() + PATIENCE
    while sum(event.kind == "done" for event in events) < jobs:
        assert time.monotonic() < deadline, events
        events += pool.poll(0.1)
    return events


def results(events: list[Event], key: Any) -> list[Any]:
    return [event.value for event in events if event.kind == "result" and event.key == key]


def test_every_result_arrives_once_and_in_order() -> None:
    with WorkerPool(2, count_setup) as pool:
        for key in range(10):
            pool.submit(key, ("count", key))
        events = drain(pool, 10)
        for key in range(10):
            assert results(events, key) == list(range(key))
        pids = set(pool.pids)
        for key in range(8):
            pool.submit(key, ("pid", None))
        assert {event.value for event in drain(pool, 8) if event.kind == "result"} <= pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_job_may_go_ahead_of_those_that_wait(tmp_path: Path) -> None:
    with WorkerPool(1, count_setup) as pool:
        pool.submit("first", ("halting", tmp_path / "go"))
        events: list[Event] = []
        while not results(events, "first"):  # it runs, so the others wait
            events += pool.poll(0.1)
        pool.submit("patient", ("count", 1))
        pool.submit("urgent", ("count", 1), ahead=True)
        (tmp_path / "go").touch()
        events += drain(pool, 3)
    assert [event.key for event in events if event.kind == "done"] == ["first", "urgent", "patient"]


def test_r10_a_killed_worker_is_replaced_and_its_job_repeated_without_doubles(tmp_path: Path) -> None:
    with WorkerPool(2, count_setup) as pool:
        pool.submit("a", ("halting", tmp_path / "go"))
        pool.submit("b", ("count", 3))
        events: list[Event] = []
        while len(results(events, "a")) < 5:
            events += pool.poll(0.1)
        pool.submit("who", ("pid", None))
        while not results(events, "who"):
            events += pool.poll(0.1)
        [victim] = set(pool.pids) - set(results(events, "who"))  # the other one is at job a
        os.kill(victim, signal.SIGKILL)
        (tmp_path / "go").touch()
        finished = sum(event.kind == "done" for event in events)
        events += drain(pool, 3 - finished)
        assert results(events, "a") == list(range(10))
        assert results(events, "b") == [0, 1, 2]
        [died] = [event for event in events if event.kind == "died"]
        assert died.key == "a"
        assert f"process {victim}) died, killed by signal 9; it is replaced; its work is done again" in died.value


def test_a_job_that_kills_every_worker_ends_the_pool_not_the_patience() -> None:
    with WorkerPool(1, count_setup) as pool:
        pool.submit("x", ("die", None))
        with pytest.raises(WorkerError, match=r"3 workers in a row died at the same work .*exit code 3"):
            drain(pool, 1)
    with WorkerPool(1, dying_setup) as pool, pytest.raises(WorkerError, match="exit code 7"):
        drain(pool, 1)


def test_errors_of_a_job_reach_the_caller() -> None:
    with WorkerPool(1, broken_setup) as pool, pytest.raises(WorkerError, match=r"^the net does not fit$"):
        drain(pool, 1)
    with WorkerPool(1, count_setup) as pool:
        pool.submit("x", ("refuse", "no such move"))
        with pytest.raises(WorkerError, match=r"^no such move$"):
            drain(pool, 1)
    with WorkerPool(1, count_setup) as pool:
        pool.submit("x", ("bug", "key"))
        with pytest.raises(RuntimeError, match="KeyError: 'key'"):
            drain(pool, 1)


def test_signals_to_the_group_do_not_reach_workers() -> None:
    with WorkerPool(1, count_setup) as pool:
        pool.submit(0, ("slow", 4))
        events: list[Event] = []
        while not events:
            events += pool.poll(0.1)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pool.pids[0], number)
        events += drain(pool, 1)
        assert results(events, 0) == [0, 1, 2, 3]
        assert not [event for event in events if event.kind == "died"]


def test_blas_gets_one_thread_unless_the_user_says_otherwise() -> None:
    for given, expected in ((None, "1"), ("2", "2")):
        clean = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
        if given:
            clean["OPENBLAS_NUM_THREADS"] = given
        with mock.patch.dict(os.environ, clean, clear=True), WorkerPool(1, count_setup) as pool:
            pool.submit(0, ("environment", "OPENBLAS_NUM_THREADS"))
            assert results(drain(pool, 1), 0) == [expected]
            assert os.environ.get("OPENBLAS_NUM_THREADS") == given


def test_workers_give_way_to_the_trainer() -> None:
    with WorkerPool(1, count_setup) as pool:
        pool.submit(0, ("count", 1))
        drain(pool, 1)
        theirs = os.getpriority(os.PRIO_PROCESS, pool.pids[0])
    assert theirs == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)


def test_waiting_is_measured() -> None:
    with WorkerPool(1, count_setup) as pool:
        pool.submit(0, ("count", 1))
        drain(pool, 1)
        pool.waiting_share()
        time.sleep(0.2)
        assert pool.waiting_share() > 0.95
        pool.submit(1, ("slow", 20))
        drain(pool, 1)
        assert pool.waiting_share() < 0.3


def test_no_workers_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        WorkerPool(0, count_setup)


PARENT = """
import sys, time
from azcaffe.workers import WorkerPool
from tests.helpers.jobs import count_setup
if __name__ == "__main__":
    pool = WorkerPool(2, count_setup)
    pool.submit(0, ("pid", None))
    while not pool.poll(0.1):
        pass
    pool.submit(1, ("forever", None))
    print(*pool.pids, flush=True)
    time.sleep(60)
"""


def test_workers_end_with_a_killed_trainer(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, str(tmp_path / "parent.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pids = parent.stdout.readline().split()
        assert len(pids) == 2
        parent.kill()
        wait_for(lambda: not any(alive(pid) for pid in pids), seconds=5)  # no worker outlives its trainer
