# SPDX-License-Identifier: AGPL-3.0-or-later
"""The pool of Ray actors on a real cluster of two nodes (two raylets on this machine), one killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from azcaffe.arena import MatchConfig
from azcaffe.cli.common import NetOptions
from azcaffe.cli.roster import ArenaSetup, MatchTally, PlayerSpec, play_matches
from azcaffe.cluster import RayPool, attach
from azcaffe.cluster.actor import JobActor
from azcaffe.games.registry import make_game
from azcaffe.search import SearchConfig
from azcaffe.training import Trainer
from azcaffe.workers import Event, WorkerError
from tests.helpers.jobs import broken_setup, count_setup, dying_setup, fine
from tests.helpers.waiting import PATIENCE, alive, wait_for
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
        cluster = patiently(lambda: cluster_utils.Cluster(initialize_head=True, head_node_args=head))
        yield cluster
        cluster.shutdown()


def patiently(start: Callable[[], Any]) -> Any:
    """Ray allows a node 30 seconds to start, which a machine under load may need more than once."""
    for left in (2, 1, 0):
        try:
            return start()
        except Exception as problem:
            if left == 0 or "timed out during startup" not in str(problem):
                raise
    raise AssertionError


@pytest.fixture(scope="module")
def joined(nodes: Any) -> Iterator[Any]:
    """This process as the trainer's, joined by HOST:PORT."""
    cluster = attach(nodes.address)
    yield cluster
    cluster.close()


@pytest.fixture
def second(nodes: Any, joined: Any) -> Iterator[Any]:
    """Another node, gone after the test."""
    node = patiently(lambda: nodes.add_node(num_cpus=2, object_store_memory=STORE))
    yield node
    if node in nodes.list_all_nodes():
        nodes.remove_node(node)
    gone(joined, 1)


def gone(joined: Any, left: int) -> None:
    """Wait until the cluster has so many nodes."""
    wait_for(lambda: len(joined.nodes()) == left)


def pool(joined: Any, count: int = 2, setup: Any = count_setup, **options: Any) -> RayPool:
    return RayPool(joined, count, setup, options.pop("name", "test"), options.pop("check", fine), **options)


def events_until(pool: RayPool, enough: Any) -> list[Event]:
    """Events until `enough(events)`."""
    events: list[Event] = []
    deadline = time.monotonic() + PATIENCE
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
    actors.submit(12, ("slow", 4))
    assert actors.in_flight <= 2
    events = drain(actors, 13)
    for key in range(12):
        assert results(events, key) == list(range(key))
    assert actors.most_in_flight <= 2
    events_until(actors, lambda _: len(actors.pids) == 2)
    assert 0 <= actors.waiting_share() <= 1
    time.sleep(0.3)
    assert actors.waiting_share() > 0.9
    pids = list(actors.pids)
    actors.close()
    wait_for(lambda: not any(alive(pid) for pid in pids), seconds=10)  # no actor outlives its pool


