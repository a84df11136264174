# SPDX-License-Identifier: AGPL-3.0-or-later
"""How perfect a net plays Connect 7x6: its moves on random positions, and its games, against a solver.

A move is right if it keeps the result that best play gives (win, draw or loss), and best if it also wins
soonest or loses latest. The solver is PyPI's bitbully: pip install 'azcaffe[solver]'.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from azcaffe.cli.common import (
    add_searching_net,
    check_writable,
    game_from_args,
    net_from_args,
    open_cached,
    progress_from_args,
    search_from_args,
    seed_from_args,
    write_json,
)
from azcaffe.cli.main import EXIT_OK
from azcaffe.cli.parser import CommandParser, UsageError, ranged
from azcaffe.cli.text import percent, table
from azcaffe.games.base import Game, State
from azcaffe.oracle import ILLEGAL, Oracle, random_positions
from azcaffe.players import RawPolicyPlayer, SearchPlayer
from azcaffe.search import Evaluate, SearchConfig

EXAMPLE = "azcaffe optimal --weights models/net_connect_6_7_4_2_res_block.caffemodel"

BANDS = (range(0, 8), range(8, 16), range(16, 24), range(24, 32), range(32, 40))
BATCH = 64
SEARCHES = "0,100,400"
POSITION_STREAM, SEARCH_STREAM, GAME_STREAM = 301, 302, 303


def add_arguments(parser: CommandParser) -> None:
    """Positions, strengths, games."""
    group = parser.add_argument_group("comparison")
    group.add_argument("--positions", type=ranged(0, 10**6), default=1000, metavar="N", help="random positions [1000]")
    group.add_argument("--strengths", default=SEARCHES, metavar="LIST", help=f"playouts; 0: raw policy [{SEARCHES}]")
    group.add_argument("--games", type=ranged(0, 10**4), default=50, metavar="N",
                       help="games as first player against the solver at --simulations [50]")  # fmt: skip
    group.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    add_searching_net(parser, group)


@dataclass(frozen=True)
class Band:
    """What a net did on the positions of one ply band.

    Attributes:
        plies: the band, e.g. `8-15`.
        simulations: playouts a move, 0 for the raw policy.
        positions: how many; `choices` of them have a move that changes the result.
        right, right_choices: of these, where the net's move keeps the result.
        best: where it is also among the soonest wins or latest losses.
    """

    plies: str
    simulations: int
    positions: int
    choices: int
    right: int
    right_choices: int
    best: int


@dataclass(frozen=True)
class Games:
    """Results of the net as first player from the empty board against the solver."""

    simulations: int
    wins: int
    draws: int
    losses: int
    different: int


def run(args: argparse.Namespace) -> int:
    """Compare moves, then play."""
    if args.game is None and args.board_size is None:
        args.game = "connectn"
    game = game_from_args(args)
    oracle = Oracle(game)
    config, seed = search_from_args(args), seed_from_args(args)
    check_writable(args.json)
    strengths = read_strengths(args.strengths)
    searches = {n: replace(config, simulations=n, time_ms=None) if n else None for n in strengths}
    files, game, options = net_from_args(args, game)
    net = open_cached(files, game, options)
    print(f"{files.name}, {game.name}, seed {seed}")
    rows = compare(args, game, oracle, net, searches, seed) if args.positions else []
    if rows:
        print(f"\nmoves that keep the result, by plies played ({args.positions} random positions)")
        print(bands_table(rows, strengths))
    games = None
    if args.games:
        games = play(args, game, oracle, net, config, seed)
        print(
            f"\nfirst player from the empty board at {config.simulations} playouts, {args.games} games with the solver:"
        )
        print(f"wins/draws/losses  {games.wins}/{games.draws}/{games.losses}   {games.different} different games")
    if args.json is not None:
        content = {"net": files.name, "game": game.name, "seed": seed, "bands": [asdict(row) for row in rows]}
        content["games"] = asdict(games) if games is not None else None
        write_json(args.json, content)
    return EXIT_OK


def read_strengths(text: str) -> list[int]:
    """Playouts from `0,100,400`.

    Raises:
        UsageError: something else.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"--strengths is a list of playouts like {SEARCHES}, not {text!r}")
    return [int(word) for word in words]


