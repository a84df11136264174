# SPDX-License-Identifier: AGPL-3.0-or-later
"""Numbers and moves as people read them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence

import numpy as np

from azcaffe.arena import GameRecord, MatchResult
from azcaffe.games.base import Game
from azcaffe.progress import clock
from azcaffe.rating import elo_difference


def percent(share: float) -> str:
    """`62 %`."""
    return f"{100 * share:.0f} %"


def value_text(value: float) -> str:
    """A value in [-1, 1] with its sign: `+0.32`."""
    return f"{value:+.2f}"


def move_word(game: Game, action: int) -> str:
    """The move's name, or its number where the name holds a space or comma; :func:`parse_moves` reads it back."""
    name = game.move_name(action)
    return name if re.fullmatch(r"[^\s,;]+", name) else str(action)


def moves_text(game: Game, actions: Sequence[int]) -> str:
    """Moves in a row: `d3 c3 e4`; `-` for none."""
    return " ".join(move_word(game, action) for action in actions) or "-"


def parse_moves(game: Game, text: str) -> list[int]:
    """Actions from names or numbers between commas or spaces; `-` and nothing mean none.

    Raises:
        GameError: a word names no action.
    """
    words = text.split(",") if "," in text else text.split()
    return [game.parse_move(word) for word in words if word.strip() not in ("", "-")]


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns padded to their widest cell; those in `right` are flushed right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if at in right else c.ljust(w) for at, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def game_line(game: Game, record: GameRecord, names: Sequence[str]) -> str:
    """One game in one line: number, who was x and who o, the result, the moves (`azcaffe show --moves` reads them)."""
    x, o = names if record.a_first else reversed(names)
    result = {1: "x won", 0: "draw", -1: "o won"}[record.winner]
    return f"game {record.number + 1}: x {x}, o {o}; {result}; {moves_text(game, record.moves)}"


def side_by_side(game: Game, moves: Sequence[int], columns: int | None = None) -> str:
    """The boards after each of `moves`, as many in a row as the terminal holds."""
    columns = shutil.get_terminal_size().columns if columns is None else columns
    state, boards = game.initial(1), []
    for ply, move in enumerate(moves):
        state = game.step(state, np.array([move]))
        boards.append([f"{ply + 1}. {game.move_name(move)}", *game.render(state, 0, move).splitlines()])
    width = max(len(line) for board in boards for line in board) + 3
    in_a_row = max(1, columns // width)
    blocks = []
    for at in range(0, len(boards), in_a_row):
        rows = zip(*boards[at : at + in_a_row], strict=True)
        blocks.append("\n".join("".join(cell.ljust(width) for cell in row).rstrip() for row in rows))
    return "\n\n".join(blocks)


def match_table(game: Game, result: MatchResult, terms: str) -> str:
    """The summary of a match: the published `wins/draws/losses`, and how much it says."""
    count = len(result.records)
    head = f"{result.names[0]} against {result.names[1]}\n{game.name}; {terms}\n"
    if not count:
        return head + "no game was finished"
    low, high = result.interval
    first = result.first_player
    config = result.config
    opening = f"{config.openings} openings, {config.opening_plies} random plies, seed {config.seed}"
    elo = elo_difference(result.score)
    rows = [
        ("games", f"{count} ({opening})"),
        ("wins/draws/losses", f"{result.wins}/{result.draws}/{result.losses}"),
        ("score", f"{result.score:.3f}   95 % interval {low:.3f} … {high:.3f}   Elo {elo:+.0f}"),
        ("first player", f"wins {percent(first[0] / count)}  ({first[0]}/{first[1]}/{first[2]} wins/draws/losses)"),
        ("moving first", "/".join(map(str, result.on_side(True)))),
        ("moving second", "/".join(map(str, result.on_side(False)))),
        ("mean length", f"{result.mean_length:.1f} plies"),
        ("different games", f"{result.distinct_games} of {count}"),
        ("playouts/s", _speeds(result)),
        ("time", f"{clock(result.seconds)}"),
    ]
    return head + table(rows)


def _speeds(result: MatchResult) -> str:
    both = zip(result.names, result.playouts, result.thinking, strict=True)
    return "   ".join(f"{name} {made / max(spent, 1e-9):,.0f}" for name, made, spent in both if made) or "-"