def test_errors_of_a_job_reach_the_caller(joined: Any) -> None:
    for job, error, text in (
        (("refuse", "no such move"), WorkerError, r"^no such move$"),
        (("bug", "key"), RuntimeError, r"an actor on .* failed:.*KeyError: 'key'"),
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
    most = 0

    def make(count: int, setup: Any) -> RayPool:
        made.append(pool(joined, count, setup))
        events_until(made[0], lambda _: len(made[0].pids) == count)  # else one node may play all before both are there
        return made[0]

    def kill_at_50() -> bool:
        nonlocal most
        most = max(most, len(made[0].store)) if made else 0
        there = {pid for pid, node in made[0].pids.items() if node == second.node_id} if made else set()
        if run.solver.iteration >= 50 and there and not killed:
            nodes.remove_node(second, allow_graceful=False)
            for pid in there:  # a machine that loses power loses its processes too
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed.extend(there)
        return False

    assert run.run(2, kill_at_50, make)
    assert killed, "nobody played on the second node"
    assert outcome(run) == outcome(unbroken)
    messages = run._reporter.messages  # type: ignore[attr-defined]
    assert any("died" in line and second.node_id[:8] in line for line in messages), messages
    # Weights: a put for each of the 2 later generations and, as matches may be played one after the other, for each
    # use by a match: against roll-outs, as the newer and as the older snapshot. All are gone at the end.
    snapshots = run.solver.iteration // 50
    assert made[0].store.puts <= 2 + snapshots + 2 * (snapshots - 1)
    assert most <= SMALL.lag + 1 + 2 * snapshots
    assert made[0].most_in_flight <= 2
    assert len(made[0].store) == 0, "weights of finished rounds are still held"
    lines = [json.loads(line) for line in run.folder.metrics.read_text().splitlines()]
    assert {line["staleness_max"] for line in lines if line["kind"] == "line"} == {0, 1, 2}  # lag 2 is the bound


def test_a_node_without_caffe_is_named_and_left_out(nodes: Any, joined: Any, tmp_path: Path) -> None:
    (tmp_path / "caffe").mkdir()
    (tmp_path / "caffe" / "__init__.py").write_text("raise ImportError('libcaffe.so.1: no such file')\n")
    with mock.patch.dict(os.environ, {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"}):
        node = patiently(lambda: nodes.add_node(num_cpus=2, object_store_memory=STORE))
    actors = RayPool(joined, 4, count_setup, "test")
    actors.submit(0, ("count", 3))
    events = drain(actors, 1)
    actors.close()
    nodes.remove_node(node)
    gone(joined, 1)
    notes = texts(events, "note")
    reason = f"node {node.node_id[:8]}) is left out: Caffe's Python module cannot be loaded"
    assert any(reason in note for note in notes), notes
    assert "the cluster has room for 2 of 4 actors; more start as nodes join" in notes
    assert set(actors.pids.values()) <= {nodes.head_node.node_id}


TRAINER = """
import sys
import time
from pathlib import Path
from azcaffe.cluster import RayPool, attach
from dataclasses import replace
from tests.helpers.jobs import fine
from tests.test_training import SMALL, trainer

cluster = attach(sys.argv[1])
run = trainer(Path(sys.argv[2]), replace(SMALL, checkpoint_every=10))
made = []

def make(count, setup):
    made.append(RayPool(cluster, count, setup, "killed", fine))
    return made[0]

def tell():
    if run.solver.iteration >= 135:
        print(*made[0].pids, flush=True)
        time.sleep(1000)  # the end comes before
    return False

run.run(2, tell, make)
"""


def test_a_killed_trainer_goes_on_from_its_checkpoint_with_fresh_actors(
    joined: Any, unbroken: Trainer, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(TRAINER)
    folder = tmp_path / "run"
    command = [sys.executable, str(tmp_path / "program.py"), joined.address, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()
    assert pids
    # An actor that Ray has not ended with its trainer (one that was detached, say) goes when the run goes on.
    left = ray.remote(num_cpus=0)(JobActor).options(name="killed/1", lifetime="detached").remote()
    again = trainer(folder, resume=True)
    assert again.solver.iteration == 130
    assert again.run(2, never, lambda count, setup: pool(joined, count, setup, name="killed"))
    assert outcome(again) == outcome(unbroken)
    messages = again._reporter.messages  # type: ignore[attr-defined]
    assert any("left, now ended" in line for line in messages), messages
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(left.run.remote(b"", {}), timeout=PATIENCE)


def test_matches_on_the_cluster_are_the_same_games(joined: Any) -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3)
    config = MatchConfig(games=6, seed=5)
    players = PlayerSpec("mcts:20", None, SearchConfig(simulations=20)), PlayerSpec("random", None, None)
    here, there = MatchTally(*players, config), MatchTally(*players, config)
    list(play_matches(ArenaSetup(game, NetOptions()), [here], 1))
    list(play_matches(ArenaSetup(game, NetOptions()), [there], 2, lambda n, setup: pool(joined, n, setup)))
    assert here.result().records == there.result().records
