# SPDX-License-Identifier: AGPL-3.0-or-later
"""An Elo ladder: everybody plays everybody (or a few rivals), ratings by maximum likelihood with 95 % intervals.

Players: FILE.caffemodel, FILE.caffemodel@PLAYOUTS, FILE.caffemodel@raw (no search), a folder (all
snapshots in it), MODEL.prototxt+FILE.caffemodel, mcts:PLAYOUTS (roll-outs), random.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from azcaffe.arena import MatchConfig, MatchResult
from azcaffe.cli.common import (
    add_game,
    add_net_reading,
    add_search,
    check_writable,
    game_from_args,
    history_of,
    net_files,
    net_options,
    progress_from_args,
    search_from_args,
    write_json,
)
from azcaffe.cli.main import EXIT_INTERRUPTED, EXIT_OK
from azcaffe.cli.parser import CommandParser, Flag, UsageError, add_config, config_from_args
from azcaffe.cli.roster import ArenaSetup, MatchTally, PlayerSpec, Workforce, add_workers, workers_from_args
from azcaffe.cli.text import percent, table
from azcaffe.errors import AzcaffeError
from azcaffe.games.base import Game
from azcaffe.progress import Progress
from azcaffe.rating import Ladder, Pairing, fit_ladder
from azcaffe.search import SearchConfig

EXAMPLE = "azcaffe rate random mcts:400 mcts:1000 models/a.caffemodel@400 --json ladder.json"

MATCH_FLAGS = {
    "games": Flag(("--games",), "games of each pair of players"),
    "opening_plies": Flag(("--opening-plies",), "random moves at the start of a game"),
    "openings": Flag(("--openings",), "paired: each twice, sides swapped; or single"),
    "seed": Flag(("--seed",), "of every random draw"),
}
ITERATION = re.compile(r"_iter_(\d+)$")
ANCHOR = "random"


def add_arguments(parser: CommandParser) -> None:
    """Players, games, output."""
    group = parser.add_argument_group("ladder")
    group.add_argument("players", nargs="+", metavar="PLAYER", help="two or more; see above")
    add_config(group, MatchConfig, MATCH_FLAGS, games=40, opening_plies=2)
    group.add_argument("--anchor", metavar="NAME", help=f"whose Elo is 0 [{ANCHOR} if it plays, else the mean is 0]")
    group.add_argument("--against", nargs="+", metavar="NAME", default=[],
                       help="only these meet all others: a run's snapshots against rivals [all meet all]")  # fmt: skip
    group.add_argument("--every", type=int, default=1, metavar="N", help="of a folder, each Nth snapshot [1]")
    group.add_argument("--json", metavar="FILE", help="write ratings and matches; `azcaffe plot --elo FILE` draws them")
    add_workers(group)
    add_game(parser)
    add_net_reading(parser)
    add_search(parser)


def run(args: argparse.Namespace) -> int:
    """Play the round robin, print the ladder; on Ctrl-C, that of the games so far."""
    game = game_from_args(args)
    search, options, workers = search_from_args(args), net_options(args), workers_from_args(args)
    if args.every < 1:
        raise UsageError(f"--every must be at least 1, not {args.every}")
    config = config_from_args(MatchConfig, args)
    players = distinct([spec for text in args.players for spec in read_players(game, text, search, args.every)])
    names = [player.name for player in players]
    if len(players) < 2:
        raise UsageError("a ladder needs at least two players")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} stands in the list twice")
    for flag, wanted in (("--anchor", [args.anchor] if args.anchor else []), ("--against", args.against)):
        for name in wanted:
            if name not in names:
                raise UsageError(f"{flag} {name} does not play; the players are {', '.join(names)}")
    check_writable(args.json)
    game = game.with_history(max([history_of(p.files, game, options) for p in players if p.files], default=0))
    rivals = {names.index(name) for name in args.against} or set(range(len(players)))
    pairs = [pair for pair in combinations(range(len(players)), 2) if rivals.intersection(pair)]
    matches = [
        MatchTally(players[i], players[j], replace(config, seed=config.seed + number))
        for number, (i, j) in enumerate(pairs)
    ]
    nets = max(1, len({player.files for player in players}))
    setup = ArenaSetup(game, replace(options, cache=options.cache // nets))
    began = time.monotonic()
    stopped = _play(args, setup, matches, workers)
    seconds = time.monotonic() - began
    results = [match.result() for match in matches]
    anchor = args.anchor or (ANCHOR if ANCHOR in names else None)
    try:
        ladder = fit_ladder(names, _pairings(pairs, results), None if anchor is None else names.index(anchor))
    except AzcaffeError:
        if stopped:
            return EXIT_INTERRUPTED  # too few games yet to compare all players
        raise
    print(ladder_table(ladder, anchor))
    print()
    print(score_table(ladder, pairs, results, rivals))
    if args.json is not None:
        content = as_json(game, search, config, players, ladder, anchor, pairs, results, seconds)
        write_json(args.json, content)
    return EXIT_INTERRUPTED if stopped else EXIT_OK


def _play(args: argparse.Namespace, setup: ArenaSetup, matches: list[MatchTally], workers: Workforce) -> bool:
    total = sum(match.config.games for match in matches)
    progress: Progress
    with progress_from_args(args, "games", total) as progress:
        done = 0
        try:
            for event in workers.play(setup, matches):
                if event.record is None:
                    progress.message(event.message)
                    continue
                done += 1
                match = matches[event.match]
                progress.update(done, f"{match.a.name} - {match.b.name}")
        except KeyboardInterrupt:
            print(f"\nazcaffe: stopped after {done} of {total} games", file=sys.stderr)
            return True
    return False


def read_players(game: Game, text: str, search: SearchConfig, every: int = 1) -> list[PlayerSpec]:
    """The player that `text` means, or the snapshots of the folder that it names.

    Raises:
        AzcaffeError: it means none, or a file is missing.
    """
    if text == "random":
        return [PlayerSpec("random", None, None)]
    kind, _, rest = text.partition(":")
    if kind == "mcts":
        return [PlayerSpec(text, None, replace(search, simulations=_playouts(text, rest), time_ms=None, root="puct"))]
    path, at, strength = text.rpartition("@") if "@" in text else (text, "", "")
    config: SearchConfig | None = search
    if strength == "raw":
        config = None
    elif at:
        config = replace(search, simulations=_playouts(text, strength))
    model, plus, weights = path.partition("+")
    if plus:
        files = [net_files(game, model, weights)]
    elif Path(path).is_dir():
        files = [net_files(game, None, str(file)) for file in snapshots(Path(path))[::every]]
        if not files:
            raise AzcaffeError(f"{path} holds no .caffemodel")
    elif ".caffemodel" in path:
        files = [net_files(game, None, path)]
    else:
        raise UsageError(f"{text!r} is no player: give a .caffemodel, a folder of them, mcts:PLAYOUTS, or random")
    return [PlayerSpec(each.name + at + strength, each, config) for each in files]


def distinct(players: list[PlayerSpec]) -> list[PlayerSpec]:
    """The same players, nets of the same name in different folders called by their paths."""
    names = [player.name for player in players]
    return [
        replace(player, name=player.name.replace(player.files.name, str(player.files.weights), 1))
        if player.files is not None and names.count(player.name) > 1
        else player
        for player in players
    ]


def _playouts(text: str, number: str) -> int:
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"{text!r}: {number!r} is not a number of playouts")
    return int(number)


def snapshots(folder: Path) -> list[Path]:
    """The caffemodels in `folder` and below, those with an iteration in their name in its order."""
    found = sorted(folder.rglob("*.caffemodel"))
    return sorted(found, key=lambda path: (iteration_of(path) or 0, str(path)))


def iteration_of(path: Path) -> int | None:
    """N of `NAME_iter_N.caffemodel`."""
    match = ITERATION.search(path.stem)
    return int(match[1]) if match else None


def _pairings(pairs: list[tuple[int, int]], results: list[MatchResult]) -> list[Pairing]:
    """Matches as evidence, those without a finished game left out."""
    return [
        Pairing(i, j, result.unit_scores, 2 if result.config.openings == "paired" else 1)
        for (i, j), result in zip(pairs, results, strict=True)
        if result.records
    ]


def ladder_table(ladder: Ladder, anchor: str | None) -> str:
    """Rank, name, Elo with its interval, games, score."""
    rows = [("", "player", "Elo", "95 % interval", "games", "score")]
    for rank, player in enumerate(ladder.order(), 1):
        elo, error = ladder.elo[player], ladder.error[player]
        interval = f"{elo - error:+.0f} … {elo + error:+.0f}" if error else "-"
        games, score = str(ladder.games[player]), percent(ladder.score[player])
        rows.append((str(rank), ladder.names[player], f"{elo:+.0f}", interval, games, score))
    notes = [f"{anchor} is 0" if anchor else "the mean is 0"]
    if ladder.prior:
        notes.append(
            "somebody won or lost all games: half a win and half a loss are added to each pairing,\n"
            "and whoever is far from the others may be farther"
        )
    return table(rows, right=(0, 2, 3, 4, 5)) + "\n" + "; ".join(notes)


def score_table(
    ladder: Ladder, pairs: list[tuple[int, int]], results: list[MatchResult], rivals: Collection[int]
) -> str:
    """Wins/draws/losses of the row's player against the column's, one of `rivals`; strongest first."""
    cells = {}
    for (i, j), result in zip(pairs, results, strict=True):
        cells[i, j] = f"{result.wins}/{result.draws}/{result.losses}"
        cells[j, i] = f"{result.losses}/{result.draws}/{result.wins}"
    order = ladder.order()
    columns = [(str(rank), player) for rank, player in enumerate(order, 1) if player in rivals]
    rows = [("", "player", *(rank for rank, _ in columns))]
    for rank, i in enumerate(order, 1):
        rows.append((str(rank), ladder.names[i], *(cells.get((i, j), "-") for _, j in columns)))
    return table(rows, right=(0, *range(2, len(columns) + 2)))


def as_json(
    game: Game, search: SearchConfig, config: MatchConfig, players: list[PlayerSpec], ladder: Ladder,
    anchor: str | None, pairs: list[tuple[int, int]], results: list[MatchResult], seconds: float,
) -> dict[str, Any]:  # fmt: skip
    """Ratings and matches in JSON's types."""
    rows = []
    for at in ladder.order():
        elo, error, files = float(ladder.elo[at]), float(ladder.error[at]), players[at].files
        rows.append({
            "name": ladder.names[at],
            "elo": elo,
            "interval": [elo - error, elo + error],
            "games": int(ladder.games[at]),
            "score": float(ladder.score[at]),
            "iteration": iteration_of(files.weights) if files is not None else None,
            "simulations": _simulations(players[at]),
        })  # fmt: skip
    matches = []
    for (i, j), result in zip(pairs, results, strict=True):
        matches.append({"first": players[i].name, "second": players[j].name} | result.as_json())
    return {
        "game": game.name,
        "anchor": anchor,
        "prior": ladder.prior,
        "c_puct": search.c_puct,
        "search": search.variant,
        "games_per_pairing": config.games,
        "openings": config.openings,
        "opening_plies": config.opening_plies,
        "seed": config.seed,
        "seconds": seconds,
        "players": rows,
        "matches": matches,
    }


def _simulations(player: PlayerSpec) -> int | None:
    return player.search.simulations if player.search is not None else None
