# SPDX-License-Identifier: AGPL-3.0-or-later
"""How training would scale on a cluster: measure the costs here, simulate 1 to 1,000 actors with them.

The simulation replays the schedule of `azcaffe train --cluster` with the measured times and sizes, and says
where the trainer, its network link or the actors are the limit.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from azcaffe.cli.common import add_game, check_writable, game_from_args, progress_from_args, write_json
from azcaffe.cli.parser import CommandParser, UsageError, number, ranged
from azcaffe.cli.text import table
from azcaffe.cluster.model import Costs, Outcome, Plan, fitting_plan, limits, simulate
from azcaffe.cluster.shipping import pack_results, unpack_results
from azcaffe.encoding import Encoding
from azcaffe.games.base import Game
from azcaffe.network import NetEvaluator, NetSpec, Solver, SolverSpec, write_net, write_solver
from azcaffe.replay import ReplayBuffer
from azcaffe.search import CachedEvaluator, SearchConfig
from azcaffe.selfplay import PlayedGame, SelfPlayConfig, play_games
from azcaffe.training import sample_planes

EXAMPLE = "azcaffe scale --board-size 6 --aligned-to-win 4 --simulations 400 --gbit 1"

ACTORS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
CACHE = 200_000


@dataclass(frozen=True)
class Measured:
    """What was measured, in seconds and bytes; `playouts` and `plies` are a game's.

    Seconds are of the CPU, with BLAS on one thread those of an idle machine: other work at the time does not count.
    """

    game: float
    result: float
    weights: float
    step: float
    take: float
    playouts: float
    plies: float


def add_arguments(parser: CommandParser) -> None:
    group = parser.add_argument_group("costs")
    group.add_argument(
        "--simulations", type=ranged(1, 1_000_000), default=400, metavar="N", help="playouts a move [400]"
    )
    group.add_argument("--measure-games", type=ranged(1, 4096), default=8, metavar="N", help="games to play here [8]")
    group.add_argument(
        "--steps", type=ranged(1, 10_000), default=20, metavar="N", help="solver steps to time here [20]"
    )
    group.add_argument("--costs", metavar="FILE", help="a JSON file that --json wrote; measure nothing")
    group.add_argument(
        "--gbit", type=ranged(1e-6, 1e4, number), default=1.0, metavar="X", help="trainer's link, Gbit/s [1]"
    )
    group.add_argument(
        "--latency-ms", type=ranged(0, 1e4, number), default=0.5, metavar="X", help="of the network [0.5]"
    )
    group.add_argument(
        "--call-ms", type=ranged(0, 1e4, number), default=2.0, metavar="X", help="trainer's own time for a job [2]"
    )
    group.add_argument(
        "--spread", type=ranged(0, 1, number), default=0.1, metavar="X", help="of job times, relative [0.1]"
    )
    plan = parser.add_argument_group("plan")
    plan.add_argument("--actors", metavar="LIST", help="numbers of actors, 1,2,8,… [1 to 1000]")
    plan.add_argument("--actors-per-node", type=ranged(1, 4096), default=16, metavar="N", help="on each machine [16]")
    plan.add_argument("--lockstep", type=ranged(1, 4096), default=32, metavar="N", help="games side by side [32]")
    plan.add_argument("--max-staleness", "--lag", type=ranged(0, 1000), default=2, metavar="N", help="rounds ahead [2]")
    plan.add_argument(
        "--steps-per-game", type=ranged(1e-3, 1e4, number), default=10.0, metavar="X", help="solver steps a game [10]"
    )
    plan.add_argument("--json", metavar="FILE", help="write costs and outcomes there")
    add_game(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, simulate, print."""
    actors = _numbers(args.actors)
    check_writable(args.json)
    game = game_from_args(args)
    measured = _read(args.costs) if args.costs else _measure(game, args)
    costs = Costs(
        measured.game, measured.weights, measured.result, measured.step, measured.take, args.call_ms / 1e3, args.spread,
        args.gbit * 1e9 / 8, args.latency_ms / 1e3,
    )  # fmt: skip
    basis = Plan(1, 1, args.lockstep, args.max_staleness, args.steps_per_game, args.actors_per_node)
    plans = [fitting_plan(count, basis) for count in actors]
    outcomes = [simulate(plan, costs) for plan in plans]
    print(_costs_text(measured, costs))
    print(_table(plans, outcomes, measured))
    print(_verdict(plans[-1], costs))
    if args.json:
        rows = [asdict(plan) | asdict(outcome) for plan, outcome in zip(plans, outcomes, strict=True)]
        content = {"game": game.name, "measured": asdict(measured), "costs": asdict(costs), "outcomes": rows}
        write_json(args.json, content)
    return 0


