# SPDX-License-Identifier: AGPL-3.0-or-later
"""The training loop: games from the workers into the replay buffer, batches from it into the solver.

Games are numbered and come in rounds. Round r is played with the weights as they stood after the training on round
r - 1 - lag, so workers play on while the trainer trains, and the schedule, not timing, says which weights a round uses.
Games enter the buffer in the order of their numbers. Hence a run is a function of its settings and seed, whatever
the workers' speed or number, and a stopped and resumed run equals an unbroken one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from azcaffe.atomic import clear_unfinished
from azcaffe.baselines import BaselineMatches, describe
from azcaffe.checkpoint import Checkpoint, CheckpointError, load_weights, save_weights, write_checkpoint
from azcaffe.encoding import Encoding, encode
from azcaffe.games.base import Game, State, Symmetry
from azcaffe.jobs import MatchScore, PlayJob, PlayStats, Weights, WorkerSetup
from azcaffe.replay import ReplayBuffer, load_samples, save_samples
from azcaffe.runlog import LogRow, RunLog
from azcaffe.selfplay import PlayedGame, Samples, empty_samples, join_samples
from azcaffe.trainconfig import Counters, Reporter, RunFolder, Solver, TrainConfig
from azcaffe.workers import MakePool, Pool, WorkerPool

TRAINER_STREAM = 2
CHECKPOINT_STEPS, CHECKPOINT_SECONDS = 1000, 600
"""No checkpoint is older than so many steps (unless told otherwise) or seconds; solvers may snapshot more seldom."""
SOLVER_STEM = "solver"
"""A checkpoint's solverstate and caffemodel are called so."""


