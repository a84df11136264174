# SPDX-License-Identifier: AGPL-3.0-or-later
"""A training run's folder: made whole before the first game, found again by --resume.

config.json          every option, and the game
NAME.prototxt        the net; solver.prototxt: the solver. Copies: the run does not depend on the originals
log.csv              the published log; metrics.jsonl: everything else; games.jsonl: each round's first game
weights/             NAME_iter_N.caffemodel at each snapshot
checkpoints/         the last two
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from azcaffe.arena import MatchConfig, play_match
from azcaffe.atomic import write_atomically
from azcaffe.checkpoint import Checkpoint, latest_checkpoint
from azcaffe.cli.common import game_from_args
from azcaffe.cli.main import version
from azcaffe.cli.parser import UsageError, config_from_args
from azcaffe.encoding import Encoding
from azcaffe.errors import AzcaffeError, ConfigError
from azcaffe.games.base import Game
from azcaffe.games.registry import parse_game
from azcaffe.jobs import MatchJob, MatchScore, WorkerSetup
from azcaffe.network import NetEvaluator, NetSpec, Solver, SolverSpec, read_model, write_net, write_solver
from azcaffe.network.shipped import shipped_files
from azcaffe.network.solverfile import read_solver
from azcaffe.players import SearchPlayer
from azcaffe.search import Evaluate, RolloutEvaluator, SearchConfig
from azcaffe.selfplay import SelfPlayConfig
from azcaffe.trainconfig import Reporter, RunFolder, TrainConfig
from azcaffe.training import SOLVER_STEM, Trainer

Options = dict[str, Any]
"""Option -> value, defaults included; what config.json holds."""

CONFIG, SOLVER_FILE, LOCK = "config.json", "solver.prototxt", "lock"

QUICK: Options = {
    "game": "tictactoe(height=3,width=3,connect=3)",
    "games": 6000,
    "steps_per_game": 2.0,
    "max_positions": 50_000,
    "games_per_round": 128,
    "lockstep": 64,
    "lag": 1,
    "simulations": 100,
    "temperature": 1.5,  # flatter than the visits: the net shall know positions that good play avoids, too
    "num_test_previous": 0,
}
"""--quick: what differs from the defaults; net and solver are those of models/."""
QUICK_SOLVER = "solver_tic_tac_3_3.prototxt"
QUICK_NET = "net_tic_tac_3_3_2_res_block.prototxt"


@dataclass(frozen=True)
class BaselinePlayer:
    """Plays a run's test matches with the arena: nets search as in self-play, without noise."""

    search: SearchConfig

    def __call__(self, game: Game, job: MatchJob, evaluate: Evaluate, opponent: Evaluate | None) -> MatchScore:
        net = SearchPlayer("net", game, evaluate, self.search, job.games)
        if opponent is None:
            rollouts = replace(self.search, simulations=job.opponent_simulations)
            other = SearchPlayer("rollout", game, RolloutEvaluator(game), rollouts, job.games)
        else:
            other = SearchPlayer("previous", game, opponent, self.search, job.games)
        seed = int(np.random.SeedSequence(job.seed).generate_state(1)[0])
        result = play_match(game, net, other, MatchConfig(job.games, parallel=job.games, seed=seed))
        return MatchScore(result.wins, result.draws, result.losses)


@dataclass(frozen=True)
class Run:
    """A run that may start."""

    trainer: Trainer
    options: Options


