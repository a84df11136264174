# SPDX-License-Identifier: AGPL-3.0-or-later
"""Measure speed against bare Caffe.

The bars are ratios to forwards of the bare `caffe.Net` with Caffe's own convolution, one after each evaluation and with
the same input, on the 6x6 two-block net, BLAS on one thread; beside them stand the ratios to the net as it was used,
with this project's faster convolution. Run it on an idle machine; it takes some minutes. --growth shows how cost grows
with games, playouts, board and blocks.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from azcaffe import bench
from azcaffe.bench import Bar, Crew, Forwards, Measure, Verdict, beside_bare, timed
from azcaffe.cli.common import check_writable, models_folder, progress_from_args, write_json
from azcaffe.cli.parser import CommandParser, UsageError, whole_number
from azcaffe.encoding import Encoding
from azcaffe.games.base import Game
from azcaffe.games.connectn import ConnectN
from azcaffe.games.tictactoe import TicTacToe
from azcaffe.network import (
    NetEvaluator,
    NetSpec,
    Solver,
    SolverSpec,
    write_net,
    write_net_with_caffe_convolution,
    write_solver,
)
from azcaffe.search import CachedEvaluator

EXAMPLE = "azcaffe bench --repeats 5 --json bench.json"

CACHE = 200_000
MEMORY_LIMIT = 1.5e9
GAMES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
PLAYOUTS = (25, 50, 100, 200, 400, 800, 1600)

OPENING = 4
"""Plies of self-play that are measured, always all of them: before the first game ends, nearly every playout needs a
forward (with the shipped net 29 of 30)."""
STRETCH = 1.5
"""Seconds that one or two processes work before the other number has its turn."""
CREW_TURNS = 4
"""How often they take turns in a repeat."""

SELF_PLAY, CACHED_SELF_PLAY, FORWARDS = "self-play, cache off", "self-play, cache on", "bare forwards"
"""The kinds of work of a spawned process."""

BARS = (
    Bar("self-play, 128 games, cache off / Caffe's forwards", "self-play, cache off", "Caffe's own forwards", 0.94),
    Bar("  the same / bare forwards of the net used", "self-play, cache off", "bare forwards", None),
    Bar("self-play with cache, from the start / cache off", "self-play, cache on", "self-play, cache off", 1.5),
    Bar("two self-play processes / one, cache off", "two processes", "one process", 1.85),
    Bar("  the machine's own: bare forwards, two / one", "two processes, bare", "one process, bare", None),
    Bar("one game alone / Caffe's forwards of one position", "one game", "Caffe's own forwards of one", 0.6),
    Bar("  the same / bare forwards of the net used", "one game", "bare forwards of one", None),
    Bar("3x3 with cache, playouts/s", "3x3, cache on", None, 100_000),
)


def add_arguments(parser: CommandParser) -> None:
    group = parser.add_argument_group("bench")
    group.add_argument("--repeats", type=whole_number, default=5, metavar="N", help="of each measure, interleaved [5]")
    group.add_argument("--games", type=whole_number, default=128, metavar="N", help="games in lockstep [128]")
    group.add_argument("--simulations", type=whole_number, default=400, metavar="N", help="playouts a move [400]")
    group.add_argument("--growth", action="store_true", help="the growth tables instead of the bars")
    group.add_argument("--memory-minutes", type=whole_number, default=0, metavar="N", help="watch self-play's memory")
    group.add_argument("--against", metavar="CMD", help="a command that prints its playouts/s, timed beside ours")
    group.add_argument("--json", metavar="FILE", help="write the figures there too")


def run(args: argparse.Namespace) -> int:
    for name in ("repeats", "games", "simulations"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name} must be at least 1, not {getattr(args, name)}")
    check_writable(args.json)
    with TemporaryDirectory(prefix="azcaffe-bench-") as folder:
        report = growth(args, Path(folder)) if args.growth else bars(args, Path(folder))
    if args.json:
        write_json(args.json, report)
    return 0 if report.get("passed", True) else 1


def bars(args: argparse.Namespace, folder: Path) -> dict:
    """Measure every bar of the table; print and return figures and verdicts."""
    game, small = TicTacToe(6, 6, 4), TicTacToe(3, 3, 3)
    small_model = net_file(folder, small, 2)
    model, weights = self_play_net(folder, game)
    evaluate = NetEvaluator(game, model, weights)
    stock = NetEvaluator(game, write_net_with_caffe_convolution(model, folder / "caffe.prototxt"), weights)
    cached = CachedEvaluator(evaluate, game, CACHE)
    small_cached = CachedEvaluator(NetEvaluator(small, small_model, None), small, CACHE)
    solver = Solver(solver_file(folder, model), game, batch_size=128, output_dir=folder, seed=0)
    crew = Crew(crew_works, (game.name, model, weights, args.games, args.simulations), 2)
    works = {
        SELF_PLAY: ("one process", "two processes"),
        FORWARDS: ("one process, bare", "two processes, bare"),
    }

    def scaling() -> dict[str, float]:
        return crew.rates(works, STRETCH)

    def bares(of_caffe: str, of_ours: str) -> dict[str, Forwards]:
        return {
            of_caffe: lambda count: stock.bare_forwards(count, 1, like=evaluate),
            of_ours: lambda count: evaluate.bare_forwards(count, 1),
        }

    measures: list[Measure] = [
        beside_bare(
            "self-play, cache off", evaluate, bares("Caffe's own forwards", "bare forwards"),
            lambda paired: bench.endless(game, paired, args.games, args.simulations, OPENING),
            args.games * args.simulations * OPENING,
        ),
        timed("self-play, cache on", lambda: bench.lockstep(game, cached, args.games, args.simulations, 1)),
        beside_bare(
            "one game", evaluate, bares("Caffe's own forwards of one", "bare forwards of one"),
            lambda paired: bench.endless(game, paired, 1, args.simulations, OPENING),
            2 * OPENING * args.simulations,
        ),
        timed("3x3, cache on", lambda: bench.lockstep(small, small_cached, 512, args.simulations, 9)),
        timed("training steps of 128", lambda: train(solver, game, 20)),
        *[scaling] * CREW_TURNS,
    ]  # fmt: skip
    if args.against:
        measures.append(lambda: {"against": against(args.against)})
    with progress_from_args(args, "bench", args.repeats * len(measures)) as progress:
        rates = bench.interleaved(measures, args.repeats, progress.update)
    memory = watch_memory(crew, args.memory_minutes)
    crew.close()
    verdicts = [bench.judge(bar, rates) for bar in BARS]
    memory_bar = Bar("memory of a self-play process, GB", "memory", None, MEMORY_LIMIT / 1e9)
    verdicts.append(Verdict(memory_bar, memory[-1] / 1e9, memory[-1] <= MEMORY_LIMIT))
    print(f"6x6 net with {'initial weights' if weights is None else f'the weights of {weights.name}'}")
    print_rates(rates)
    print_verdicts(verdicts)
    if len(memory) > 1:
        print("peak memory, MB, over time:", " ".join(f"{size / 1e6:.0f}" for size in memory))
    if args.against:
        ours = bench.figure(rates["self-play, cache on"]).median
        print(f"ours / against: {ours / bench.figure(rates['against']).median:.2f}")
    return {
        "rates": {name: asdict(bench.figure(values)) for name, values in rates.items()},
        "bars": [{**asdict(v.bar), "value": v.value, "passed": v.passed} for v in verdicts],
        "memory_bytes": memory,
        "passed": all(v.passed for v in verdicts),
    }


def growth(args: argparse.Namespace, folder: Path) -> dict:
    """Playouts/s and microseconds a playout as one thing grows; print and return the tables."""
    six = TicTacToe(6, 6, 4)
    nets = {blocks: NetEvaluator(six, net_file(folder, six, blocks), None) for blocks in (1, 2, 5, 10)}

    def work(label: object, evaluate: NetEvaluator, game: Game, games: int, simulations: int) -> Measure:
        return timed(str(label), lambda: bench.lockstep(game, evaluate, games, simulations, 1))

    tables: dict[str, list[Measure]] = {
        "games in lockstep": [work(n, nets[2], six, n, max(25, min(400, 12800 // n))) for n in GAMES],
        "playouts a move": [work(n, nets[2], six, 32, n) for n in PLAYOUTS],
        "board": [work(label, evaluate, game, 64, 50) for label, game, evaluate in boards(folder)],
        "blocks": [work(n, evaluate, six, 64, 50) for n, evaluate in nets.items()],
    }
    report: dict[str, dict[str, float]] = {}
    for title, measures in tables.items():
        with progress_from_args(args, title, args.repeats * len(measures)) as progress:
            rates = bench.interleaved(measures, args.repeats, progress.update)
        report[title] = {label: bench.figure(values).median for label, values in rates.items()}
    for title, medians in report.items():
        print(f"\n{title:>18}   playouts/s   us a playout")
        for label, rate in medians.items():
            print(f"{label:>18}   {rate:10,.0f}   {1e6 / rate:12.1f}")
    return {"growth": report}


def boards(folder: Path) -> list[tuple[str, Game, NetEvaluator]]:
    """Two-block nets on boards from 3x3 to 15x15, and Connect 7x6."""
    games: list[tuple[str, Game]] = [(f"{n}x{n}", TicTacToe(n, n, min(n, 5))) for n in (3, 4, 6, 8, 10, 12, 15)]
    games.append(("connect 7x6", ConnectN(6, 7, 4)))
    return [(label, game, NetEvaluator(game, net_file(folder, game, 2), None)) for label, game in games]


def net_file(folder: Path, game: Game, blocks: int) -> Path:
    """A published-style net with initial weights for `game`, written once."""
    path = folder / f"{game.name}_{blocks}.prototxt"
    if not path.exists():
        write_net(NetSpec(*game.shape, game.num_actions, blocks=blocks), path)
    return path


def self_play_net(folder: Path, game: Game) -> tuple[Path, Path | None]:
    """The shipped two-block net with its weights, with which searches look as in training; else one without weights."""
    models, name = models_folder(), "net_tic_tac_6_4_2_res_block"
    model = models / f"{name}.prototxt"
    for place in (models, models / "original"):
        weights = place / f"{name}.caffemodel"
        if weights.is_file() and model.is_file():
            return model, weights
    return net_file(folder, game, 2), None


def solver_file(folder: Path, model: Path) -> Path:
    """A solver with the published settings for `model`."""
    path = folder / "solver.prototxt"
    return write_solver(SolverSpec(snapshot_prefix=model.stem), path, model)


def crew_works(
    game_name: str, model: Path, weights: Path | None, games: int, simulations: int
) -> Mapping[str, Iterator[int]]:
    """What a spawned process can do with a net of its own.

    Real self-play is mostly forwards, so without cache: from the start position a cache answers nearly everything.
    """
    from azcaffe.games.registry import parse_game

    game = parse_game(game_name)
    evaluate = NetEvaluator(game, model, weights)
    playing = bench.endless(game, evaluate, games, simulations, OPENING)
    next(playing)  # forwards alone work on the input that self-play left behind: let there be some
    return {
        SELF_PLAY: playing,
        FORWARDS: iter(lambda: evaluate.bare_forwards(games, 8), None),
        CACHED_SELF_PLAY: bench.endless(
            game, CachedEvaluator(evaluate, game, CACHE), games, simulations, game.max_plies
        ),
    }


def train(solver: Solver, game: Game, steps: int) -> int:
    """`steps` updates on a batch of random positions."""
    rng = np.random.default_rng(0)
    planes = rng.integers(0, 2, (128, Encoding().channels, *game.shape)).astype(np.float32)
    policy = rng.dirichlet(np.ones(game.num_actions), 128).astype(np.float32)
    value = rng.choice(np.array([-1, 0, 1], np.float32), 128)
    for _ in range(steps):
        solver.step(planes, policy, value)
    return steps


def watch_memory(crew: Crew, minutes: int) -> list[int]:
    """Peak memory of a self-play process, after the bench and then once a minute of work."""
    return [crew.memory(CACHED_SELF_PLAY, seconds) for seconds in [4 * STRETCH, *[60] * minutes]]


def against(command: str) -> float:
    """The last number that `command` prints.

    Raises:
        UsageError: it fails or prints none.
    """
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    try:
        return float(done.stdout.split()[-1])
    except (IndexError, ValueError):
        raise UsageError(f"--against {command!r} must print a number last; exit code {done.returncode}") from None


def print_rates(rates: dict[str, list[float]]) -> None:
    """The measured rates on stdout."""
    print(f"{'measure':<44} {'median/s':>11} {'low':>11} {'high':>11}")
    for name, values in rates.items():
        figure = bench.figure(values)
        print(f"{name:<44} {figure.median:>11,.1f} {figure.low:>11,.1f} {figure.high:>11,.1f}")
    sys.stdout.flush()


def print_verdicts(verdicts: list[Verdict]) -> None:
    """The bars on stdout."""
    print(f"\n{'bar':<52} {'needed':>10} {'measured':>10}")
    for v in verdicts:
        if v.bar.least is None:
            needed, word = "-", ""
        else:
            needed = f"{'<=' if v.bar.measure == 'memory' else '>='} {v.bar.least:,g}"
            word = "pass" if v.passed else "FAIL"
        print(f"{v.bar.name:<52} {needed:>10} {v.value:>10,.3g}  {word}".rstrip())
