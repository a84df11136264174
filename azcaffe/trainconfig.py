# SPDX-License-Identifier: AGPL-3.0-or-later
"""The terms of a training run: its settings, its folder, its counters, and what it expects of solver and reporter."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import ConfigError
from azcaffe.jobs import Weights


@dataclass(frozen=True)
class TrainConfig:
    """The schedule of a run; the defaults are the published ones.

    Attributes:
        games: self-play games to play in all.
        batch_size: positions a step.
        steps_per_game: solver steps for each game, > 0; fractions add up.
        warmup_batches: no step before the buffer holds so many batches.
        max_positions, max_games: what the replay buffer holds, None: no such limit (one must be set).
        newest_only: draw batches from the newest K generations only; None: from all.
        symmetry: turn every drawn position by a random symmetry of the board.
        games_per_round: games that share one generation of weights.
        lag: rounds that may be in play while the trainer is at an earlier one; 0 takes turns.
        lockstep: games a worker plays side by side, at most.
        num_test: games of the test match at each snapshot, 0: none.
        num_test_previous: games against the previous snapshot, 0: none.
        simulations: the net's playouts in tests, the first level of the opponent, and the step it grows by.
        checkpoint_every: solver steps between checkpoints; None: at each snapshot, and at least every 1,000.
        seed: of everything.
    """

    games: int = 10_000
    batch_size: int = 128
    steps_per_game: float = 10.0
    warmup_batches: int = 5
    max_positions: int | None = 10_000
    max_games: int | None = None
    newest_only: int | None = None
    symmetry: bool = True
    games_per_round: int = 32
    lag: int = 2
    lockstep: int = 32
    num_test: int = 25
    num_test_previous: int = 10
    simulations: int = 400
    checkpoint_every: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        at_least_one = ("games", "batch_size", "warmup_batches", "games_per_round", "lockstep", "simulations")
        limits = [
            (name, 1) for name in (*at_least_one, "max_positions", "max_games", "newest_only", "checkpoint_every")
        ]
        limits += [(name, 0) for name in ("lag", "num_test", "num_test_previous", "seed")]
        for name, low in limits:
            value = getattr(self, name)
            if value is not None and value < low:
                raise ConfigError(f"{name} must be at least {low}, not {value}")
        if not 0 < self.steps_per_game <= 10_000:
            raise ConfigError(f"steps_per_game must be above 0 and at most 10,000, not {self.steps_per_game}")
        if self.max_positions is None and self.max_games is None:
            raise ConfigError("the replay buffer needs a limit: max_size_memory (positions), max_games, or both")
        if self.max_positions is not None and self.max_positions < self.warmup_batches * self.batch_size:
            raise ConfigError(
                f"max_size_memory {self.max_positions} is below {self.warmup_batches} batches of {self.batch_size}, "
                "which must be in the buffer before the first step"
            )


class Losses(Protocol):
    """What a solver step reports, Caffe's own figures: `value` is half the mean squared error."""

    @property
    def value(self) -> float: ...
    @property
    def policy(self) -> float: ...
    @property
    def kl(self) -> float: ...


class Solver(Protocol):
    """The updates (:class:`azcaffe.network.Solver`)."""

    @property
    def iteration(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def display(self) -> int: ...
    @property
    def snapshot_every(self) -> int: ...
    def step(self, planes: NDArray[np.float32], policy: NDArray[np.float32], value: NDArray[np.float32]) -> Losses: ...
    def weights(self) -> Weights: ...
    def save(self, directory: Path, stem: str) -> Any: ...
    def save_weights(self, path: Path) -> Any: ...


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps its files."""

    path: Path
    name: str = "net"
    log_file: Path | None = None

    @property
    def log(self) -> Path:
        return self.log_file or self.path / "log.csv"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def games(self) -> Path:
        return self.path / "games.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def weights(self) -> Path:
        return self.path / "weights"


class Reporter(Protocol):
    """Hears what happens; decides nothing."""

    def message(self, text: str) -> None: ...
    def progress(self, games: int, iteration: int, losses: tuple[float, float, float] | None) -> None: ...


@dataclass
class Counters:
    """What a checkpoint must know besides solver, buffer and generators; plain JSON.

    Attributes:
        next_game: number of the first game not yet in the buffer.
        rounds_closed: rounds trained on to their end.
        steps_owed: solver steps due for the games in the buffer.
        loss_sums, loss_count: of the steps since the last line of the log.
        results, plies: of the games since then: player 1's wins, draws, losses; moves in all.
        elapsed: seconds the run has taken, pauses left out.
    """

    next_game: int = 0
    rounds_closed: int = 0
    steps_owed: float = 0.0
    loss_sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    loss_count: int = 0
    results: list[int] = field(default_factory=lambda: [0, 0, 0])
    plies: int = 0
    elapsed: float = 0.0
