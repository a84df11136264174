# SPDX-License-Identifier: AGPL-3.0-or-later
"""A simulation of training on a cluster: the real schedule, with measured costs in place of work.

Trainer, its network link and the actors are three kinds of resource. Events follow the rules of
:mod:`azcaffe.training` and :mod:`azcaffe.cluster.pool`: rounds in jobs of `lockstep` games, one job an actor, weights
to each node once a generation over the trainer's link, results back over it, games into the buffer by number,
`steps_per_game` steps a game, a round's weights out when the round `lag` before it has been trained on.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Costs:
    """What was measured; seconds and bytes.

    Attributes:
        game: one actor's time for a game, in lockstep with others.
        spread: standard deviation of a job's time, as a share of it.
        weights: size of a generation of weights.
        result: size of a game's results as they travel.
        step: a solver step.
        take: the trainer's time for a game besides the steps: unpacking, buffer.
        call: the trainer's time to hand out a job and take its reply in.
        bandwidth: of the trainer's link, bytes a second in each direction.
        latency: of a message.
    """

    game: float
    weights: float
    result: float
    step: float
    take: float = 0.0
    call: float = 0.0
    spread: float = 0.1
    bandwidth: float = 125e6
    latency: float = 0.0005


@dataclass(frozen=True)
class Plan:
    """The settings that matter: those of TrainConfig, the actors, and how many of them share a node.

    `cycles` of `lag` + 1 rounds are simulated after the first, which fills the pipeline.
    """

    actors: int
    games_per_round: int
    lockstep: int = 32
    lag: int = 2
    steps_per_game: float = 10.0
    actors_per_node: int = 16
    cycles: int = 4


@dataclass(frozen=True)
class Outcome:
    """How the simulated run went, its first cycle left out.

    Attributes:
        games: a second.
        actors_busy, trainer_busy, uplink_busy, downlink_busy: shares of the time; links are the trainer's.
        waiting_games: most games that were played and not yet trained on.
        bound: what keeps it from being faster: `actors`, `trainer`, `network` or `schedule` (too few jobs at a time).
    """

    games: float
    actors_busy: float
    trainer_busy: float
    uplink_busy: float
    downlink_busy: float
    waiting_games: int
    bound: str


class _Link:
    """Carries one message after the other; `busy` adds up."""

    def __init__(self, bandwidth: float, latency: float) -> None:
        self._bandwidth, self._latency = bandwidth, latency
        self._free = 0.0
        self.busy: list[tuple[float, float]] = []

    def send(self, now: float, size: float) -> float:
        """When a message of `size` bytes, ready at `now`, has arrived."""
        start = max(now, self._free)
        self._free = start + size / self._bandwidth
        self.busy.append((start, self._free))
        return self._free + self._latency


def _overlap(spans: list[tuple[float, float]], start: float, end: float) -> float:
    """Seconds of [start, end] that the spans cover; spans of several actors add up."""
    return sum(max(0.0, min(b, end) - max(a, start)) for a, b in spans)


def simulate(plan: Plan, costs: Costs, seed: int = 0) -> Outcome:
    """Run the plan from an empty buffer."""
    rounds = (plan.cycles + 1) * (plan.lag + 1)
    rng = np.random.default_rng(seed)
    up, down = (_Link(costs.bandwidth, costs.latency) for _ in range(2))
    nodes = -(-plan.actors // plan.actors_per_node)
    jobs_per_round = -(-plan.games_per_round // plan.lockstep)
    sizes = [len(part) for part in np.array_split(np.arange(plan.games_per_round), jobs_per_round)]
    idle = deque(range(plan.actors))
    queue = deque((r, j) for r in range(plan.lag + 1) for j in range(jobs_per_round))
    there: dict[tuple[int, int], float] = {}  # (node, round) -> when the weights are on that node
    replies: list[tuple[float, int, int, int]] = []  # (arrives, round, job, actor)
    arrived: set[tuple[int, int]] = set()
    playing: list[tuple[float, float]] = []
    training: list[tuple[float, float]] = []
    closed: list[float] = []
    now, next_job, waiting = 0.0, (0, 0), 0

    def hand_out() -> None:
        nonlocal now
        while queue and idle:
            (round_, job), actor = queue.popleft(), idle.popleft()
            now += costs.call
            node = actor % nodes
            if (node, round_) not in there:
                there[node, round_] = up.send(now, costs.weights)
            start = max(now + costs.latency, there[node, round_])
            # Games of a job are one batch: its time is that of its games together, and varies from job to job.
            end = start + sizes[job] * costs.game * max(0.2, 1 + costs.spread * rng.standard_normal())
            playing.append((start, end))
            heapq.heappush(replies, (end, round_, job, actor))

    in_transit: list[tuple[float, int, int, int]] = []

    def take_in() -> None:
        """Results leave their actors in the order they are ready; those that have arrived are taken in."""
        nonlocal now
        while replies and replies[0][0] <= now:
            end, round_, job, actor = heapq.heappop(replies)
            heapq.heappush(in_transit, (down.send(end, sizes[job] * costs.result), round_, job, actor))
        while in_transit and in_transit[0][0] <= now:
            _, round_, job, actor = heapq.heappop(in_transit)
            now += costs.call
            arrived.add((round_, job))
            idle.append(actor)
        hand_out()

    hand_out()
    while len(closed) < rounds:
        take_in()
        waiting = max(waiting, sum(sizes[job] for _, job in arrived))
        if next_job not in arrived:
            coming = [heap[0][0] for heap in (in_transit, replies) if heap]
            now = max(now, min(coming))
            continue
        arrived.discard(next_job)
        for _ in range(sizes[next_job[1]]):  # results are looked at between games (in truth between steps)
            work = costs.take + plan.steps_per_game * costs.step
            training.append((now, now + work))
            now += work
            take_in()
        next_job = (next_job[0], next_job[1] + 1)
        if next_job[1] == jobs_per_round:
            next_job = (next_job[0] + 1, 0)
            closed.append(now)
            queue += [(next_job[0] + plan.lag, job) for job in range(jobs_per_round)]
            hand_out()
    start, end = closed[plan.lag], closed[-1]
    span = end - start
    shares = [
        _overlap(playing, start, end) / span / plan.actors,
        *(_overlap(busy, start, end) / span for busy in (training, up.busy, down.busy)),
    ]
    games = (rounds - 1 - plan.lag) * plan.games_per_round / span
    actors, trainer, uplink, downlink = shares
    return Outcome(games, actors, trainer, uplink, downlink, waiting, _bound(shares))


def _bound(shares: list[float]) -> str:
    actors, trainer, uplink, downlink = shares
    names = {"trainer": trainer, "network": max(uplink, downlink), "actors": actors}
    name = max(names, key=lambda each: names[each])
    return name if names[name] > 0.8 else "schedule"


def fitting_plan(actors: int, plan: Plan) -> Plan:
    """`plan` for so many actors, with rounds as `azcaffe train --cluster` makes them; small ones run longer."""
    jobs = -(-actors // max(1, plan.lag))
    cycles = max(plan.cycles, 100 // jobs)
    return replace(plan, actors=actors, games_per_round=plan.lockstep * jobs, cycles=cycles)


def limits(plan: Plan, costs: Costs) -> dict[str, float]:
    """Games a second that each resource alone could sustain, without waiting: what the simulation must stay below."""
    per_game = plan.games_per_round
    nodes = -(-plan.actors // plan.actors_per_node)
    return {
        "actors": plan.actors / costs.game,
        "trainer": 1 / (costs.take + plan.steps_per_game * costs.step + 2 * costs.call / plan.lockstep),
        "uplink": costs.bandwidth * per_game / (nodes * costs.weights),
        "downlink": costs.bandwidth / costs.result,
    }
