# SPDX-License-Identifier: AGPL-3.0-or-later
"""Training runs to look at, live or finished: read-only, and only those in the folders the server was started with."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from azcaffe.curves import COLUMNS, LOG_NAME, MAX_BYTES, LogError, read_curves
from azcaffe.errors import AzcaffeError
from azcaffe.games.registry import parse_game
from azcaffe.web.models import CurvesView, Replay, RunView, SavedGame, SavedGames
from azcaffe.web.view import replay_view

METRICS_NAME, GAMES_NAME = "metrics.jsonl", "games.jsonl"
MAX_RUNS = 200
MAX_POINTS = 1000
ACTIVE_SECONDS = 120.0
METRICS = ("games", "playouts_per_second", "learning_rate", "mean_plies", "cache_hit_rate")
"""Numbers of a metrics line that the page draws; the others stay in the file."""
MATCHES = ("snapshot", "score", "opponent_simulations")
"""The same of a match against roll-outs: solver step, the net's score 0 … 1, the opponent's playouts."""


class UnknownRun(AzcaffeError):
    """No such run or game."""


class RunShelf:
    """The run folders among `folders` and their children. Requests name a run by its number here, never by a path."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._ids: dict[Path, str] = {}
        self._parsed: dict[Path, tuple[tuple[int, int], Any]] = {}

    def runs(self) -> list[RunView]:
        """All runs, the newest first."""
        views = [self._view(path) for path in self._scan()]
        return sorted(views, key=lambda view: -(view.updated or 0.0))

    def curves(self, id_: str) -> CurvesView:
        """A run's curves.

        Raises:
            UnknownRun: no such run.
            LogError: its log cannot be read.
        """
        folder = self._folder(id_)
        view = self._view(folder)
        log = self._read(folder / LOG_NAME, read_curves)
        columns: dict[str, list[float | None]] = {}
        if log is not None and len(log):
            rows = np.unique(np.linspace(0, len(log) - 1, MAX_POINTS).astype(int))
            columns = {name: [_finite(x) for x in getattr(log, name)[rows]] for name in COLUMNS}
        records = self._read(folder / METRICS_NAME, _json_lines) or []
        lines = _thin([record for record in records if record.get("kind") == "line"])
        against_rollouts = [r for r in records if r.get("kind") == "match" and r.get("opponent") == "rollout"]
        return CurvesView(
            id=id_,
            game=view.game,
            active=view.active,
            log=columns,
            metrics={name: [_number(record.get(name)) for record in lines] for name in METRICS},
            matches={name: [_number(match.get(name)) for match in _thin(against_rollouts)] for name in MATCHES},
        )

    def games(self, id_: str, offset: int, limit: int) -> SavedGames:
        """A page of a run's self-play games, newest first.

        Raises:
            UnknownRun: no such run.
        """
        records = self._games(id_)
        page = list(reversed(records))[offset : offset + limit]
        listed = [SavedGame(number=r["game"], plies=len(r["actions"]), winner=r["winner"]) for r in page]
        return SavedGames(total=len(records), games=listed)

    def replay(self, id_: str, number: int) -> Replay:
        """Self-play game `number` of a run.

        Raises:
            UnknownRun: no such run or game.
            GameError: the record does not follow the rules.
        """
        for record in self._games(id_):
            if record["game"] == number:
                return replay_view(parse_game(record["rules"]), record["actions"])
        raise UnknownRun("no such game in this run")

    def stamp(self, id_: str) -> str:
        """Changes whenever the run's files do.

        Raises:
            UnknownRun: no such run.
        """
        folder = self._folder(id_)
        marks = [_mark(folder / name) for name in (LOG_NAME, METRICS_NAME, GAMES_NAME)]
        return "-".join(f"{size:x}.{when:x}" for size, when in marks)

    def _scan(self) -> list[Path]:
        found: dict[Path, None] = {}
        for folder in self._folders:
            for path in _candidates(folder):
                if len(found) < MAX_RUNS and (path / LOG_NAME).is_file():
                    found.setdefault(path)
        for path in found:
            self._ids.setdefault(path, str(len(self._ids)))
        return list(found)

    def _folder(self, id_: str) -> Path:
        for path in self._scan():
            if self._ids[path] == id_:
                return path
        raise UnknownRun("this server has no such run")

    def _view(self, path: Path) -> RunView:
        updated = max(when for _, when in (_mark(path / LOG_NAME), _mark(path / METRICS_NAME))) / 1e9
        records = self._read(path / GAMES_NAME, _game_records) or []
        try:
            log = self._read(path / LOG_NAME, read_curves)
        except LogError:
            log = None
        played = _finite(log.games[-1]) if log is not None and len(log) else None
        return RunView(
            id=self._ids[path],
            title=path.name,
            game=records[0]["rules"] if records else None,
            games=None if played is None else int(played),
            active=time.time() - updated < ACTIVE_SECONDS,
            updated=updated,
        )

    def _games(self, id_: str) -> list[dict[str, Any]]:
        return self._read(self._folder(id_) / GAMES_NAME, _game_records) or []

    def _read(self, path: Path, parse: Callable[[Path], Any]) -> Any:
        """`parse(path)`, remembered until the file changes; None where there is none, or one too large."""
        mark = _mark(path)
        if not 0 < mark[0] <= MAX_BYTES:
            return None
        known = self._parsed.get(path)
        if known is None or known[0] != mark:
            known = self._parsed[path] = (mark, parse(path))
        return known[1]


def _candidates(folder: Path) -> Iterator[Path]:
    yield folder
    try:
        yield from sorted(child for child in folder.iterdir() if child.is_dir() and not child.is_symlink())
    except OSError:
        return


def _mark(path: Path) -> tuple[int, int]:
    """(bytes, time of the last change in ns), zeros where there is no file."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file; lines that are none (the run may be writing the last one) are left out."""
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return records


def _game_records(path: Path) -> list[dict[str, Any]]:
    return [record for record in _json_lines(path) if _is_game(record)]


def _is_game(record: dict[str, Any]) -> bool:
    actions, winner = record.get("actions"), record.get("winner")
    whole = isinstance(actions, list) and len(actions) <= 2000 and all(type(action) is int for action in actions)
    return whole and winner in (1, 0, -1) and type(record.get("game")) is int and isinstance(record.get("rules"), str)


def _thin(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most MAX_POINTS of them, the last one included."""
    step = -(-len(records) // MAX_POINTS) or 1
    return records[::-1][::step][::-1]


def _number(value: Any) -> float | None:
    return _finite(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