@contextmanager
def new_run(options: Options, reporter: Reporter) -> Iterator[Run]:
    """Check everything, then make the folder.

    Raises:
        AzcaffeError: options, files or folder cannot be used.
    """
    game = game_from_args(Namespace(**options))
    configs = _configs(options)
    with _net_files(game, options) as (solver_file, model):
        name = Path(model).stem
        game, encoding = _with_history(game, model, options)
        folder = RunFolder(Path(options["output_dir"] or Path("runs") / name), name, _log_file(options))
        _refuse_old_run(folder)
        solver = _open_solver(solver_file, model, game, encoding, options, options["snapshot"], options["init_weights"])
        folder.path.mkdir(parents=True, exist_ok=True)
        with _locked(folder.path):
            _refuse_old_run(folder)
            shutil.copyfile(model, folder.path / f"{name}.prototxt")
            shutil.copyfile(solver_file, folder.path / SOLVER_FILE)
            described: dict[str, Any] = {"azcaffe": version(), "game": game.name, "history": game.history, "net": name}
            described["options"] = options
            _write_config(folder.path, described)
            started = options["snapshot"] is not None or options["init_weights"] is not None
            setup = _setup(game, folder, encoding, configs, options)
            trainer = Trainer(game, encoding, solver, setup, configs[0], folder, reporter, None, started)
            where = f"{options['actors']} actors" if options["cluster"] else f"{options['workers']} workers"
            reporter.message(f"{game.name}: {folder.path}, {where}")
            yield Run(trainer, options)


@contextmanager
def resumed_run(
    directory: str, change: Callable[[Options], tuple[Options, list[str]]], reporter: Reporter
) -> Iterator[Run]:
    """Open the run in `directory` at its last checkpoint; `change` applies what the command line says.

    Raises:
        AzcaffeError: no run there, no whole checkpoint, or an option that may not change.
    """
    path = Path(directory)
    described = _read_config(path)
    options, lines = change({"cluster": None, "actors": None} | described["options"])
    if options["workers"] < 1:
        raise UsageError(f"--workers must be at least 1, not {options['workers']}")
    game = parse_game(described["game"]).with_history(described["history"])
    name = described["net"]
    folder = RunFolder(path, name, _log_file(options))
    model, solver_file = path / f"{name}.prototxt", path / SOLVER_FILE
    with _locked(path):
        found = latest_checkpoint(folder.checkpoints) if folder.checkpoints.is_dir() else None
        for line in found.damaged if found else ():
            reporter.message(f"{line}; the one before is used")
        game, encoding = _with_history(game, model, options)
        configs = _configs(options)
        solver = _open_solver(solver_file, model, game, encoding, options, *_start(found, options))
        if lines:
            _write_config(path, described | {"options": options})
        for line in lines:
            reporter.message(line)
        setup = _setup(game, folder, encoding, configs, options)
        started = options["snapshot"] is not None or options["init_weights"] is not None
        trainer = Trainer(game, encoding, solver, setup, configs[0], folder, reporter, found, started)
        reporter.message(f"{path}: goes on at game {trainer.counters.next_game}, iteration {solver.iteration}")
        yield Run(trainer, options)


def _start(found: Checkpoint | None, options: Options) -> tuple[Any, Any]:
    """(solverstate, weights) to begin with: the checkpoint's, or (killed before the first one) the run's own."""
    if found is None:
        return options["snapshot"], options["init_weights"]
    return found.path / f"{SOLVER_STEM}.solverstate", found.path / f"{SOLVER_STEM}.caffemodel"


def _configs(options: Options) -> tuple[TrainConfig, SearchConfig, SelfPlayConfig]:
    given = Namespace(**options)
    train = config_from_args(TrainConfig, given, symmetry=not options["no_symmetry"])
    return train, config_from_args(SearchConfig, given), config_from_args(SelfPlayConfig, given)


def _setup(game: Game, folder: RunFolder, encoding: Encoding, configs: Any, options: Options) -> WorkerSetup:
    train, search, selfplay = configs
    open_net = partial(
        NetEvaluator,
        model=folder.path.absolute() / f"{folder.name}.prototxt",
        encoding=encoding,
        allow_python_layers=options["allow_python_layers"],
        gpu=options["gpu"],
    )
    quiet_search = SearchConfig(search.simulations, c_puct=search.c_puct, variant=search.variant)
    return WorkerSetup(game, open_net, search, selfplay, train.seed, options["cache"], BaselinePlayer(quiet_search))


def _open_solver(
    solver_file: Any, model: Any, game: Game, encoding: Encoding, options: Options, solverstate: Any, weights: Any
) -> Solver:
    return Solver(
        solver_file,
        game,
        encoding=encoding,
        model=model,
        batch_size=options["batch_size"],
        seed=options["seed"],
        solverstate=solverstate,
        weights=weights,
        allow_missing=options["allow_missing"],
        allow_python_layers=options["allow_python_layers"],
        gpu=options["gpu"],
    )


