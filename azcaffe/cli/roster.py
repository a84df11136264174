# SPDX-License-Identifier: AGPL-3.0-or-later
"""Players as values that can be sent to worker processes, and matches played by several processes."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from azcaffe.arena import GameRecord, MatchConfig, MatchResult, blocks, play_games
from azcaffe.cli.cluster import MAX_ACTORS, Connection, add_cluster, check_cluster
from azcaffe.cli.common import NetFiles, NetOptions, open_cached, usable_cores
from azcaffe.cli.parser import whole_number
from azcaffe.errors import ConfigError
from azcaffe.games.base import Game
from azcaffe.players import Player, RandomPlayer, RawPolicyPlayer, SearchPlayer
from azcaffe.search import Evaluate, RolloutEvaluator, SearchConfig
from azcaffe.workers import Handler, MakePool, WorkerPool

POLL_SECONDS = 0.5
MAX_WORKERS = 256


@dataclass(frozen=True)
class PlayerSpec:
    """A player to be made where it is needed.

    Attributes:
        name: what tables call it.
        files: its net; None: roll-outs, or random moves where there is no search either.
        search: None: the net's raw policy, or random moves where there is no net either.
    """

    name: str
    files: NetFiles | None
    search: SearchConfig | None

    def make(self, game: Game, nets: dict[NetFiles, Evaluate], options: NetOptions, slots: int) -> Player:
        """The player, opening its net unless `nets` has it."""
        if self.files is None:
            if self.search is None:
                return RandomPlayer(game, self.name)
            return SearchPlayer(self.name, game, RolloutEvaluator(game), self.search, slots)
        if self.files not in nets:
            nets[self.files] = open_cached(self.files, game, options)
        if self.search is None:
            return RawPolicyPlayer(self.name, game, nets[self.files])
        return SearchPlayer(self.name, game, nets[self.files], self.search, slots)


@dataclass(frozen=True)
class BlockJob:
    """Some blocks of one match."""

    a: PlayerSpec
    b: PlayerSpec
    config: MatchConfig
    parts: tuple[range, ...]


@dataclass(frozen=True)
class Effort:
    """Playouts and seconds of a and b in one job."""

    playouts: tuple[int, int]
    seconds: tuple[float, float]


@dataclass(frozen=True)
class ArenaSetup:
    """What a worker process needs; calling it gives the job handler."""

    game: Game
    options: NetOptions

    def __call__(self) -> Handler:
        nets: dict[NetFiles, Evaluate] = {}

        def handle(job: BlockJob) -> Iterator[GameRecord | Effort]:
            slots = max(len(part) for part in job.parts)
            a = job.a.make(self.game, nets, self.options, slots)
            b = job.b.make(self.game, nets, self.options, slots)
            yield from play_games(self.game, a, b, job.config, job.parts)
            yield Effort((a.playouts, b.playouts), (a.seconds, b.seconds))

        return handle


@dataclass
class MatchTally:
    """A match as its games come in.

    Attributes:
        seconds: wall time, filled in by whoever plays it.
    """

    a: PlayerSpec
    b: PlayerSpec
    config: MatchConfig
    records: list[GameRecord] = field(default_factory=list)
    efforts: list[Effort] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, value: GameRecord | Effort) -> None:
        """Take in what a job yields."""
        if isinstance(value, Effort):
            self.efforts.append(value)
        else:
            self.records.append(value)

    def result(self) -> MatchResult:
        """The result of the games so far."""
        records = tuple(sorted(self.records, key=lambda record: record.number))
        playouts = [sum(effort.playouts[side] for effort in self.efforts) for side in (0, 1)]
        thinking = [sum(effort.seconds[side] for effort in self.efforts) for side in (0, 1)]
        names = (self.a.name, self.b.name)
        return MatchResult(
            names, self.config, records, self.seconds, (playouts[0], playouts[1]), (thinking[0], thinking[1])
        )


@dataclass(frozen=True)
class Happening:
    """A game of match number `match` has ended (`record`), or something has to be said (`message`)."""

    match: int
    record: GameRecord | None
    message: str = ""


def play_matches(
    setup: ArenaSetup, matches: list[MatchTally], workers: int, make_pool: MakePool | None = None
) -> Iterator[Happening]:
    """Play all matches, filling their tallies; the games do not depend on the number of workers.

    `make_pool`: where; None: in processes of this machine, in this one where one is enough.

    Raises:
        ConfigError: an impossible number of workers.
    """
    if not 1 <= workers <= (MAX_WORKERS if make_pool is None else MAX_ACTORS):
        raise ConfigError(f"workers must be 1 … {MAX_WORKERS}, not {workers}")
    jobs = [
        (number, BlockJob(match.a, match.b, match.config, (part,)))
        for number, match in enumerate(matches)
        for part in blocks(match.config)
    ]
    if make_pool is None and (workers == 1 or len(jobs) == 1):
        handle = setup()
        for number, job in jobs:
            for value in handle(job):
                matches[number].add(value)
                if isinstance(value, GameRecord):
                    yield Happening(number, value)
        return
    with closing((make_pool or WorkerPool)(min(workers, len(jobs)), setup)) as pool:
        for at, (_, job) in enumerate(jobs):
            pool.submit(at, job)
        left = len(jobs)
        while left:
            for event in pool.poll(POLL_SECONDS):
                number = jobs[event.key][0] if isinstance(event.key, int) else 0
                if event.kind in ("died", "note"):
                    yield Happening(number, None, str(event.value))
                elif event.kind == "done":
                    left -= 1
                else:
                    matches[number].add(event.value)
                    if isinstance(event.value, GameRecord):
                        yield Happening(number, event.value)


def add_workers(group: argparse._ActionsContainer) -> None:
    """`--workers`, and `--cluster` with its `--actors`."""
    group.add_argument("--workers", type=whole_number, metavar="N", help="processes [one a core]")
    add_cluster(group)


@dataclass(frozen=True)
class Workforce:
    """Who plays: so many processes here, or actors of the cluster at `address`."""

    count: int | None
    address: str | None

    def play(self, setup: ArenaSetup, matches: list[MatchTally]) -> Iterator[Happening]:
        """Play all matches there, see :func:`play_matches`."""
        if self.address is None:
            yield from play_matches(setup, matches, usable_cores() if self.count is None else self.count)
            return
        with Connection() as connection:
            make_pool = connection.pools(self.address, f"match-{uuid.uuid4().hex}")
            yield from play_matches(setup, matches, connection.actors(self.address, self.count), make_pool)


def workers_from_args(args: argparse.Namespace) -> Workforce:
    """Who was asked for; without --workers one process for each core this one may use.

    Raises:
        UsageError, ClusterError: options that contradict each other, no such kind of cluster.
    """
    address = check_cluster(args.cluster, args.actors, args.workers)
    return Workforce(args.workers if address is None else args.actors, address)