def _numbers(text: str | None) -> list[int]:
    if text is None:
        return list(ACTORS)
    try:
        numbers = sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise UsageError(f"--actors must be numbers with commas between them, not {text[:40]!r}") from None
    if not 1 <= numbers[0] <= numbers[-1] <= 10_000:
        raise UsageError("--actors must be 1 … 10,000")
    return numbers


def _read(file: str) -> Measured:
    try:
        return Measured(**json.loads(Path(file).read_text())["measured"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UsageError(f"--costs {file} cannot be used: {type(problem).__name__} {problem}") from None


def _measure(game: Game, args: argparse.Namespace) -> Measured:
    """Play some games, make some steps, with the published net for the game and fresh weights."""
    with TemporaryDirectory(prefix="azcaffe-scale-") as name, progress_from_args(args, "measured", 2) as progress:
        folder = Path(name)
        own = Encoding.of_game(game)
        model, solver_file = folder / "net.prototxt", folder / "solver.prototxt"
        write_net(NetSpec.for_game(game, own.channels if own else 3, name="net"), model)
        write_solver(SolverSpec(), solver_file, model)
        encoding = own or Encoding()
        search = SearchConfig(args.simulations, noise_epsilon=0.25)
        net = CachedEvaluator(NetEvaluator(game, model, None, encoding), game, CACHE)
        playouts: list[int] = []
        began = time.process_time()
        games = list(play_games(game, net, search, SelfPlayConfig(), 0, range(args.measure_games), 0, playouts.append))
        seconds = time.process_time() - began
        progress.update(1, "games")
        packed = pack_results(games)
        take = _timed(lambda: _take_in(packed, game)) / len(games)
        solver = Solver(solver_file, game, encoding=encoding, model=model, batch_size=128, output_dir=folder, seed=0)
        step = _step_time(solver, game, games, encoding, args.steps)
        progress.update(2, "steps")
        weights = sum(blob.nbytes for blobs in solver.weights().values() for blob in blobs)
        plies = float(np.mean([len(each.actions) for each in games]))
        count = len(games)
        return Measured(seconds / count, len(packed) / count, weights, step, take, sum(playouts) / count, plies)


def _timed(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _take_in(packed: bytes, game: Game) -> None:
    replay = ReplayBuffer(game, 10_000, None)
    for played in unpack_results(packed):
        replay.append(played.samples)


def _step_time(solver: Solver, game: Game, games: list[PlayedGame], encoding: Encoding, steps: int) -> float:
    """Seconds of a step as training makes it: draw, encode, solve."""
    replay = ReplayBuffer(game, 10_000, None)
    for played in games:
        replay.append(played.samples)
    rng = np.random.default_rng(0)

    def make_steps() -> None:
        for _ in range(steps):
            batch = replay.sample(rng, 128)
            solver.step(sample_planes(game, batch, encoding), batch.policy(), batch.value)

    make_steps()
    return _timed(make_steps) / steps


def _costs_text(measured: Measured, costs: Costs) -> str:
    return (
        f"a game {measured.game:.3g} s of an actor ({measured.playouts:,.0f} playouts, {measured.plies:.1f} plies), "
        f"{measured.result:,.0f} bytes; weights {measured.weights / 1e6:.2f} MB;\n"
        f"a step {1e3 * measured.step:.3g} ms, taking a game in {1e3 * measured.take:.2g} ms; "
        f"assumed: link {costs.bandwidth * 8 / 1e9:g} Gbit/s, {1e3 * costs.latency:g} ms, "
        f"{1e3 * costs.call:g} ms a job\n"
    )


def _table(plans: list[Plan], outcomes: list[Outcome], measured: Measured) -> str:
    heads = ("actors", "a round", "games/s", "playouts/s", "speed-up", "actors", "trainer", "link", "the limit")
    rows: list[tuple[str, ...]] = [heads]
    for plan, outcome in zip(plans, outcomes, strict=True):
        busy = (outcome.actors_busy, outcome.trainer_busy, max(outcome.uplink_busy, outcome.downlink_busy))
        rows.append((
            f"{plan.actors:,}", f"{plan.games_per_round:,}", f"{outcome.games:.3g}",
            f"{outcome.games * measured.playouts:,.0f}", f"{outcome.games * measured.game:.3g}",
            *(f"{100 * share:.0f} %" for share in busy), outcome.bound,
        ))  # fmt: skip
    return table(rows, right=range(8))


def _verdict(plan: Plan, costs: Costs) -> str:
    most = limits(plan, costs)
    names = {"trainer": "the trainer", "downlink": "the network (results)", "uplink": "the network (weights)"}
    lines = [
        f"{what} saturates at {most[name]:,.3g} games/s: what {most[name] * costs.game:,.3g} actors play"
        for name, what in names.items()
    ]
    return "\n" + "\n".join(lines)