def _with_history(game: Game, model: Any, options: Options) -> tuple[Game, Encoding]:
    """The game keeping as many past boards as the net in `model` sees, and the net's encoding."""
    encoding = Encoding.of_game(game)
    if encoding is None:
        channels = read_model(model, options["allow_python_layers"]).channels
        encoding = Encoding.for_channels(channels, options["encoding"])
        game = game.with_history(encoding.past)
    return game, encoding


@contextmanager
def _net_files(game: Game, options: Options) -> Iterator[tuple[Path, Path]]:
    """(solver, net) as the user gave them; what was not given is written in the published form for the game."""
    solver_file, model = options["solver_file"], options["model"]
    with tempfile.TemporaryDirectory(prefix="azcaffe-") as made:
        if options["quick"] and solver_file is None and model is None:
            for name in (QUICK_SOLVER, QUICK_NET):
                (Path(made) / name).write_text(shipped_files()[name], encoding="utf-8")
            solver_file, model = Path(made) / QUICK_SOLVER, Path(made) / QUICK_NET
        if solver_file is None and model is None:
            model = Path(made) / f"{net_name(game)}.prototxt"
            own = Encoding.of_game(game)
            write_net(NetSpec.for_game(game, own.channels if own else 3, name=model.stem), model)
        if solver_file is None:
            solver_file = Path(made) / SOLVER_FILE
            write_solver(SolverSpec(), solver_file, model)
        elif model is None:
            model = Path(read_solver(solver_file, None, options["allow_python_layers"]).model)
            if model.absolute() == Path(solver_file).absolute():
                raise ConfigError(f"{solver_file} holds its net itself: write it to a file of its own and give --model")
        yield Path(solver_file), Path(model)


def net_name(game: Game) -> str:
    """The published file's name for its games, e.g. `net_tic_tac_6_4_2_res_block`; for others made from the rules."""
    kind, _, rest = game.name.partition("(")
    numbers = [part.partition("=")[2] for part in rest.rstrip(")").split(",")]
    if kind == "tictactoe" and numbers[:1] == numbers[1:2]:
        return f"net_tic_tac_{numbers[0]}_{numbers[2]}_2_res_block"
    if kind == "connectn":
        return f"net_connect_{'_'.join(numbers)}_2_res_block"
    words = "".join(letter if letter.isalnum() else "_" for letter in game.name).strip("_")
    return f"net_{words}_2_res_block"


def _log_file(options: Options) -> Path | None:
    return Path(options["log_file"]) if options["log_file"] else None


def _refuse_old_run(folder: RunFolder) -> None:
    if (folder.path / CONFIG).exists():
        raise AzcaffeError(
            f"{folder.path} holds a run already: --resume {folder.path} goes on with it, or give another --output-dir"
        )
    if folder.log_file is not None and folder.log_file.exists():
        raise AzcaffeError(f"{folder.log_file} exists, and its lines belong to another run: give another --log-file")
    if folder.path.exists() and not folder.path.is_dir():
        raise AzcaffeError(f"{folder.path} is a file: give another --output-dir")


def _write_config(path: Path, described: dict[str, Any]) -> None:
    write_atomically(path / CONFIG, [json.dumps(described, indent=1).encode()])


def _read_config(path: Path) -> dict[str, Any]:
    try:
        described = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        if not {"game", "history", "net", "options"} <= described.keys():
            raise ValueError("something is missing in it")
    except FileNotFoundError:
        raise AzcaffeError(f"{path}: no run there (no {CONFIG})") from None
    except (OSError, ValueError, AttributeError) as problem:
        raise AzcaffeError(f"{path / CONFIG}: cannot be used: {problem}") from None
    return dict(described)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Nobody else may train in this folder; the system lifts the lock when the process ends, however it ends."""
    with open(path / LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AzcaffeError(f"{path}: another azcaffe train is at work in this folder") from None
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
