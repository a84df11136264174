# SPDX-License-Identifier: AGPL-3.0-or-later
"""The replay buffer: positions of the newest games, stored as named columns in a ring.

A position costs `cells + A * 2 + 17` bytes (no float planes: the planes are made when a batch is drawn), so 10,000
positions of 6x6 are 1.2 MB. What is saved is restored exactly, the counts of everything ever appended included.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections import deque
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from azcaffe.errors import AzcaffeError, ConfigError
from azcaffe.games.base import Game
from azcaffe.selfplay import Samples, empty_samples

VERSION = 2
READABLE = (1, 2)
"""Version 1 kept values as int8: results only."""
_FIRST_ROWS = 1024


class ReplayError(AzcaffeError):
    """A replay file that is damaged, of another version, or of another game."""


class ReplayBuffer:
    """A ring of the newest positions; the oldest are dropped.

    Attributes:
        total_games: games ever appended, those no longer in the buffer included.
        total_positions: positions ever appended.
    """

    def __init__(self, game: Game, max_positions: int | None = 10_000, max_games: int | None = None) -> None:
        """At most `max_positions` positions of at most `max_games` games; at least one of the two is a number.

        Raises:
            ConfigError: no limit, or one below 1.
        """
        if max_positions is None and max_games is None:
            raise ConfigError("a replay buffer needs a limit: max_size_memory (positions), max_games, or both")
        for name, limit in (("max_size_memory", max_positions), ("max_games", max_games)):
            if limit is not None and limit < 1:
                raise ConfigError(f"{name} must be at least 1, not {limit}")
        self._game = game
        self._max_positions = max_positions
        self._max_games = max_games
        self._columns = empty_samples(game, _FIRST_ROWS if max_positions is None else min(_FIRST_ROWS, max_positions))
        self._start = 0  # row of the oldest position
        self._size = 0
        self._sizes: deque[int] = deque()  # positions held of each game, oldest game first
        self.total_games = 0
        self.total_positions = 0

    def __len__(self) -> int:
        """Positions held."""
        return self._size

    @property
    def games(self) -> int:
        """Games held, the oldest perhaps only in part."""
        return len(self._sizes)

    def append(self, game: Samples) -> None:
        """Add one game's positions, in the order they were played; copies."""
        count = len(game)
        self.total_games += 1
        self.total_positions += count
        if self._max_positions is not None and count > self._max_positions:
            game = game.take(np.arange(count - self._max_positions, count))
            count = len(game)
        self._sizes.append(count)
        if self._max_positions is not None:
            self._drop(self._size + count - self._max_positions)
        while self._max_games is not None and len(self._sizes) > self._max_games:
            self._drop_game()
        self._reserve(self._size + count)
        rows = (self._start + self._size + np.arange(count)) % len(self._columns)
        self._columns.put(rows, game)
        self._size += count

    def sample(self, rng: np.random.Generator, count: int, newest_generations: int | None = None) -> Samples:
        """`count` positions drawn uniformly with replacement, from all or from those of the newest generations.

        Raises:
            ReplayError: the buffer is empty.
        """
        if not self._size:
            raise ReplayError("cannot draw a batch from an empty replay buffer")
        first = 0
        if newest_generations is not None:
            generation = self._columns.generation[self._rows()]  # never falls: games come in the order of their rounds
            kinds = np.unique(generation)
            first = int(np.searchsorted(generation, kinds[-min(newest_generations, len(kinds))]))
        index = rng.integers(first, self._size, size=count)
        return self._columns.take((self._start + index) % len(self._columns))

    def contents(self) -> Samples:
        """Everything held, oldest first, copied."""
        return self._columns.take(self._rows())

    def save(self, path: Path) -> None:
        """Write everything to `path`: an .npz of plain arrays, with the version, the game and a checksum in `meta`."""
        columns = self.contents()
        meta = {
            "max_positions": self._max_positions,
            "max_games": self._max_games,
            "total_games": self.total_games,
            "total_positions": self.total_positions,
            "game_sizes": list(self._sizes),
        }
        save_samples(path, self._game, columns, meta)

    @classmethod
    def load(
        cls, path: Path, game: Game, max_positions: int | None = None, max_games: int | None = None
    ) -> ReplayBuffer:
        """The buffer that was saved, with its own limits unless new ones are given (then the newest positions stay).

        Raises:
            ReplayError: unreadable, damaged, of another version, or of another game than `game`.
        """
        columns, meta = load_samples(path, game)
        if max_positions is None and max_games is None:
            max_positions, max_games = meta["max_positions"], meta["max_games"]
        try:
            buffer = cls(game, max_positions, max_games)
            sizes = [int(size) for size in meta["game_sizes"]]
            if sum(sizes) != len(columns) or min(sizes, default=0) < 0:
                raise ReplayError(f"{path}: damaged, its games have {sum(sizes)} positions but it holds {len(columns)}")
            start = 0
            for size in sizes:
                buffer.append(columns.take(np.arange(start, start + size)))
                start += size
            buffer.total_games, buffer.total_positions = int(meta["total_games"]), int(meta["total_positions"])
        except (KeyError, TypeError, ValueError) as problem:
            raise ReplayError(f"{path}: damaged, {type(problem).__name__} {problem} in its description") from problem
        return buffer

    def _rows(self) -> np.ndarray:
        return (self._start + np.arange(self._size)) % len(self._columns)

    def _drop(self, count: int) -> None:
        """Forget the `count` oldest positions (nothing where count <= 0)."""
        if count <= 0:
            return
        self._start = (self._start + count) % len(self._columns)
        self._size -= count
        while count:
            oldest = min(count, self._sizes[0])
            self._sizes[0] -= oldest
            count -= oldest
            if not self._sizes[0]:
                self._sizes.popleft()

    def _drop_game(self) -> None:
        if self._sizes[0]:
            self._drop(self._sizes[0])
        else:
            self._sizes.popleft()

    def _reserve(self, size: int) -> None:
        """Make room for `size` positions; rows move, their order does not."""
        if size <= len(self._columns):
            return
        larger = max(size, 2 * len(self._columns))
        if self._max_positions is not None:
            larger = min(larger, self._max_positions)
        columns = empty_samples(self._game, larger)
        columns.put(np.arange(self._size), self.contents())
        self._columns, self._start = columns, 0


