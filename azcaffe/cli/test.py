# SPDX-License-Identifier: AGPL-3.0-or-later
"""Evaluate a net: play matches and say how they ended, with a 95 % interval.

Modes: MCTS (random roll-outs, --opponent-playouts), Compare (a second net), Random, Self, Human.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from azcaffe.arena import GameRecord, MatchConfig, MatchResult, draw_openings
from azcaffe.cli.common import (
    NetFiles,
    NoNetError,
    add_game,
    add_nets,
    add_search,
    check_writable,
    game_from_args,
    history_of,
    net_files,
    net_options,
    open_cached,
    progress_from_args,
    search_from_args,
    seed_from_args,
    write_json,
)
from azcaffe.cli.console import Leave, Session
from azcaffe.cli.main import EXIT_INTERRUPTED, EXIT_OK
from azcaffe.cli.parser import (
    CommandParser,
    Flag,
    UsageError,
    add_config,
    config_from_args,
    number,
    whole_number,
    yes_or_no,
)
from azcaffe.cli.roster import ArenaSetup, MatchTally, PlayerSpec, Workforce, add_workers, workers_from_args
from azcaffe.cli.text import game_line, match_table, side_by_side
from azcaffe.games.base import Game
from azcaffe.search import Evaluate, SearchConfig

EXAMPLE = "azcaffe test --test-mode Compare --weights A.caffemodel --weights2 B.caffemodel --games 50"

MODES = ("MCTS", "Compare", "Random", "Self", "Human")
MATCH_FLAGS = {
    "games": Flag(("--games", "--num-test"), "games to play"),
    "openings": Flag(("--openings",), "paired: each twice, sides swapped; single: as published"),
    "seed": Flag(("--seed",), "of every random draw"),
}
RARE_MATCH_FLAGS = {"parallel": Flag(("--parallel",), "games side by side in a process; 1 with --time-ms [64]")}


def handover(argv: Sequence[str]) -> tuple[str, list[str]] | None:
    """`--train=1`, the published program's other half: the same options go to `azcaffe train`."""
    words = list(argv)
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.lstrip("-") != "train" or not name.startswith("-"):
            continue
        used = 1
        if not equals:
            value = words[at + 1] if at + 1 < len(words) and not words[at + 1].startswith("-") else "1"
            used = 2 if at + 1 < len(words) and words[at + 1] == value else 1
        if value.lower() in ("1", "true", "yes"):
            return "train", words[:at] + words[at + used :]
    return None


def add_arguments(parser: CommandParser) -> None:
    """The published program's flags, the article's, and ours."""
    group = parser.add_argument_group("match")
    group.add_argument(
        "--test-mode", "--mode", metavar="MODE", help=f"{', '.join(MODES)} [MCTS, or Compare with --weights2]"
    )
    add_config(group, MatchConfig, MATCH_FLAGS)
    group.add_argument(
        "--opening-plies", type=whole_number, metavar="N", help="random moves at the start [1; Human: 0]"
    )
    group.add_argument(
        "--opponent-playouts", type=whole_number, default=1000, metavar="N", help="playouts a move of MCTS [1000]"
    )
    group.add_argument("--raw-policy", action="store_true", help="nets play their favourite move, without search")
    group.add_argument(
        "--display", type=yes_or_no, nargs="?", const=True, default=False, metavar="0|1", help="show boards"
    )
    group.add_argument("--json", metavar="FILE", help="write the result and all moves to FILE")
    add_game(parser)
    add_nets(parser, 2)
    add_search(parser)
    rare = parser.advanced("the opponent's search, and rare match options")
    rare.add_argument("--opponent-search", metavar="NAME", help="corrected or original [as --search]")
    rare.add_argument("--opponent-c-puct", type=number, metavar="X", help="[as --c-puct]")
    rare.add_argument(
        "--opponent-simulations", type=whole_number, metavar="N", help="of the second net [as --simulations]"
    )
    add_config(rare, MatchConfig, RARE_MATCH_FLAGS, parallel=None)
    rare.add_argument("--export", metavar="FILE", help="write the games as text, one a line")
    add_workers(rare)
    rare.add_argument(
        "--train", type=yes_or_no, nargs="?", const=True, metavar="0|1", help="1: train with these options"
    )


def run(args: argparse.Namespace) -> int:
    """Check everything, then play."""
    mode = _mode(args)
    game = game_from_args(args)
    mine = search_from_args(args)
    theirs = _opponent_search(args, mine, mode)
    if args.parallel is None:
        args.parallel = 1 if mine.time_ms is not None else MatchConfig.parallel
    if args.opening_plies is None:
        args.opening_plies = 0 if mode == "Human" else MatchConfig.opening_plies
    seed_from_args(args)
    config = config_from_args(MatchConfig, args)
    check_writable(args.json, args.export)
    options, workers = net_options(args), workers_from_args(args)
    files = [net_files(game, args.model, args.weights)]
    if mode == "Compare":
        files.append(_second_net(game, args, files[0]))
    game = game.with_history(max(history_of(each, game, options) for each in files))
    if mode == "Human":
        result, stopped = _against_a_person(game, files[0], open_cached(files[0], game, options), mine, config)
    else:
        a, b = _players(args, mode, files, mine, theirs)
        result, stopped = _match(args, ArenaSetup(game, options), MatchTally(a, b, config), workers)
    _report(args, game, result, _terms(args, mode, mine, theirs))
    return EXIT_INTERRUPTED if stopped else EXIT_OK


