# SPDX-License-Identifier: AGPL-3.0-or-later
"""Records of a training run: the published CSV, a JSONL with everything else, and some games to step through.

They receive records and decide nothing. After a crash the files may be ahead of the checkpoint that the run goes on
from: opening them for iteration i drops every later line, so that a resumed run's log reads like an unbroken one's.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from azcaffe.atomic import clear_unfinished, write_atomically

HEADER = "Iter;Num Game played;Value loss;Probas loss;KL div;Opponent playouts;Win;Draw;Lost"
"""First line of the published log; sheets that plot it look for these columns."""

MAX_GAME_LINES = 2_000


@dataclass(frozen=True)
class LogRow:
    """One line of the published log.

    Attributes:
        iteration: solver steps made.
        games: self-play games played.
        value_loss, policy_loss, kl: means over the steps since the last line; `value_loss` is Caffe's EuclideanLoss,
            half the mean squared error.
        opponent_simulations: playouts of the roll-out opponent.
        wins, draws, losses: of the last match against it.
    """

    iteration: int
    games: int
    value_loss: float
    policy_loss: float
    kl: float
    opponent_simulations: int
    wins: int
    draws: int
    losses: int

    def line(self) -> str:
        """The row as the published program writes it, without newline."""
        losses = ";".join(f"{loss:.6g}" for loss in (self.value_loss, self.policy_loss, self.kl))
        tests = f"{self.opponent_simulations};{self.wins};{self.draws};{self.losses}"
        return f"{self.iteration};{self.games};{losses};{tests}"


class RunLog:
    """The three files of a run, open for appending."""

    def __init__(self, csv: Path, metrics: Path, games: Path, iteration: int = 0, game: int = 0) -> None:
        """Open, or start, the files; lines after step `iteration` and games from number `game` on are dropped."""
        for path in (csv, metrics, games):
            path.parent.mkdir(parents=True, exist_ok=True)
        _trim(csv, lambda line: line == HEADER or _first_number(line) <= iteration, [HEADER])
        _trim(metrics, lambda line: _json_number(line, "iteration") <= iteration)
        kept = _trim(games, lambda line: _json_number(line, "game") < game)
        self._room_for_games = MAX_GAME_LINES - kept
        self._csv = _append_to(csv)
        self._metrics = _append_to(metrics)
        self._games = _append_to(games)

    def row(self, row: LogRow) -> None:
        """One line of the published log."""
        print(row.line(), file=self._csv, flush=True)

    def metrics(self, record: dict[str, Any]) -> None:
        """One JSON line; `record["iteration"]` says when."""
        print(json.dumps(record), file=self._metrics, flush=True)

    def game(self, record: dict[str, Any]) -> None:
        """One self-play game as a JSON line, MAX_GAME_LINES at most; `record["game"]` is its number."""
        if self._room_for_games > 0:
            self._room_for_games -= 1
            print(json.dumps(record), file=self._games, flush=True)

    def close(self) -> None:
        """Close the files."""
        for file in (self._csv, self._metrics, self._games):
            file.close()


def _append_to(path: Path) -> IO[str]:
    return open(path, "a", encoding="utf-8")


def _first_number(line: str) -> float:
    """The leading column; infinity where it is no number (the half line a killed run may leave)."""
    try:
        return float(int(line.split(";", 1)[0])) if line.count(";") == HEADER.count(";") else float("inf")
    except ValueError:
        return float("inf")


def _json_number(line: str, key: str) -> float:
    try:
        return float(json.loads(line)[key])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _trim(path: Path, keep: Callable[[str], bool], start: Iterable[str] = ()) -> int:
    """Keep the lines of `path` that `keep` accepts, or `start` where none is left; returns how many there are."""
    clear_unfinished(path.parent, glob.escape(path.name))
    old = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    lines = [line for line in old if keep(line)] or list(start)
    if lines != old:
        write_atomically(path, (f"{line}\n".encode() for line in lines))
    return len(lines)
