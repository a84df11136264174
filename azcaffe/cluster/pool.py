# SPDX-License-Identifier: AGPL-3.0-or-later
"""A pool of Ray actors with the interface of :class:`azcaffe.workers.WorkerPool`.

Every node is checked first; those that cannot play are named and left out. An actor has one job at a time, its results
come back as one reply, and the next job follows when that reply has been taken in: so jobs in flight and results that
wait are as many as actors at most, on whichever side the bottleneck is. A reply comes whole or not at all, and
the job of an actor that died is run again by another one: nothing is counted twice.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import azcaffe
from azcaffe.cluster.actor import Check, JobActor, Reply, check_node, has_caffe
from azcaffe.cluster.nodes import Nodes
from azcaffe.cluster.session import NAMESPACE, Cluster
from azcaffe.cluster.shipping import Parcel, Store, unpack_results
from azcaffe.errors import ConfigError
from azcaffe.workers import MAX_DEATHS, Event, Setup, WorkerError

PULL = 64
"""Replies taken in by one poll, at most."""
PULL_SECONDS = 60.0
"""A reply that does not arrive in this time is as good as lost."""
LOOK_SECONDS = 2.0
"""How often the pool looks which nodes are there."""


@dataclass
class _Actor:
    number: int
    node: str
    handle: Any
    call: Any = None  # reference of the reply awaited
    idle_since: float | None = None  # None while it starts up or works
    job: tuple[Hashable, Parcel] | None = None
    opened: bool = False
    pid: int = 0


class RayPool:
    """`count` actors, as far as the nodes have room for them, and a queue of jobs, oldest first.

    Attributes:
        store: what jobs share.
        most_in_flight: the largest number of jobs that actors had at one time.
    """

    def __init__(
        self, cluster: Cluster, count: int, setup: Setup, name: str, check: Check = has_caffe, cpus: float = 1.0
    ) -> None:
        """Begin to check the nodes; actors start as the answers come.

        `name` is this run's: actors of an earlier pool of the name, left by a trainer that died, are ended.
        `cpus`: what an actor takes of a node.

        Raises:
            ConfigError: fewer than one actor.
        """
        if count < 1:
            raise ConfigError(f"actors must be at least 1, not {count}")
        self._cluster, self._ray, self._count, self._cpus = cluster, cluster.ray, count, cpus
        self._events: list[Event] = []
        self._name = f"{name}/{secrets.token_hex(4)}"
        self._end_left_overs(name)
        self.store = Store(self._ray.put)
        self._setup = self.store.pack(setup)
        self._make = self._ray.remote(JobActor)
        probe = self._ray.remote(num_cpus=0, max_retries=0)(check_node)
        self._nodes = Nodes(
            cluster, cpus, lambda node: probe.options(**self._on(node)).remote(check, azcaffe.__version__)
        )
        self._queue: deque[tuple[Hashable, Parcel]] = deque()
        self._deaths: dict[Hashable, int] = {}
        self._actors: dict[int, _Actor] = {}
        self._started = 0
        self._told_room: int | None = None
        self._looked = -LOOK_SECONDS
        self._waited = 0.0
        self._measured_from = time.monotonic()
        self.most_in_flight = 0
        self._look()

    # The interface of every pool.

    def submit(self, key: Hashable, job: Any, ahead: bool = False) -> None:
        """Queue `job`, behind all others or `ahead` of them; events about it carry `key`."""
        (self._queue.appendleft if ahead else self._queue.append)((key, self.store.pack(job)))
        self._hand_out()

    def poll(self, timeout: float = 0.0) -> list[Event]:
        """Events since the last call; waits up to `timeout` seconds for the first. `note` events tell of nodes.

        Raises:
            WorkerError: a job failed or killed MAX_DEATHS actors, or no node can play.
        """
        until = time.monotonic() + timeout
        while True:
            self._look()
            left = max(0.0, until - time.monotonic())
            self._take_in(0.0 if self._events else min(left, LOOK_SECONDS))
            self._hand_out()
            if self._events or time.monotonic() >= until:
                events, self._events = self._events, []
                return events

    def waiting_share(self) -> float:
        """Share of the actors' time since the last call that they had no job, 0 … 1; start-up counts as work."""
        now = time.monotonic()
        idle = [now - max(a.idle_since, self._measured_from) for a in self._actors.values() if a.idle_since is not None]
        share = (self._waited + sum(idle)) / max(1e-9, (now - self._measured_from) * max(1, len(self._actors)))
        self._waited, self._measured_from = 0.0, now
        return min(1.0, share)

    def close(self) -> None:
        """End the actors at once, whatever they do; they hold nothing that is needed."""
        self._count = 0
        for actor in self._actors.values():
            self._kill(actor.handle)
        self._actors.clear()
        for _, parcel in self._queue:
            self.store.release(parcel)
        self._queue.clear()

    # What tests and measurements look at.

    @property
    def pids(self) -> dict[int, str]:
        """Process id -> node id of the actors that are ready."""
        return {actor.pid: actor.node for actor in self._actors.values() if actor.opened}

    @property
    def in_flight(self) -> int:
        """Jobs that actors have."""
        return sum(actor.job is not None for actor in self._actors.values())

    # Inside.

    def _on(self, node: str) -> dict[str, Any]:
        strategies = self._ray.util.scheduling_strategies
        return {"scheduling_strategy": strategies.NodeAffinitySchedulingStrategy(node, soft=False)}

    def _kill(self, handle: Any) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(handle)

    def _end_left_overs(self, name: str) -> None:
        ended = 0
        for left in self._ray.util.list_named_actors():
            if left.startswith(f"{name}/"):
                with suppress(ValueError):  # it has just gone by itself
                    self._kill(self._ray.get_actor(left, namespace=NAMESPACE))
                    ended += 1
        if ended:
            self._say(f"actors that an earlier trainer of this run left, now ended: {ended}")

    def _say(self, text: str) -> None:
        self._events.append(Event("note", None, text))

    def _look(self) -> None:
        """See which nodes came and went, and start the actors that are missing where there is room."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            for line in self._nodes.refresh():
                self._say(line)
        while len(self._actors) < self._count and self._nodes.settled:
            node = self._nodes.roomiest([actor.node for actor in self._actors.values()])
            if node is None:
                break
            self._start(node)
        if len(self._actors) < self._count and not self._nodes.checking and self._told_room != len(self._actors):
            self._told_room = len(self._actors)
            self._say(f"the cluster has room for {len(self._actors)} of {self._count} actors; more start as nodes join")
        if self._nodes.hopeless:
            raise WorkerError(f"no node of the cluster can play: {'; '.join(self._nodes.left_out.values())}")

    def _start(self, node: str) -> None:
        number = next(n for n in range(self._count) if n not in self._actors)
        self._started += 1
        options = {"num_cpus": self._cpus, "max_restarts": 0, "name": f"{self._name}/{self._started}"}
        handle = self._make.options(**options, **self._on(node)).remote()
        call = handle.open.remote(self._setup.content, self.store.references(self._setup))
        self._actors[number] = _Actor(number, node, handle, call)

    def _hand_out(self) -> None:
        for actor in self._actors.values():
            if actor.idle_since is not None and self._queue:
                actor.job = self._queue.popleft()
                self._waited += time.monotonic() - max(actor.idle_since, self._measured_from)
                actor.idle_since = None
                parcel = actor.job[1]
                actor.call = actor.handle.run.remote(parcel.content, self.store.references(parcel))
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

    def _take_in(self, timeout: float) -> None:
        """Wait for the first reply or check of a node, take in those that are there."""
        calls = {actor.call: actor for actor in self._actors.values() if actor.call is not None}
        waited = [*calls, *self._nodes.calls]
        if not waited:
            time.sleep(min(timeout, 0.1))
            return
        ready, _ = self._ray.wait(waited, num_returns=1, timeout=timeout, fetch_local=False)
        if ready:
            most = min(PULL, len(waited))
            ready, _ = self._ray.wait(waited, num_returns=most, timeout=0, fetch_local=False)
        for call in ready:
            if call not in calls:
                for line in self._nodes.checked(call):
                    self._say(line)
                continue
            actor = calls[call]
            try:
                reply: Reply = self._ray.get(call, timeout=PULL_SECONDS)
            except self._ray.exceptions.RayError as problem:
                self._lost(actor, problem)
            else:
                self._reply(actor, reply)

    def _reply(self, actor: _Actor, reply: Reply) -> None:
        actor.call = None
        if reply.kind == "crashed":
            raise RuntimeError(f"an actor on {self._nodes.name(actor.node)} failed:\n{reply.text}")
        if reply.kind == "failed":
            if actor.opened:
                raise WorkerError(reply.text)
            self._drop(actor)
            self._leave_out(actor.node, reply.text)
            return
        actor.idle_since = time.monotonic()
        if reply.kind == "ready":
            actor.opened, actor.pid = True, reply.pid
            self._nodes.works(actor.node)
            return
        assert actor.job is not None
        key, parcel = actor.job
        actor.job = None
        self._deaths.pop(key, None)
        self.store.release(parcel)
        self._events += [Event("result", key, value) for value in unpack_results(reply.results)]
        self._events.append(Event("done", key))

    def _lost(self, actor: _Actor, problem: Exception) -> None:
        """Its node or process has died, or its reply is lost: another one takes its place, and its job."""
        self._drop(actor)
        reason = str(problem).strip().partition("\n")[0][:200]
        where = f"actor {actor.number} on {self._nodes.name(actor.node)} died"
        if actor.job is None:
            self._events.append(Event("died", None, f"{where}; it is replaced"))
            if not actor.opened and self._nodes.died(actor.node) >= MAX_DEATHS:
                self._leave_out(actor.node, f"actors die there before their first job ({reason})")
            return
        key = actor.job[0]
        self._deaths[key] = self._deaths.get(key, 0) + 1
        if self._deaths[key] >= MAX_DEATHS:
            raise WorkerError(
                f"{MAX_DEATHS} actors in a row died at the same work (the last: {reason}); is there enough memory?"
            )
        self._queue.appendleft(actor.job)
        self._events.append(Event("died", key, f"{where}; it is replaced; its work is done again"))

    def _drop(self, actor: _Actor) -> None:
        self._kill(actor.handle)
        del self._actors[actor.number]

    def _leave_out(self, node: str, reason: str) -> None:
        line = self._nodes.leave_out(node, reason)
        if line:
            self._say(line)
