# SPDX-License-Identifier: AGPL-3.0-or-later
"""Look at one position: the board, the net's value and priors, a search's visits, the line it expects."""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np

from azcaffe.cli.common import (
    add_searching_net,
    game_from_args,
    net_from_args,
    open_net,
    search_from_args,
    seed_from_args,
)
from azcaffe.cli.parser import CommandParser, UsageError
from azcaffe.cli.text import move_word, moves_text, parse_moves, side_by_side, table, value_text
from azcaffe.games.base import Game, State, state_after
from azcaffe.search import Search, SearchResult, principal_variation

EXAMPLE = "azcaffe show --moves d3,c3,e4 --simulations 400"


def add_arguments(parser: CommandParser) -> None:
    """The position and how to look at it."""
    group = parser.add_argument_group("position")
    group.add_argument("--moves", default="", metavar="LIST", help="moves from the start, names or numbers")
    group.add_argument("--json", action="store_true", help="one JSON object on stdout, the text on stderr")
    group.add_argument("--top", type=int, default=10, metavar="N", help="moves in the table [10]")
    group.add_argument("--boards", action="store_true", help="the board after every move, and no net")
    add_searching_net(parser, group)


def run(args: argparse.Namespace) -> int:
    """Print the position, then what the search found."""
    game = game_from_args(args)
    config = search_from_args(args)
    seed = seed_from_args(args)
    if args.top < 1:
        raise UsageError(f"--top must be at least 1, not {args.top}")
    moves = parse_moves(game, args.moves)
    state = state_after(game, moves)
    text = sys.stderr if args.json else sys.stdout
    if args.boards:
        print(side_by_side(game, moves) if moves else game.render(state), file=text)
        print(f"{game.name} {moves_text(game, moves)}", file=text)
        return 0
    if state.over[0]:
        result = {1: "x has won", 0: "a draw", -1: "o has won"}[int(state.winner[0])]
        raise UsageError(f"the game is over after these moves ({result}): there is nothing to search")
    files, game, options = net_from_args(args, game)
    state = state_after(game, moves)
    search = Search(game, open_net(files, game, options), config, 1)
    search.reset([0], state, [np.random.default_rng(seed)])
    found = search.run([0], noise=False)
    line = principal_variation(search, 0)
    print(describe(game, state, moves, found, line, args.top, files.name), file=text)
    if args.json:
        print(json.dumps(as_json(game, state, found)))
    return 0


def as_json(game: Game, state: State, found: SearchResult) -> dict[str, object]:
    """`to_move`, `value` (the net's own, for the mover), `priors` and `visits` of every legal move, `best`."""
    legal = game.legal(state)[0].nonzero()[0]
    return {
        "to_move": int(state.to_move[0]),
        "value": float(found.net_value[0]),
        "priors": {str(a): float(found.priors[0, a]) for a in legal},
        "visits": {str(a): int(found.visits[0, a]) for a in legal},
        "best": int(found.selected[0]),
    }


def describe(
    game: Game, state: State, moves: list[int], found: SearchResult, line: list[int], top: int, name: str
) -> str:
    """The same for people."""
    side = "x" if state.to_move[0] == 1 else "o"
    visits, total = found.visits[0], int(found.visits[0].sum())
    best = np.lexsort((-found.priors[0], -visits))[:top]
    rows = [("move", "action", "prior", "visits", "share", f"value for {side}")]
    for action in best[game.legal(state)[0, best]]:
        share, q = visits[action] / total, float(found.q[0, action])
        rows.append((
            game.move_name(int(action)), str(action), f"{found.priors[0, action]:.4f}", str(visits[action]),
            f"{100 * share:.1f} %", value_text(q) if visits[action] else "-",
        ))  # fmt: skip
    return "\n".join([
        f"{game.name}, after {len(moves)} moves: {moves_text(game, moves)}",
        "",
        game.render(state, 0, moves[-1] if moves else None),
        "",
        f"{side} to move. {name}: value {value_text(float(found.net_value[0]))} for {side}; "
        f"after {total} playouts {value_text(float(found.value[0]))}",
        "",
        table(rows, right=(1, 2, 3, 4, 5)),
        "",
        f"best {move_word(game, int(found.selected[0]))}, expected line: {moves_text(game, line)}",
    ])  # fmt: skip
