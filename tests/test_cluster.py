# SPDX-License-Identifier: AGPL-3.0-or-later
"""The pool of Ray actors on a real cluster of two nodes (two raylets on this machine), one killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from azcaffe.cluster import ClusterError, RayPool, attach
from azcaffe.cluster import pool as pool_module
from azcaffe.errors import AzcaffeError
from azcaffe.trainconfig import TrainConfig
from azcaffe.training import Trainer
from azcaffe.workers import Event, WorkerError
from tests.helpers.jobs import broken_setup, count_setup, dying_setup, fine
from tests.test_training import SMALL, never, outcome, trainer

ray: Any = pytest.importorskip("ray", reason="Ray is not installed: pip install 'azcaffe[cluster]'")
cluster_utils = pytest.importorskip("ray.cluster_utils")

REPOSITORY = Path(__file__).resolve().parents[1]
STORE = 100 * 2**20
FAST_HEALTH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A head node with room for two actors; tests add others."""
    changed = {"PYTHONPATH": str(REPOSITORY), "RAY_USAGE_STATS_ENABLED": "0"}
    with mock.patch.dict(os.environ, changed):
        head = {
            "num_cpus": 2, "object_store_memory": STORE, "include_dashboard": False, "_system_config": FAST_HEALTH,
        }  # fmt: skip
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        yield cluster
        cluster.shutdown()


@pytest.fixture(scope="module")
def joined(nodes: Any) -> Iterator[Any]:
    """This process as the trainer's, joined by HOST:PORT."""
    cluster = attach(nodes.address)
    yield cluster
    cluster.close()


@pytest.fixture
def second(nodes: Any, joined: Any) -> Iterator[Any]:
    """Another node, gone after the test."""
    node = nodes.add_node(num_cpus=2, object_store_memory=STORE)
    yield node
    if node in nodes.list_all_nodes():
        nodes.remove_node(node)
    gone(joined, 1)


def gone(joined: Any, left: int, seconds: float = 20) -> None:
    """Wait until the cluster has so many nodes."""
    deadline = time.monotonic() + seconds
    while len(joined.nodes()) != left:
        assert time.monotonic() < deadline, "a node's death goes unnoticed"
        time.sleep(0.1)


def pool(joined: Any, count: int = 2, setup: Any = count_setup, **options: Any) -> RayPool:
    return RayPool(joined, count, setup, options.pop("name", "test"), options.pop("check", fine), **options)


def events_until(pool: RayPool, enough: Any, seconds: float = 60) -> list[Event]:
    """Events until `enough(events)`."""
    events: list[Event] = []
    deadline = time.monotonic() + seconds
    while not enough(events):
        assert time.monotonic() < deadline, events
        events += pool.poll(0.2)
    return events


def drain(pool: RayPool, jobs: int) -> list[Event]:
    return events_until(pool, lambda events: sum(event.kind == "done" for event in events) >= jobs)


def results(events: list[Event], key: Any) -> list[Any]:
    return [event.value for event in events if event.kind == "result" and event.key == key]


def texts(events: list[Event], kind: str) -> list[str]:
    return [str(event.value) for event in events if event.kind == kind]


def test_every_result_arrives_once_and_in_order_with_one_job_an_actor(joined: Any) -> None:
    actors = pool(joined)
    for key in range(12):
        actors.submit(key, ("count", key))
    events = drain(actors, 12)
    for key in range(12):
        assert results(events, key) == list(range(key))
    assert actors.most_in_flight <= 2
    assert len(actors.pids) == 2
    pids = list(actors.pids)
    actors.close()
    events_until(actors, lambda _: not any(alive(pid) for pid in pids), 10)


def test_errors_of_a_job_reach_the_caller(joined: Any) -> None:
    for job, error, text in (
        (("refuse", "no such move"), WorkerError, r"^no such move$"),
        (("bug", "key"), RuntimeError, r"vm?.*KeyError: 'key'"),
        (("die", None), WorkerError, "3 actors in a row died at the same work"),
    ):
        actors = pool(joined, 1)
        actors.submit("x", job)
        with pytest.raises(error, match=f"(?s){text}"):
            drain(actors, 1)
        actors.close()


def test_a_setup_that_fails_everywhere_ends_the_pool(joined: Any) -> None:
    for setup, text in ((broken_setup, "the net does not fit"), (dying_setup, "actors die there before")):
        actors = pool(joined, 1, setup)
        with pytest.raises(WorkerError, match=rf"no node of the cluster can play: .*{text}"):
            drain(actors, 1)
        actors.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """The run that all others must equal, with a local process."""
    run = trainer(tmp_path_factory.mktemp("run"))
    assert run.run(1, never)
    return run


def test_a_node_killed_in_the_middle_changes_nothing(
    nodes: Any, joined: Any, second: Any, unbroken: Trainer, tmp_path: Path
) -> None:
    run = trainer(tmp_path)
    made: list[RayPool] = []
    killed: list[int] = []

    def make(count: int, setup: Any) -> RayPool:
        made.append(pool(joined, count, setup))
        return made[0]

    def kill_at_50() -> bool:
        there = {pid for pid, node in made[0].pids.items() if node == second.node_id} if made else set()
        if run.solver.iteration >= 50 and there and not killed:
            nodes.remove_node(second, allow_graceful=False)
            for pid in there:  # a machine that loses power loses its processes too
                os.kill(pid, signal.SIGKILL)
            killed.extend(there)
        return False

    assert run.run(2, kill_at_50, make)
    assert killed, "nobody played on the second node"
    assert outcome(run) == outcome(unbroken)
    messages = run._reporter.messages  # type: ignore[attr-defined]
    assert any("died" in line and second.node_id[:8] in line for line in messages), messages
    assert len(made[0].store) == 1, "weights of finished rounds are still held"  # the setup's model file is none here


def test_weights_are_put_once_a_generation_and_dropped_after_it(joined: Any, tmp_path: Path) -> None:
    run = trainer(tmp_path, TrainConfig(**{**vars(SMALL), "num_test": 0, "num_test_previous": 0}))
    made: list[RayPool] = []
    most = 0

    def make(count: int, setup: Any) -> RayPool:
        made.append(pool(joined, count, setup))
        return made[0]

    def watch() -> bool:
        nonlocal most
        most = max(most, len(made[0].store)) if made else 0
        return False

    assert run.run(2, watch, make)
    generations = set(run.replay.contents().generation.tolist())
    assert made[0].store.puts <= 40 // 8 and made[0].store.puts >= len(generations) - 1
    assert most <= SMALL.lag + 1
    assert made[0].most_in_flight <= 2
