# SPDX-License-Identifier: AGPL-3.0-or-later
"""What a training run asks of its worker processes: chunks of self-play games, and test matches.

Both are functions of the job alone: the job carries the weights, the evaluation cache starts empty, and every game
draws from its own stream. So it matters neither which worker runs a job, nor when, nor whether for the second time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import Game, State
from azcaffe.search import CachedEvaluator, Evaluate, RolloutEvaluator, SearchConfig
from azcaffe.selfplay import SelfPlayConfig, play_games
from azcaffe.workers import Handler

Weights = dict[str, list[np.ndarray]]
"""Layer name -> its blobs."""


class Net(Protocol):
    """An evaluator whose weights can be replaced (:class:`azcaffe.network.NetEvaluator`)."""

    def __call__(self, states: State, slots: NDArray[np.intp]) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...

    def set_weights(self, weights: Weights) -> None: ...


@dataclass(frozen=True)
class PlayJob:
    """Self-play games to be played side by side.

    Attributes:
        game_ids: their numbers.
        generation: the number of the weights, noted in the samples.
        weights: None: roll-outs instead of a net.
    """

    game_ids: tuple[int, ...]
    generation: int
    weights: Weights | None


@dataclass(frozen=True)
class PlayStats:
    """The last result of a :class:`PlayJob`: playouts made, seconds taken, positions the cache knew and did not."""

    playouts: int
    seconds: float
    hits: int
    misses: int


@dataclass(frozen=True)
class MatchJob:
    """A test of the net.

    Attributes:
        iteration: the solver's, when these weights were made.
        opponent: `rollout` (Monte Carlo tree search without a net) or `previous` (an earlier generation).
        games: how many.
        opponent_simulations: playouts a move of the roll-out opponent.
        seed: makes the match repeatable.
        weights, opponent_weights: the two nets (no second one against roll-outs).
    """

    iteration: int
    opponent: str
    games: int
    opponent_simulations: int
    seed: tuple[int, ...]
    weights: Weights
    opponent_weights: Weights | None = None


@dataclass(frozen=True)
class MatchScore:
    """The result of a :class:`MatchJob`, as the tested net sees it."""

    wins: int
    draws: int
    losses: int

    @property
    def score(self) -> float:
        """(wins + draws / 2) / games."""
        return (self.wins + self.draws / 2) / max(1, self.wins + self.draws + self.losses)


MatchPlayer = Callable[[Game, MatchJob, Evaluate, "Evaluate | None"], MatchScore]
"""`play(game, job, evaluate, opponent_evaluate)` plays the match; must pickle. The arena, a later stage, has one."""


@dataclass(frozen=True)
class WorkerSetup:
    """Everything a worker process needs; calling it gives the job handler.

    Attributes:
        game: the rules.
        make_net: opens the net; called in the worker, at most twice.
        search: settings of self-play's searches, noise included.
        selfplay: settings of self-play.
        seed: the run's.
        cache: positions the evaluation cache holds, 0 for none.
        match: plays the test matches; None where there are none.
    """

    game: Game
    make_net: Callable[[Game], Net]
    search: SearchConfig
    selfplay: SelfPlayConfig
    seed: int
    cache: int = 200_000
    match: MatchPlayer | None = None

    def __call__(self) -> Handler:
        return _JobHandler(self)


class _JobHandler:
    """Runs jobs; keeps the nets open between them."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._nets: dict[int, tuple[Net, CachedEvaluator]] = {}

    def __call__(self, job: Any) -> Iterator[Any]:
        if isinstance(job, PlayJob):
            return self._play(job)
        return self._match(job)

    def _net(self, which: int, weights: Weights) -> CachedEvaluator:
        """Net number `which` with these weights, behind an empty cache: no job may depend on the one before."""
        if which not in self._nets:
            net = self._setup.make_net(self._setup.game)
            self._nets[which] = net, CachedEvaluator(net, self._setup.game, self._setup.cache)
        net, cached = self._nets[which]
        net.set_weights(weights)
        cached.clear()
        return cached

    def _play(self, job: PlayJob) -> Iterator[Any]:
        setup = self._setup
        started = time.monotonic()
        cached = None if job.weights is None else self._net(0, job.weights)
        hits, misses = (0, 0) if cached is None else (cached.hits, cached.misses)
        evaluate: Evaluate = RolloutEvaluator(setup.game) if cached is None else cached
        playouts = 0

        def count(made: int) -> None:
            nonlocal playouts
            playouts += made

        yield from play_games(
            setup.game, evaluate, setup.search, setup.selfplay, setup.seed, job.game_ids, job.generation, count
        )
        if cached is not None:
            hits, misses = cached.hits - hits, cached.misses - misses
        yield PlayStats(playouts, time.monotonic() - started, hits, misses)

    def _match(self, job: MatchJob) -> Iterator[MatchScore]:
        assert self._setup.match is not None
        other = None if job.opponent_weights is None else self._net(1, job.opponent_weights)
        yield self._setup.match(self._setup.game, job, self._net(0, job.weights), other)
