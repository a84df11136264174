# SPDX-License-Identifier: AGPL-3.0-or-later
"""Print which action number is which square or column: the order of a net's policy outputs."""

from __future__ import annotations

import argparse
import json

from azcaffe.cli.common import add_game, game_from_args
from azcaffe.cli.parser import CommandParser

EXAMPLE = "azcaffe actions --game connectn --board-width 9"


def add_arguments(parser: CommandParser) -> None:
    """The game."""
    parser.add_argument("--json", action="store_true", help="one JSON object: action number to move name")
    add_game(parser)


def run(args: argparse.Namespace) -> int:
    """Print the mapping."""
    game = game_from_args(args)
    if args.json:
        print(json.dumps({str(action): game.move_name(action) for action in range(game.num_actions)}))
        return 0
    print(f"{game.name}: {game.num_actions} actions (num_output of the net's policy layer)")
    print(game.action_map())
    return 0