def _mode(args: argparse.Namespace) -> str:
    if args.test_mode is None:
        return "Compare" if args.weights2 or args.model2 else "MCTS"
    for mode in MODES:
        if mode.lower() == args.test_mode.lower():
            other = (args.weights2, args.model2, args.opponent_search, args.opponent_c_puct, args.opponent_simulations)
            if mode == "Compare" and not any(other):
                raise UsageError("test mode Compare needs a second net: --weights2 FILE")
            return mode
    raise UsageError(f"--test-mode must be one of {', '.join(MODES)}, not {args.test_mode!r}")


def _opponent_search(args: argparse.Namespace, mine: SearchConfig, mode: str) -> SearchConfig:
    variant = mine.variant if args.opponent_search is None else args.opponent_search
    c_puct = mine.c_puct if args.opponent_c_puct is None else args.opponent_c_puct
    if mode == "MCTS":
        return SearchConfig(args.opponent_playouts, c_puct=c_puct, variant=variant)
    simulations = mine.simulations if args.opponent_simulations is None else args.opponent_simulations
    return search_from_args(args, simulations=simulations, c_puct=c_puct, variant=variant)


def _second_net(game: Game, args: argparse.Namespace, first: NetFiles) -> NetFiles:
    """The opponent's files; what is not given is as the first net's."""
    if args.weights2 is None and args.model2 is None:
        return first
    try:
        return net_files(game, args.model2, args.weights2)
    except NoNetError:
        return net_files(game, str(first.model), args.weights2)


def _players(
    args: argparse.Namespace, mode: str, files: list[NetFiles], mine: SearchConfig, theirs: SearchConfig
) -> tuple[PlayerSpec, PlayerSpec]:
    first = PlayerSpec(files[0].name, files[0], None if args.raw_policy else mine)
    if mode == "Random":
        return first, PlayerSpec("random", None, None)
    if mode == "MCTS":
        return first, PlayerSpec(f"MCTS {theirs.simulations}", None, theirs)
    second = files[-1]
    name = second.name if second.name != first.name else f"{first.name} (2)"
    return first, PlayerSpec(name, second, None if args.raw_policy else theirs)


def _match(
    args: argparse.Namespace, setup: ArenaSetup, match: MatchTally, workers: Workforce
) -> tuple[MatchResult, bool]:
    """Play, showing progress; on Ctrl-C what is finished counts."""
    began, points, stopped = time.perf_counter(), 0.0, False
    names = (match.a.name, match.b.name)
    with progress_from_args(args, "games", match.config.games) as progress:
        try:
            for event in workers.play(setup, [match]):
                if event.record is None:
                    progress.message(event.message)
                    continue
                points += event.record.score
                if args.display:
                    boards = side_by_side(setup.game, event.record.moves)
                    print(f"\n{game_line(setup.game, event.record, names)}\n{boards}", flush=True)
                progress.update(len(match.records), f"score {points / len(match.records):.3f}")
        except KeyboardInterrupt:
            stopped = True
    match.seconds = time.perf_counter() - began
    if stopped:
        print(f"azcaffe: stopped after {len(match.records)} of {match.config.games} games", file=sys.stderr)
    return match.result(), stopped


def _against_a_person(
    game: Game, files: NetFiles, net: Evaluate, search: SearchConfig, config: MatchConfig
) -> tuple[MatchResult, bool]:
    """The published Human mode: games at the console, sides alternating."""
    session = Session(game, net, search, name=files.name, seed=config.seed)
    openings = draw_openings(game, config)
    records: list[GameRecord] = []
    began, stopped = time.perf_counter(), False
    try:
        for number in range(config.games):
            opening = number // 2 if config.openings == "paired" else number
            winner = session.play(-1 if number % 2 == 0 else 1, openings[opening])
            records.append(GameRecord(number, opening, session.human == -1, tuple(session.moves), winner))
    except Leave:
        pass
    except KeyboardInterrupt:
        stopped = True
    seconds = time.perf_counter() - began
    names = (files.name, "you")
    return MatchResult(names, config, tuple(records), seconds, (session.playouts, 0), (session.seconds, 0.0)), stopped


def _terms(args: argparse.Namespace, mode: str, mine: SearchConfig, theirs: SearchConfig) -> str:
    """What both sides play with, in a line."""
    own = "raw policy" if args.raw_policy else _search_text(mine)
    if mode in ("MCTS", "Compare") and not (args.raw_policy and mode == "Compare"):
        return f"{own}; opponent: {_search_text(theirs)}"
    return own


def _search_text(search: SearchConfig) -> str:
    limits = [] if search.simulations is None else [f"{search.simulations} playouts"]
    limits += [] if search.time_ms is None else [f"{search.time_ms:g} ms"]
    return f"{' or '.join(limits)}, c_puct {search.c_puct:g}, {search.variant} search"


def _report(args: argparse.Namespace, game: Game, result: MatchResult, terms: str) -> None:
    print(match_table(game, result, terms))
    if result.distinct_games < len(result.records) and not args.quiet:
        print(
            f"azcaffe: only {result.distinct_games} of {len(result.records)} games are different: openings repeat and "
            "the players do not vary; more --opening-plies give more",
            file=sys.stderr,
        )
    if args.json is not None:
        content = {"game": game.name, "terms": terms} | result.as_json()
        write_json(args.json, content)
    if args.export is not None:
        lines = [game_line(game, record, result.names) for record in result.records]
        Path(args.export).write_text("".join(line + "\n" for line in lines))
