# SPDX-License-Identifier: AGPL-3.0-or-later
"""Play against a net (or against roll-outs) in the terminal; `?` at the prompt lists the commands."""

from __future__ import annotations

import argparse

from azcaffe.cli.common import (
    add_searching_net,
    game_from_args,
    net_from_args,
    open_cached,
    search_from_args,
    seed_from_args,
)
from azcaffe.cli.console import LEVELS, Leave, Session
from azcaffe.cli.parser import CommandParser, UsageError
from azcaffe.search import Evaluate, RolloutEvaluator

EXAMPLE = "azcaffe play --game tictactoe --board-size 3 --side o --level easy"


def add_arguments(parser: CommandParser) -> None:
    """Sides and strength."""
    group = parser.add_argument_group("game against you")
    group.add_argument("--side", choices=("x", "o"), default="x", help="yours; x moves first [x]")
    levels = ", ".join(f"{name} {count}" for name, count in LEVELS.items())
    group.add_argument("--level", metavar="NAME", help=f"playouts by name: {levels}")
    group.add_argument("--no-net", action="store_true", help="play against roll-out MCTS, which needs no net")
    add_searching_net(parser, group)


def run(args: argparse.Namespace) -> int:
    """Games until the person leaves."""
    game = game_from_args(args)
    if args.level is not None:
        if args.level not in LEVELS:
            raise UsageError(f"--level must be one of {', '.join(LEVELS)}, not {args.level!r}")
        args.simulations = LEVELS[args.level]
    config = search_from_args(args)
    seed = seed_from_args(args)
    evaluate: Evaluate
    if args.no_net:
        name, evaluate = "MCTS", RolloutEvaluator(game)
    else:
        files, game, options = net_from_args(args, game)
        name, evaluate = files.name, open_cached(files, game, options)
    session = Session(game, evaluate, config, name=name, seed=seed, human=1 if args.side == "x" else -1)
    try:
        session.play()
        while session.after_game():
            session.play()
    except Leave:
        pass
    return 0