def _digest(columns: Samples, meta: dict) -> str:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for field in fields(columns):
        array = np.ascontiguousarray(getattr(columns, field.name))
        digest.update(f"{field.name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def save_samples(path: Path, game: Game, columns: Samples, meta: dict) -> None:
    """Write columns and their description to `path`, with version, game and a checksum over all of it."""
    meta = {"format": "azcaffe replay", "version": VERSION, "game": game.name, "history": game.history, **meta}
    described = json.dumps({**meta, "sha256": _digest(columns, meta)})
    arrays = {field.name: getattr(columns, field.name) for field in fields(columns)}
    with open(path, "wb") as file:
        np.savez(file, meta=np.frombuffer(described.encode(), np.uint8), **arrays)


def load_samples(path: Path, game: Game) -> tuple[Samples, dict]:
    """Columns and description written by :func:`save_samples`, checked.

    Raises:
        ReplayError: unreadable, damaged, of another version, or of another game than `game`.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            meta = json.loads(file["meta"].tobytes().decode())
            if not isinstance(meta, dict) or meta.get("format") != "azcaffe replay":
                raise ReplayError(f"{path}: not a replay file of azcaffe")
            if meta.get("version") not in READABLE:
                raise ReplayError(
                    f"{path}: replay format {meta.get('version')}, this program reads formats 1 to {VERSION}"
                )
            if (meta.get("game"), meta.get("history")) != (game.name, game.history):
                raise ReplayError(
                    f"{path}: holds games of {meta.get('game')} with {meta.get('history')} past boards, "
                    f"not of {game.name} with {game.history}"
                )
            columns = Samples(**{field.name: file[field.name] for field in fields(Samples)})
    except FileNotFoundError as problem:
        raise ReplayError(f"{path}: no such replay file") from problem
    except OSError as problem:
        raise ReplayError(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    except (
        ValueError,
        KeyError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        MemoryError,
        AttributeError,
    ) as problem:
        raise ReplayError(f"{path}: damaged or not a replay file ({problem})") from problem
    expected = meta.pop("sha256", None)
    like = empty_samples(game, 0)
    if meta["version"] == 1:
        like = replace(like, value=like.value.astype(np.int8))
    rows = columns.game_id.shape[0] if columns.game_id.ndim else -1
    for field in fields(columns):
        array, model = getattr(columns, field.name), getattr(like, field.name)
        if array.dtype != model.dtype or array.shape != (rows, *model.shape[1:]):
            raise ReplayError(f"{path}: damaged, column {field.name} is {array.dtype}{array.shape}")
    if _digest(columns, meta) != expected:
        raise ReplayError(f"{path}: damaged, its checksum does not fit its contents")
    return replace(columns, value=columns.value.astype(np.float32)), meta