class Trainer:
    """One run, new or resumed."""

    def __init__(
        self,
        game: Game,
        encoding: Encoding,
        solver: Solver,
        setup: WorkerSetup,
        config: TrainConfig,
        folder: RunFolder,
        reporter: Reporter,
        resume: Checkpoint | None = None,
        trained: bool = False,
    ) -> None:
        """`solver` stands where `resume` left it; `trained`: its weights are worth playing with from the start.

        Raises:
            CheckpointError, ReplayError: `resume` does not fit the settings.
        """
        self.game, self.encoding, self.solver, self.config, self.folder = game, encoding, solver, config, folder
        self._setup = setup
        self._reporter = reporter
        self._symmetries = game.symmetries() if config.symmetry else ()
        self._received: dict[int, PlayedGame] = {}  # games that came before their turn
        with_tests = setup.match is not None
        self.matches = BaselineMatches(
            config.simulations,
            config.num_test if with_tests else 0,
            config.num_test_previous if with_tests else 0,
            config.seed,
        )
        if resume is None:
            self.counters = Counters()
            self.rng = np.random.default_rng([config.seed, TRAINER_STREAM])
            self.replay = ReplayBuffer(game, config.max_positions, config.max_games)
            first = solver.weights() if trained else None
            self._weights: dict[int, Weights | None] = dict.fromkeys(
                range(config.lag + 1), first
            )  # by round; None: roll-outs
        else:
            self._restore(resume)
        self._log = RunLog(folder.log, folder.metrics, folder.games, solver.iteration, self.counters.next_game)
        self._throughput = [
            0.0,
            0.0,
            0.0,
            0.0,
        ]  # playouts, worker seconds, cache hits, misses since the log's last line
        self._staleness: list[int] = []  # of the games since then: generations from their net to the trainer's
        self._batch_staleness = 0.0  # of the positions drawn since then, summed over steps
        self._waited = 0.0
        self._began = self._line_began = self._checkpointed = time.monotonic()

    def run(self, workers: int, should_stop: Callable[[], bool], make_pool: MakePool = WorkerPool) -> bool:
        """Train until the games are played, or `should_stop()`; either way a checkpoint is written. True when finished.

        Raises:
            AzcaffeError: training diverged, a worker's job failed, or a checkpoint could not be written.
        """
        counters, config = self.counters, self.config
        with closing(make_pool(workers, self._setup)) as pool:
            for round_ in sorted(self._weights):
                self._submit_round(pool, round_)
            self.matches.start(pool)
            while True:
                while counters.steps_owed >= 1 and not should_stop():
                    self._collect(pool)
                    self._train_step()
                    self._after_step(pool)
                    self._wait_for_matches(pool, should_stop)
                if should_stop():
                    break
                while (counters.rounds_closed + 1) * config.games_per_round <= counters.next_game:
                    self._close_round(pool)
                if counters.next_game >= config.games:
                    break
                played = self._wait_for_game(pool, should_stop)
                if played is not None:
                    self._take(played)
                    self._checkpoint_if_due()
            if not should_stop():
                self._save_weights()
                while len(self.matches) and not should_stop():
                    self._collect(pool, 0.2)
            self.checkpoint()
        self._log.close()
        return counters.next_game >= config.games and counters.steps_owed < 1

    # Self-play.

    def _submit_round(self, pool: Pool, round_: int) -> None:
        """Queue what is missing of a round, in chunks that depend on the settings alone."""
        size = self.config.games_per_round
        numbers = range(round_ * size, min((round_ + 1) * size, self.config.games))
        pieces = -(-len(numbers) // self.config.lockstep)
        for piece in range(pieces):
            ids = tuple(numbers[piece * len(numbers) // pieces : (piece + 1) * len(numbers) // pieces])
            if any(n >= self.counters.next_game and n not in self._received for n in ids):
                generation = max(0, round_ - self.config.lag)
                pool.submit(("play", ids[0]), PlayJob(ids, generation, self._weights[round_]))

    def _collect(self, pool: Pool, timeout: float = 0.0) -> None:
        """Take in what the workers report."""
        for event in pool.poll(timeout):
            if event.kind in ("died", "note"):
                self._reporter.message(event.value)
            elif isinstance(event.value, PlayedGame):
                if event.value.game_id >= self.counters.next_game:
                    self._received[event.value.game_id] = event.value
            elif isinstance(event.value, PlayStats):
                stats = event.value
                for i, amount in enumerate((stats.playouts, stats.seconds, stats.hits, stats.misses)):
                    self._throughput[i] += amount
            elif isinstance(event.value, MatchScore):
                record = self.matches.result(event.key, event.value)
                self._log.metrics({"kind": "match", "iteration": self.solver.iteration} | record)
                self._reporter.message(describe(record))
                self.matches.start(pool)

    def _wait_for_game(self, pool: Pool, should_stop: Callable[[], bool]) -> PlayedGame | None:
        """The next game by number; None when told to stop."""
        started = time.monotonic()
        self._collect(pool)
        while self.counters.next_game not in self._received and not should_stop():
            self._collect(pool, 0.2)
        self._waited += time.monotonic() - started
        return None if should_stop() else self._received.pop(self.counters.next_game)

    def _wait_for_matches(self, pool: Pool, should_stop: Callable[[], bool]) -> None:
        """Let the workers catch up with the matches, whose snapshots take memory."""
        started = time.monotonic()
        while self.matches.too_many and not should_stop():
            self._collect(pool, 0.2)
        self._waited += time.monotonic() - started

    def _take(self, played: PlayedGame) -> None:
        """A game enters the buffer and steps are due for it."""
        counters, config = self.counters, self.config
        self.replay.append(played.samples)
        generation = max(0, played.game_id // config.games_per_round - config.lag)
        self._staleness.append(counters.rounds_closed - generation)
        counters.next_game += 1
        if len(self.replay) >= config.warmup_batches * config.batch_size:
            counters.steps_owed += config.steps_per_game
        counters.results[1 - played.winner] += 1
        counters.plies += len(played.actions)
        if played.game_id % config.games_per_round == 0:
            record = {"game": played.game_id, "generation": generation, "rules": self.game.name}
            self._log.game(record | {"actions": list(played.actions), "winner": played.winner})
        self._reporter.progress(counters.next_game, self.solver.iteration, None)

    def _close_round(self, pool: Pool) -> None:
        """A round is trained on: the weights go to the round that is due for them."""
        counters = self.counters
        played_with = self._weights.pop(counters.rounds_closed)
        counters.rounds_closed += 1
        due = counters.rounds_closed + self.config.lag
        # Until the first step the net knows nothing, and roll-outs play (as published).
        self._weights[due] = None if played_with is None and self.solver.iteration == 0 else self.solver.weights()
        self._submit_round(pool, due)

    # Training.

    def _train_step(self) -> None:
        config, counters = self.config, self.counters
        batch = self.replay.sample(self.rng, config.batch_size, config.newest_only)
        self._batch_staleness += counters.rounds_closed - float(batch.generation.mean())
        if len(self._symmetries) > 1:
            batch = turned(batch, self._symmetries, self.rng.integers(len(self._symmetries), size=len(batch)))
        planes = sample_planes(self.game, batch, self.encoding)
        losses = self.solver.step(planes, batch.policy(), batch.value)
        counters.steps_owed -= 1
        counters.loss_count += 1
        for i, loss in enumerate((losses.value, losses.policy, losses.kl)):
            counters.loss_sums[i] += float(loss)

    def _after_step(self, pool: Pool) -> None:
        """What is due at this iteration: a line of the log, a snapshot with its matches, a checkpoint."""
        iteration, solver = self.solver.iteration, self.solver
        if solver.display and iteration % solver.display == 0:
            self._write_line(pool)
        at_snapshot = solver.snapshot_every > 0 and iteration % solver.snapshot_every == 0
        if at_snapshot:
            self._save_weights()
            self.matches.snapshot(iteration, solver.weights())
            self.matches.start(pool)
        every = self.config.checkpoint_every or min(solver.snapshot_every or CHECKPOINT_STEPS, CHECKPOINT_STEPS)
        self._checkpoint_if_due(iteration % every == 0)

    def _write_line(self, pool: Pool) -> None:
        """One line in each log, on everything since the last one."""
        counters, solver = self.counters, self.solver
        value, policy, kl = (total / max(1, counters.loss_count) for total in counters.loss_sums)
        row = LogRow(solver.iteration, counters.next_game, value, policy, kl, self.matches.level, *self.matches.last)
        self._log.row(row)
        now = time.monotonic()
        seconds = max(1e-9, now - self._line_began)
        playouts, busy, hits, misses = self._throughput
        self._log.metrics(
            {"kind": "line", "time": round(time.time(), 1), "elapsed": round(self._elapsed(), 1)}
            | asdict(row)
            | {"learning_rate": solver.learning_rate, "generation": counters.rounds_closed}
            | {"buffer_positions": len(self.replay), "buffer_games": self.replay.games}
            | {
                "playouts_per_second": round(playouts / seconds),
                "playouts_per_worker_second": round(playouts / max(1e-9, busy)),
            }
            | {
                "staleness": round(float(np.mean(self._staleness or [0])), 2),
                "staleness_max": max(self._staleness, default=0),
                "batch_staleness": round(self._batch_staleness / max(1, counters.loss_count), 2),
            }
            | {"cache_hit_rate": round(hits / max(1, hits + misses), 4)}
            | {"trainer_waiting": round(self._waited / seconds, 4), "workers_waiting": round(pool.waiting_share(), 4)}
            | {"first_player": counters.results, "mean_plies": round(counters.plies / max(1, sum(counters.results)), 2)}
        )
        self._reporter.progress(counters.next_game, solver.iteration, (value, policy, kl))
        self._throughput, self._waited, self._line_began = [0.0] * 4, 0.0, now
        self._staleness, self._batch_staleness = [], 0.0
        counters.loss_sums, counters.loss_count, counters.results, counters.plies = [0.0] * 3, 0, [0, 0, 0], 0

    def _elapsed(self) -> float:
        return self.counters.elapsed + time.monotonic() - self._began

    # What is kept.

    def _save_weights(self) -> None:
        """The weights of this iteration, kept for good."""
        self.folder.weights.mkdir(parents=True, exist_ok=True)
        self.solver.save_weights(self.folder.weights / f"{self.folder.name}_iter_{self.solver.iteration}.caffemodel")

    def _checkpoint_if_due(self, now: bool = False) -> None:
        """Slow steps and roll-outs before the first one are not lost either: time counts beside steps."""
        if now or time.monotonic() > self._checkpointed + CHECKPOINT_SECONDS:
            self.checkpoint()

    def checkpoint(self) -> Path:
        """Write everything that going on needs; leaves the run as it is.

        Raises:
            CheckpointError: it could not be written.
        """
        self._checkpointed = time.monotonic()
        counters = asdict(self.counters) | {"elapsed": self._elapsed()}
        state = {
            "iteration": self.solver.iteration,
            "counters": counters,
            "rng": self.rng.bit_generator.state,
            "matches": self.matches.state(),
            "rounds": [[r, weights is not None] for r, weights in self._weights.items()],
            "snapshots": list(self.matches.weights()),
        }
        return write_checkpoint(self.folder.checkpoints, self._fill, state)

    def _fill(self, path: Path) -> None:
        self.solver.save(path, SOLVER_STEM)
        self.replay.save(path / "replay.npz")
        early = [self._received[n] for n in sorted(self._received)]
        games = [[g.game_id, list(g.actions), g.winner, len(g.samples)] for g in early]
        samples = join_samples([empty_samples(self.game, 0), *(g.samples for g in early)])
        save_samples(path / "early.npz", self.game, samples, {"games": games})
        for round_, weights in self._weights.items():
            if weights is not None:
                save_weights(path / f"round-{round_}.npz", weights)
        for iteration, weights in self.matches.weights().items():
            save_weights(path / f"snapshot-{iteration}.npz", weights)

    def _restore(self, found: Checkpoint) -> None:
        path, state, config = found.path, found.state, self.config
        clear_unfinished(self.folder.weights, "*.caffemodel")
        try:
            if self.solver.iteration != state["iteration"]:
                raise CheckpointError(
                    f"{path}: its solver stands at {self.solver.iteration}, not at {state['iteration']}"
                )
            self.counters = Counters(**state["counters"])
            self.rng = np.random.default_rng()
            self.rng.bit_generator.state = state["rng"]
            self.replay = ReplayBuffer.load(path / "replay.npz", self.game, config.max_positions, config.max_games)
            samples, meta = load_samples(path / "early.npz", self.game)
            start = 0
            for game_id, actions, winner, count in meta["games"]:
                rows = samples.take(np.arange(start, start + count))
                self._received[game_id] = PlayedGame(game_id, tuple(actions), winner, rows)
                start += count
            self._weights = {r: load_weights(path / f"round-{r}.npz") if net else None for r, net in state["rounds"]}
            self.matches.restore(
                state["matches"], {i: load_weights(path / f"snapshot-{i}.npz") for i in state["snapshots"]}
            )
        except (KeyError, TypeError, ValueError, OSError, IndexError) as problem:
            raise CheckpointError(f"{path}: damaged ({type(problem).__name__} {problem})") from problem


def turned(samples: Samples, symmetries: tuple[Symmetry, ...], which: NDArray[np.integer]) -> Samples:
    """Each sample as symmetry number `which` (n,) shows it: board, past boards and policy by the same map."""
    cells = np.stack([symmetry.cells for symmetry in symmetries])[which]
    actions = np.stack([symmetry.actions for symmetry in symmetries])[which]
    return Samples(
        np.take_along_axis(samples.board, cells, axis=1),
        np.take_along_axis(samples.past, cells[:, None, :], axis=2),
        samples.to_move,
        np.take_along_axis(samples.visits, actions, axis=1),
        samples.value,
        samples.game_id,
        samples.generation,
    )


def sample_planes(game: Game, samples: Samples, encoding: Encoding) -> NDArray[np.float32]:
    """(n, C, H, W) float32, as the net sees them."""
    if encoding.kind == "game":
        return samples.board
    nothing = np.zeros(len(samples), np.int8)
    return encode(game, State(samples.board, samples.to_move, nothing > 0, nothing, samples.past), encoding)
