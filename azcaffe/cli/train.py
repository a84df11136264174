# SPDX-License-Identifier: AGPL-3.0-or-later
"""Train a net by self-play: games by workers, updates by caffe.SGDSolver, resumable at any time.

Without --solver-file the published net and solver are written for the game into the run's folder. Ctrl-C or SIGTERM
write a checkpoint and exit; `azcaffe train --resume DIR` goes on.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from azcaffe.cli.cluster import Connection, add_cluster, check_cluster
from azcaffe.cli.common import add_game, add_seed, usable_cores
from azcaffe.cli.main import EXIT_OK
from azcaffe.cli.parser import CommandParser, Flag, UsageError, add_config, whole_number, yes_or_no
from azcaffe.cli.train_run import QUICK, Options, Run, new_run, resumed_run
from azcaffe.progress import Progress
from azcaffe.search import SearchConfig
from azcaffe.selfplay import SelfPlayConfig
from azcaffe.trainconfig import TrainConfig
from azcaffe.workers import MakePool, WorkerPool

EXAMPLE = "azcaffe train --board-size 6 --aligned-to-win 4 --output-dir runs/tictac6"

SCHEDULE_FLAGS = {
    "games": Flag(("--num-game",), "self-play games in all"),
    "games_per_round": Flag(("--games",), "games that share one generation of weights"),
    "batch_size": Flag(("--batch-size",), "positions a step"),
    "steps_per_game": Flag(("--steps-per-game",), "solver steps for each game"),
    "max_positions": Flag(("--max-size-memory",), "positions in the replay buffer; none: no such limit"),
    "num_test": Flag(("--num-test",), "games against roll-out MCTS at each snapshot, 0: none"),
}
RARE_SCHEDULE_FLAGS = {
    "max_games": Flag(("--max-games",), "games in the replay buffer"),
    "newest_only": Flag(("--newest-only",), "draw from the newest N generations only"),
    "warmup_batches": Flag(("--warmup-batches",), "batches in the buffer before the first step"),
    "lag": Flag(("--lag",), "rounds in play ahead of training; 0: take turns"),
    "lockstep": Flag(("--lockstep",), "games a worker plays side by side"),
    "num_test_previous": Flag(("--num-test-previous",), "games against the previous snapshot, 0: none"),
    "checkpoint_every": Flag(("--checkpoint-every",), "steps between checkpoints [as snapshots, 1000 at most]"),
}
SEARCH_FLAGS = {
    "simulations": Flag(("--num-playouts", "--simulations"), "playouts a move"),
    "c_puct": Flag(("--c-puct",), "weight of the prior against the mean value"),
    "noise_alpha": Flag(("--alpha",), "Dirichlet noise at the root"),
    "noise_epsilon": Flag(("--epsilon",), "its share of the root's priors"),
}
RARE_SEARCH_FLAGS = {
    "variant": Flag(("--search",), "corrected, or original for the published sign error"),
    "fpu_reduction": Flag(("--fpu-reduction",), "first-play urgency reduction [off]"),
    "root": Flag(("--root",), "puct, or gumbel (sequential halving, improved policy as target)"),
    "gumbel_considered": Flag(("--gumbel-considered",), "root moves that gumbel considers"),
}
SELFPLAY_FLAGS = {
    "temperature": Flag(("--temperature",), "moves are drawn by visits ^ (1 / temperature)"),
    "temperature_plies": Flag(("--temperature-plies",), "most visited move after so many plies [never]"),
    "full_probability": Flag(("--full-probability",), "share of moves searched in full, the rest briefly"),
    "fast_simulations": Flag(("--fast-simulations",), "playouts of those brief searches"),
    "opening_plies": Flag(("--opening-plies",), "games begin with up to so many random moves"),
    "value_mix": Flag(("--value-mix",), "share of the search's value in the value target"),
}
PATHS = {"output_dir", "log_file", "solver_file", "model", "init_weights", "snapshot"}
FREE_ON_RESUME = (
    "games", "num_test", "num_test_previous", "checkpoint_every", "workers", "cluster", "actors", "cache", "gpu",
)  # fmt: skip
"""What may change when a run goes on: no position already played would be another one."""


def add_arguments(parser: CommandParser) -> None:
    """The published program's flags, the article's, and ours. None marks what the user did not give."""
    group = parser.add_argument_group("run")
    group.add_argument("--output-dir", metavar="DIR", help="the run's folder [runs/NAME OF THE NET]")
    group.add_argument("--resume", metavar="DIR", help="go on with the run in DIR; needs no other option")
    group.add_argument("--quick", action="store_true", help="3x3 tic-tac-toe to perfect play in minutes")
    group.add_argument("--workers", type=whole_number, metavar="N", help="self-play processes [one a core]")
    rare = parser.advanced("rare options")
    add_cluster(group, rare)
    add_seed(group)
    add_game(parser)
    net = parser.add_argument_group("net and solver")
    net.add_argument("--solver-file", "--solver", metavar="FILE", help="solver .prototxt [the published settings]")
    net.add_argument("--model", "--model-file", metavar="FILE", help="net .prototxt [the solver's; the published one]")
    net.add_argument("--init-weights", metavar="FILE", help="start from these weights")
    net.add_argument("--snapshot", metavar="FILE", help="start from this .solverstate")
    add_config(parser.add_argument_group("schedule"), TrainConfig, SCHEDULE_FLAGS)
    search = parser.add_argument_group("self-play")
    add_config(search, SearchConfig, SEARCH_FLAGS, noise_epsilon=0.25)
    rare.add_argument(
        "--max-staleness", dest="lag", type=whole_number, default=TrainConfig.lag, metavar="N", help="the same as --lag"
    )
    rare.add_argument("--log-file", metavar="FILE", help="the published CSV log [DIR/log.csv]")
    rare.add_argument("--no-symmetry", action="store_true", help="do not turn and mirror drawn positions")
    add_config(rare, TrainConfig, RARE_SCHEDULE_FLAGS)
    add_config(rare, SelfPlayConfig, SELFPLAY_FLAGS)
    add_config(rare, SearchConfig, RARE_SEARCH_FLAGS)
    rare.add_argument("--encoding", choices=("absolute", "relative"), help="input planes [by the net's channels]")
    rare.add_argument("--cache", type=whole_number, default=200_000, metavar="N", help="evaluations kept [200000]")
    rare.add_argument("--gpu", type=whole_number, metavar="N", help="run Caffe on GPU N [CPU]")
    rare.add_argument("--allow-missing", action="store_true", help="layers without weights keep their initial values")
    rare.add_argument("--allow-python-layers", action="store_true", help="let the net run Python code")
    rare.add_argument("--train", type=yes_or_no, nargs="?", const=True, metavar="0|1", help="as published; always 1")
    actions = list(parser._actions)
    defaults = {action.dest: action.default for action in actions}
    flags = {action.dest: action.option_strings[0] for action in actions}
    parser.set_defaults(**dict.fromkeys(defaults), defaults=defaults, flags=flags)


def run(args: argparse.Namespace) -> int:
    """Prepare the run, train, say how it ended."""
    given = {name: value for name, value in vars(args).items() if value is not None}
    defaults, flags = given.pop("defaults"), given.pop("flags")
    reporter = TrainReporter(bool(given.pop("quiet", False)))
    for name in ("verbose", "help", "help_all"):
        given.pop(name, None)
    if given.pop("train", True) is False:
        raise UsageError("azcaffe train trains; --train=0 is azcaffe test")
    resume, quick = given.pop("resume", None), given.pop("quick", False)
    for name in PATHS & given.keys():  # a run may be resumed from another folder
        given[name] = str(Path(given[name]).absolute())
    with StopRequest() as stop, Connection() as connection:
        if resume is not None:
            opened = resumed_run(resume, lambda kept: _changed(kept, given, flags), reporter)
        else:
            opened = new_run(_options(defaults, given, quick, connection), reporter)
        with opened as run:
            return _train(run, connection, stop, reporter)


def _options(defaults: Options, given: Options, quick: bool, connection: Connection) -> Options:
    """Defaults, then what --quick says, then what the user says.

    Raises:
        UsageError: --quick with another board, options that contradict each other.
        ClusterError: the cluster must be asked for its size, and cannot be.
    """
    if quick and {"game", "board_size", "board_width", "board_height", "connect"} & given.keys():
        raise UsageError("--quick is 3x3 tic-tac-toe: leave out the board")
    options = defaults | {"workers": usable_cores()} | (QUICK if quick else {}) | given | {"quick": quick}
    if options["workers"] < 1:
        raise UsageError(f"--workers must be at least 1, not {options['workers']}")
    workers = options["workers"]
    address = check_cluster(options["cluster"], options["actors"], given.get("workers"))
    options["cluster"] = address
    if address is not None:
        options["actors"] = workers = connection.actors(address, options["actors"])
    if "games_per_round" in given:  # the article's rounds: split between the workers, the next one in play meanwhile
        share = -(-options["games_per_round"] // workers)
        options |= {"lag": given.get("lag", 1), "lockstep": given.get("lockstep", max(1, min(share, 64)))}
    elif not quick or address is not None:  # enough to keep all busy while the trainer is `lag` rounds behind
        options["games_per_round"] = options["lockstep"] * -(-workers // max(1, options["lag"]))
    return options


def _changed(kept: Options, given: Options, flags: dict[str, str]) -> tuple[Options, list[str]]:
    """The options of a resumed run and a line for each that changes.

    Raises:
        UsageError: one changes that may not.
    """
    lines = []
    for name, value in given.items():
        if name not in kept or kept[name] == value:
            continue
        flag = flags[name]
        if name not in FREE_ON_RESUME:
            raise UsageError(
                f"this run has {flag} {kept[name]}, not {value}: a run keeps its settings. Leave the option out, "
                "or start a new run with --init-weights"
            )
        lines.append(f"{flag}: {kept[name]} -> {value}")
        kept[name] = value
    return kept, lines


def _train(run: Run, connection: Connection, stop: StopRequest, reporter: TrainReporter) -> int:
    trainer, options, workers = run.trainer, run.options, run.options["workers"]
    config, folder = trainer.config, trainer.folder
    make_pool: MakePool = WorkerPool
    address = check_cluster(options["cluster"], None, None)
    if address is not None:
        workers = connection.actors(address, options["actors"])
        make_pool = connection.pools(address, f"{socket.gethostname()}:{folder.path.resolve()}")
        jobs = (config.lag + 1) * -(-config.games_per_round // config.lockstep)
        if jobs < workers:
            reporter.message(f"only {jobs} actors find work at a time: larger --games or smaller --lockstep give more")
    with reporter.show(config.games, trainer.counters.next_game):
        finished = trainer.run(workers, stop, make_pool)
    games, iteration = trainer.counters.next_game, trainer.solver.iteration
    if finished:
        print(f"{games} games, {iteration} iterations: {folder.weights / f'{folder.name}_iter_{iteration}.caffemodel'}")
    else:
        print(
            f"azcaffe: stopped after {games} of {config.games} games, {iteration} iterations; "
            f"go on with: azcaffe train --resume {folder.path}",
            file=sys.stderr,
        )
    return EXIT_OK


class StopRequest:
    """`with StopRequest() as stop`: stop() tells whether Ctrl-C or SIGTERM has come; training asks between steps."""

    def __init__(self) -> None:
        self._asked = False
        self._old: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self._asked

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        if not self._asked:
            os.write(2, b"\nazcaffe: stopping; writing a checkpoint\n")
        self._asked = True


class TrainReporter:
    """Messages and the progress bar."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Progress | None = None
        self._losses = ""

    @contextmanager
    def show(self, total: int, start: int) -> Iterator[None]:
        """The bar, while training runs."""
        with Progress("games", total, quiet=self._quiet, start=start) as self._bar:
            yield
        self._bar = None

    def message(self, text: str) -> None:
        """A line of its own."""
        if self._bar is not None:
            self._bar.message(text)
        elif not self._quiet:
            print(f"azcaffe: {text}", file=sys.stderr, flush=True)

    def progress(self, games: int, iteration: int, losses: tuple[float, float, float] | None) -> None:
        """How far it is; losses: value, policy, KL, None: as before."""
        if losses is not None:
            self._losses = "  value {:.3f}  policy {:.3f}  KL {:.3f}".format(*losses)
        if self._bar is not None:
            self._bar.update(games, f"step {iteration}{self._losses}")
