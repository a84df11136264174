# SPDX-License-Identifier: AGPL-3.0-or-later
"""Prove that a net never loses on a small board: walk every reply of every opponent, as first and as second player.

Also says how often the raw net's favourite move is optimal, over all positions that can be reached.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from azcaffe.cli.common import (
    add_searching_net,
    check_writable,
    game_from_args,
    net_from_args,
    open_cached,
    search_from_args,
    seed_from_args,
    write_json,
)
from azcaffe.cli.main import EXIT_NO, EXIT_OK
from azcaffe.cli.parser import CommandParser, ranged
from azcaffe.cli.text import moves_text, table
from azcaffe.errors import AzcaffeError, GameError
from azcaffe.games.base import Game, State
from azcaffe.progress import Progress
from azcaffe.search import Evaluate, Search, SearchConfig, masked_priors
from azcaffe.solve import MAX_POSITIONS, Layer, solve

EXAMPLE = "azcaffe verify --game tictactoe --board-size 3"

BATCH = 512
MAX_LINES = 200_000
SIMULATIONS = 25


def add_arguments(parser: CommandParser) -> None:
    """The walk."""
    group = parser.add_argument_group("walk")
    group.add_argument("--max-positions", type=ranged(1, 10**8), default=MAX_POSITIONS, metavar="N",
                       help=f"refuse games with more positions [{MAX_POSITIONS}]")  # fmt: skip
    group.add_argument("--max-lines", type=ranged(1, 10**8), default=MAX_LINES, metavar="N",
                       help=f"refuse when more lines of play lead from one ply to the next [{MAX_LINES}]")  # fmt: skip
    group.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    add_searching_net(parser, group, simulations=SIMULATIONS)


def run(args: argparse.Namespace) -> int:
    """Solve the game, judge the raw net, walk all replies; exit 1 if any of them beats the net."""
    if args.game is None and args.board_size is args.board_width is args.board_height is None:
        args.board_size = 3
    game = game_from_args(args)
    config, seed = search_from_args(args), seed_from_args(args)
    check_writable(args.json)
    files, game, options = net_from_args(args, game)
    try:
        layers = solve(game, args.max_positions)
    except GameError as error:
        raise AzcaffeError(f"{error}: verify walks at most {args.max_positions:,} (--max-positions)") from None
    net = open_cached(files, game, options)
    raw = raw_policy(game, net, layers)
    walks = []
    for side in (1, -1):
        with Progress("as " + ("first" if side == 1 else "second"), game.max_plies, quiet=args.quiet) as progress:
            walks.append(walk(game, net, config, side, seed, args.max_lines, progress))
    report(game, files.name, config, layers, raw, walks)
    if args.json is not None:
        content = as_json(game, files.name, config, layers, raw, walks)
        write_json(args.json, content)
    return EXIT_NO if any(each.losses for each in walks) else EXIT_OK


@dataclass(frozen=True)
class Walk:
    """All games that can arise when the net plays `side` and the opponent anything legal.

    Attributes:
        wins, draws, losses: the net's, over all lines of play.
        decisions: moves that the net had to find.
        lost: the moves of one lost game, if there is one.
    """

    side: int
    wins: int
    draws: int
    losses: int
    decisions: int
    lost: tuple[int, ...] | None


@dataclass(frozen=True)
class RawPolicy:
    """How often the net's favourite legal move is optimal: over `positions` whose game goes on, `choices` of which
    have a move that is not optimal."""

    positions: int
    optimal: int
    choices: int
    optimal_choices: int


def raw_policy(game: Game, net: Evaluate, layers: list[Layer]) -> RawPolicy:
    """Ask the net once for every position that goes on."""
    counts = np.zeros(4, np.int64)
    for layer in layers:
        on = (~layer.states.over).nonzero()[0]
        for start in range(0, len(on), BATCH):
            rows = on[start : start + BATCH]
            states = layer.states.take(rows)
            legal = game.legal(states)
            favourite = masked_priors(net(states, np.arange(len(rows)))[0], legal).argmax(axis=1)
            good = layer.optimal[rows, favourite]
            choice = (legal & ~layer.optimal[rows]).any(axis=1)
            counts += len(rows), good.sum(), choice.sum(), (good & choice).sum()
    return RawPolicy(*counts.tolist())


def walk(game: Game, net: Evaluate, config: SearchConfig, side: int, seed: int, limit: int, progress: Progress) -> Walk:
    """Follow every line ply by ply; trees are kept from move to move, as in play.

    Raises:
        AzcaffeError: more than `limit` lines.
    """
    lines: NDArray[np.intp] = np.zeros((1, 0), np.intp)  # (n, ply): moves so far of the games that go on
    tally, decisions = {1: 0, 0: 0, -1: 0}, 0
    lost: tuple[int, ...] | None = None
    while len(lines):
        progress.update(lines.shape[1], f"{len(lines)} lines")
        states = _replay(game, lines)
        mine = states.to_move == side
        rows, actions = (game.legal(states) & ~mine[:, None]).nonzero()
        chosen = _choose(game, net, config, side, seed, lines[mine]) if mine.any() else np.zeros(0, np.intp)
        decisions += len(chosen)
        rows = np.concatenate([mine.nonzero()[0], rows])
        actions = np.concatenate([chosen, actions])
        if len(rows) > limit:
            raise AzcaffeError(f"{game.name}: more than {limit:,} lines of play (--max-lines): too large to walk")
        lines = np.concatenate([lines[rows], actions[:, None]], axis=1)
        after = game.step(states.take(rows), actions)
        for winner in tally:
            tally[winner] += int((after.winner[after.over] == winner).sum())
        defeats = (after.over & (after.winner == -side)).nonzero()[0]
        if lost is None and len(defeats):
            lost = tuple(lines[defeats[0]].tolist())
        lines = lines[~after.over]
    progress.update(game.max_plies)
    return Walk(side, tally[side], tally[0], tally[-side], decisions, lost)


def _replay(game: Game, lines: NDArray[np.intp]) -> State:
    states = game.initial(len(lines))
    for ply in range(lines.shape[1]):
        states = game.step(states, lines[:, ply])
    return states


def _choose(
    game: Game, net: Evaluate, config: SearchConfig, side: int, seed: int, lines: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The net's moves (n,) after `lines` (n, ply), searching again each of its moves on the way there."""
    chosen = []
    for start in range(0, len(lines), BATCH):
        part = lines[start : start + BATCH]
        slots = np.arange(len(part))
        search = Search(game, net, config, len(part))
        search.reset(slots, game.initial(len(part)), [np.random.default_rng(seed) for _ in slots])
        for ply in range(part.shape[1]):
            turn = search.states(slots).to_move == side
            if turn.any():
                search.run(slots[turn], noise=False)
            search.advance(slots, part[:, ply])
        chosen.append(search.run(slots, noise=False).selected)
    return np.concatenate(chosen)