def compare(
    args: argparse.Namespace, game: Game, oracle: Oracle, net: Evaluate, searches: dict[int, SearchConfig | None],
    seed: int,
) -> list[Band]:  # fmt: skip
    """The net's moves on seeded random positions beside the solver's scores."""
    rows: list[Band] = []
    done = 0
    with progress_from_args(args, "positions", args.positions) as progress:
        for number, plies in enumerate(BANDS):
            count = args.positions // len(BANDS) + (number < args.positions % len(BANDS))
            if not count:
                continue
            states = random_positions(game, count, plies, np.random.default_rng([seed, POSITION_STREAM, number]))
            scores = np.empty((count, 7), np.int16)
            for row in range(count):
                scores[row] = oracle.scores(states, row)
                progress.update(done + row + 1, f"{plies.start}-{plies.stop - 1} plies")
            done += count
            for simulations, search in searches.items():
                chosen = choose(game, net, search, states, seed)
                rows.append(judge(scores, chosen, f"{plies.start}-{plies.stop - 1}", simulations))
    return rows


def choose(game: Game, net: Evaluate, search: SearchConfig | None, states: State, seed: int) -> NDArray[np.intp]:
    """The net's moves (n,), from a fresh tree each, or from its raw policy."""
    chosen = []
    for start in range(0, len(states), BATCH):
        part = states.take(np.arange(start, min(start + BATCH, len(states))))
        slots = np.arange(len(part))
        if search is None:
            chosen.append(RawPolicyPlayer("net", game, net).choose(slots, part))
            continue
        player = SearchPlayer("net", game, net, search, len(part))
        player.start(slots, part, [np.random.default_rng([seed, SEARCH_STREAM, start + int(slot)]) for slot in slots])
        chosen.append(player.choose(slots, part))
    return np.concatenate(chosen)


def judge(scores: NDArray[np.int16], chosen: NDArray[np.intp], plies: str, simulations: int) -> Band:
    """Count the right and the best of the moves `chosen` (n,), given the solver's `scores` (n, 7)."""
    best = scores.max(axis=1)
    result = np.where(scores == ILLEGAL, -2, np.sign(scores))
    mine = scores[np.arange(len(chosen)), chosen]
    right = np.sign(mine) == np.sign(best)
    choice = ((scores != ILLEGAL) & (result != np.sign(best)[:, None])).any(axis=1)
    return Band(
        plies, simulations, len(chosen), int(choice.sum()), int(right.sum()), int((right & choice).sum()),
        int((mine == best).sum()),
    )  # fmt: skip


def bands_table(rows: list[Band], strengths: list[int]) -> str:
    """A line a band and one for all: for each strength right, right where it matters, best."""
    head = [f"{n or 'raw'}{' playouts' if n else ''}" for n in strengths]
    lines: list[tuple[str, ...]] = [("plies", "positions", *(f"{h}: right | where it matters | best" for h in head))]
    names = list(dict.fromkeys(row.plies for row in rows))
    for name in [*names, "all"]:
        mine = [row for row in rows if name in (row.plies, "all")]
        cells = []
        for strength in strengths:
            some = [row for row in mine if row.simulations == strength]
            total, choices = sum(row.positions for row in some), sum(row.choices for row in some)
            right, right_choices = sum(row.right for row in some), sum(row.right_choices for row in some)
            shares = (right / total, right_choices / max(choices, 1), sum(row.best for row in some) / total)
            cells.append(" | ".join(f"{100 * share:.1f} %" for share in shares))
        count = sum(row.positions for row in mine if row.simulations == strengths[0])
        lines.append((name, str(count), *cells))
    return table(lines, right=(1,))


def play(args: argparse.Namespace, game: Game, oracle: Oracle, net: Evaluate, config: SearchConfig, seed: int) -> Games:
    """The net as first player; the solver draws among its best moves."""
    count = args.games
    slots = np.arange(count)
    states = game.initial(count)
    rngs = [np.random.default_rng([seed, GAME_STREAM, number]) for number in range(count)]
    player = SearchPlayer("net", game, net, config, count)
    player.start(slots, states, rngs)
    lines: list[list[int]] = [[] for _ in range(count)]
    winners = np.zeros(count, np.int8)
    with progress_from_args(args, "games", count) as progress:
        while len(slots):
            if states.to_move[0] == 1:
                actions = player.choose(slots, states)
            else:
                scores = [oracle.scores(states, row) for row in range(len(slots))]
                best = [np.flatnonzero(s == s.max()) for s in scores]
                actions = np.array([rngs[slot].choice(b) for slot, b in zip(slots, best, strict=True)], np.intp)
            states = game.play(states, actions)
            for slot, action in zip(slots, actions, strict=True):
                lines[slot].append(int(action))
            winners[slots] = states.winner
            on = ~states.over
            slots, actions, states = slots[on], actions[on], states.take(on)
            if len(slots):
                player.observe(slots, actions)
            progress.update(count - len(slots), f"won {percent(float((winners == 1).mean()))}")
    won, drawn, lost = (int((winners == winner).sum()) for winner in (1, 0, -1))
    return Games(config.simulations or 0, won, drawn, lost, len({tuple(line) for line in lines}))
