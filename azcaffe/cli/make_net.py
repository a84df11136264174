# SPDX-License-Identifier: AGPL-3.0-or-later
"""Write a net and its solver for any board, with the layer names of the published nets."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from azcaffe.atomic import write_atomically
from azcaffe.cli.common import add_game, game_from_args
from azcaffe.cli.parser import CommandParser, UsageError, number, whole_number
from azcaffe.encoding import Encoding
from azcaffe.errors import AzcaffeError
from azcaffe.games.base import Game
from azcaffe.network import NetSpec, SolverSpec, write_net, write_solver
from azcaffe.network.shipped import shipped_files
from azcaffe.network.spec import FILLERS

EXAMPLE = "azcaffe make-net --game tictactoe --board-size 6 --connect 4 --output a.prototxt"


def add_arguments(parser: CommandParser) -> None:
    """The game, the net's size, where it goes."""
    add_game(parser)
    net = parser.add_argument_group("net")
    net.add_argument("--blocks", type=whole_number, default=2, metavar="N", help="residual blocks [2]")
    net.add_argument("--channels", type=whole_number, default=64, metavar="N", help="outputs of each convolution [64]")
    net.add_argument("--batch-norm", action="store_true", help="BatchNorm and Scale after each convolution")
    net.add_argument(
        "--history", type=whole_number, metavar="H", help="see H positions, relative to the mover: 2H+1 planes"
    )
    net.add_argument(
        "--relu-slope", type=number, metavar="S", help="negative slope of the ReLUs [0.02; 0 with --batch-norm]"
    )
    net.add_argument(
        "--filler", choices=FILLERS, default="gaussian", help="first weights; gaussian: as published [gaussian]"
    )
    net.add_argument("--base-lr", type=number, default=0.02, metavar="R", help="learning rate in the solver [0.02]")
    out = parser.add_argument_group("output")
    out.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="the net; the solver goes beside it [by the game]"
    )
    out.add_argument("--force", action="store_true", help="overwrite files that exist")
    out.add_argument("--shipped", type=Path, metavar="FOLDER", help="write the nets and solvers of models/ to FOLDER")


def run(args: argparse.Namespace) -> int:
    """Write the files and print their names."""
    if args.shipped is not None:
        for name, text in shipped_files().items():
            print(write_atomically(args.shipped / name, [text.encode()]))
        return 0
    game = game_from_args(args)
    spec = NetSpec.for_game(
        game,
        _channels_in(game, args.history),
        blocks=args.blocks,
        channels=args.channels,
        batch_norm=args.batch_norm,
        relu_slope=args.relu_slope,
        filler=args.filler,
        name=_name(game),
    )
    ending = "_batch_norm" if args.batch_norm else ""
    net = args.output or Path(f"net_{_name(game)}_{args.blocks}_blocks{ending}.prototxt")
    if net.suffix != ".prototxt":
        raise UsageError(f"--output {net} should end in .prototxt")
    solver = net.with_name(f"solver_{net.name.removeprefix('net_')}")
    for path in (net, solver):
        if path.exists() and not args.force:
            raise AzcaffeError(f"{path} exists: --force overwrites it")
    print(write_net(spec, net))
    print(write_solver(SolverSpec(base_lr=args.base_lr, snapshot_prefix=net.stem), solver, net))
    return 0


def _channels_in(game: Game, history: int | None) -> int:
    own = Encoding.of_game(game)
    if own is not None:
        if history is not None:
            raise UsageError(f"{game.name} brings its own {own.channels} planes: leave out --history")
        return own.channels
    if history == 1:
        print("azcaffe: a net of 3 planes is read as absolute: give --encoding relative to use it", file=sys.stderr)
    return Encoding().channels if history is None else Encoding("relative", history).channels


def _name(game: Game) -> str:
    """`tictactoe(height=6,width=6,connect=4)` -> `tictactoe_6_6_4`."""
    return re.sub(r"\W+", "_", re.sub(r"\w+=", "", game.name)).strip("_")