def report(game: Game, name: str, config: SearchConfig, layers: list[Layer], raw: RawPolicy, walks: list[Walk]) -> None:
    """Print the figures."""
    verdict = {1: "a win for x", 0: "a draw", -1: "a win for o"}[int(layers[0].value[0])]
    print(f"{name}\n{game.name}: {sum(len(layer.states) for layer in layers):,} positions, {verdict} under best play\n")
    print(f"raw policy optimal in positions that go on: {_share(raw.optimal, raw.positions)}")
    print(f"  in those that have a wrong move: {_share(raw.optimal_choices, raw.choices)}")
    print(f"\nagainst every reply, {config.simulations} playouts a move:")
    rows: list[tuple[str, ...]] = [("", "lines", "wins", "draws", "losses", "moves found")]
    for each in walks:
        total = each.wins + each.draws + each.losses
        side = "as first player" if each.side == 1 else "as second player"
        rows.append((side, *(f"{n:,}" for n in (total, each.wins, each.draws, each.losses, each.decisions))))
    print(table(rows, right=(1, 2, 3, 4, 5)))
    for each in walks:
        if each.lost is not None:
            print(f"lost {'as first' if each.side == 1 else 'as second'}: {moves_text(game, each.lost)}")


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}: {100 * part / max(whole, 1):.2f} %"


def as_json(
    game: Game, name: str, config: SearchConfig, layers: list[Layer], raw: RawPolicy, walks: list[Walk]
) -> dict[str, Any]:
    """The figures in JSON's types."""
    return {
        "game": game.name,
        "net": name,
        "simulations": config.simulations,
        "positions": sum(len(layer.states) for layer in layers),
        "raw_policy": {**raw.__dict__, "share": raw.optimal / max(raw.positions, 1)},
        "walks": [each.__dict__ for each in walks],
        "losses": sum(each.losses for each in walks),
    }
