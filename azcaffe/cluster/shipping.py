# SPDX-License-Identifier: AGPL-3.0-or-later
"""What travels between trainer and actors: jobs without the heavy parts that they share, and results in compact form.

A job is pickled with its weights and files left out; those lie in the object store, put there once however many jobs
use them, and dropped when the last of these is done. A file that an actor's node does not have is written there.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from azcaffe.atomic import write_atomically
from azcaffe.selfplay import PlayedGame, Samples

Key = tuple[str, str, str]
"""(`weights`, number, ``) or (`file`, digest, path at the trainer's)."""


@dataclass(frozen=True)
class Parcel:
    """A pickled value and the keys of what was left out of it."""

    content: bytes
    keys: tuple[Key, ...]


@dataclass
class _Shared:
    original: Any  # kept so that its id() stays its own
    reference: Any
    users: int = 0


class Store:
    """The trainer's side: packs values and keeps what they share in the object store."""

    def __init__(self, put: Callable[[Any], Any]) -> None:
        """`put` stores a value and returns the reference to it (`ray.put`)."""
        self._put = put
        self._shared: dict[Key, _Shared] = {}
        self._numbers: dict[int, str] = {}  # id of weights in use -> their number
        self.puts = 0

    def __len__(self) -> int:
        """Values in the object store."""
        return len(self._shared)

    def pack(self, value: Any) -> Parcel:
        """Pickle `value`; what it shares stays in the store until :meth:`release`."""
        buffer = io.BytesIO()
        packer = _Packer(buffer, self)
        packer.dump(value)
        for key in packer.keys:
            self._shared[key].users += 1
        return Parcel(buffer.getvalue(), tuple(packer.keys))

    def references(self, parcel: Parcel) -> dict[Key, Any]:
        """Where the parts left out of `parcel` are."""
        return {key: self._shared[key].reference for key in parcel.keys}

    def release(self, parcel: Parcel) -> None:
        """Nobody will unpack `parcel` any more."""
        for key in parcel.keys:
            shared = self._shared[key]
            shared.users -= 1
            if not shared.users:
                del self._shared[key]
                self._numbers.pop(id(shared.original), None)

    def share_weights(self, weights: Any) -> Key:
        """The key of these weights (the same object has the same key)."""
        if id(weights) not in self._numbers:
            self._numbers[id(weights)] = str(self.puts)
            self._add(("weights", str(self.puts), ""), weights, weights)
        return "weights", self._numbers[id(weights)], ""

    def share_file(self, path: Path) -> Key:
        """The key of a file's present content."""
        content = path.read_bytes()
        key = ("file", hashlib.sha256(content).hexdigest(), str(path.absolute()))
        if key not in self._shared:
            self._add(key, path, content)
        return key

    def _add(self, key: Key, original: Any, value: Any) -> None:
        self._shared[key] = _Shared(original, self._put(value))
        self.puts += 1


class _Packer(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, store: Store) -> None:
        super().__init__(buffer, protocol=5)
        self._store = store
        self.keys: dict[Key, None] = {}

    def persistent_id(self, value: Any) -> Key | None:
        if isinstance(value, dict) and _are_weights(value):
            key = self._store.share_weights(value)
        elif isinstance(value, Path) and value.is_file():
            key = self._store.share_file(value)
        else:
            return None
        self.keys[key] = None
        return key


def _are_weights(value: dict) -> bool:
    """Layer name -> blobs."""
    return bool(value) and all(
        isinstance(blobs, list) and blobs and all(isinstance(blob, np.ndarray) for blob in blobs)
        for blobs in value.values()
    )


class _Unpacker(pickle.Unpickler):
    def __init__(self, content: bytes, shared: Mapping[Key, Any], get: Callable[[Any], Any]) -> None:
        super().__init__(io.BytesIO(content))
        self._shared, self._get = shared, get

    def persistent_load(self, key: Key) -> Any:
        if key[0] == "weights":
            return self._get(self._shared[key])
        _, digest, original = key
        return local_copy(Path(original), digest, lambda: self._get(self._shared[key]))


def unpack(content: bytes, shared: Mapping[Key, Any], get: Callable[[Any], Any]) -> Any:
    """The actor's side: the value that :meth:`Store.pack` pickled; `get` fetches by reference (`ray.get`)."""
    return _Unpacker(content, shared, get).load()


def local_copy(original: Path, digest: str, fetch: Callable[[], bytes]) -> Path:
    """A file with this SHA-256: the original where this machine has it, else a copy by the same name."""
    folder = _copies()
    copy = folder / digest / original.name
    for path in (copy, original):
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() == digest:
                return path
        except OSError:
            continue
    return write_atomically(copy, [fetch()])


def _copies() -> Path:
    """This user's own folder for copied files; the system's rules for temporary files apply to it."""
    folder = Path(tempfile.gettempdir()) / f"azcaffe-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return Path(tempfile.mkdtemp(prefix="azcaffe-"))
    return folder


@dataclass(frozen=True)
class GameBatch:
    """n finished games with m samples in all, in columns.

    Attributes:
        ids, generations: (n,) number of each game and of the weights that played it.
        winners: (n,) int8.
        lengths, rows: (n,) moves and samples of each game.
        actions: all moves, one game after the other, in the smallest unsigned type.
        columns: board, past, to_move, visits, value of all samples.
    """

    ids: NDArray[np.int64]
    generations: NDArray[np.int32]
    winners: NDArray[np.int8]
    lengths: NDArray[np.int32]
    rows: NDArray[np.int32]
    actions: NDArray[np.unsignedinteger]
    columns: tuple[NDArray, ...]


COLUMNS = tuple(field.name for field in fields(Samples) if field.name not in ("game_id", "generation"))


def _join(games: Sequence[PlayedGame]) -> GameBatch:
    moves = [move for game in games for move in game.actions]
    return GameBatch(
        np.array([game.game_id for game in games], np.int64),
        np.array([game.samples.generation[0] if len(game.samples) else 0 for game in games], np.int32),
        np.array([game.winner for game in games], np.int8),
        np.array([len(game.actions) for game in games], np.int32),
        np.array([len(game.samples) for game in games], np.int32),
        np.array(moves, np.min_scalar_type(max(moves, default=0))),
        tuple(np.concatenate([getattr(game.samples, name) for game in games]) for name in COLUMNS),
    )


def _split(batch: GameBatch) -> Iterator[PlayedGame]:
    ends, move_ends = batch.rows.cumsum(), batch.lengths.cumsum()
    for i, game_id in enumerate(batch.ids.tolist()):
        rows = slice(ends[i] - batch.rows[i], ends[i])
        moves = batch.actions[move_ends[i] - batch.lengths[i] : move_ends[i]].tolist()
        columns = {name: column[rows] for name, column in zip(COLUMNS, batch.columns, strict=True)}
        columns["game_id"] = np.full(batch.rows[i], game_id, np.int64)
        columns["generation"] = np.full(batch.rows[i], batch.generations[i], np.int32)
        samples = Samples(**columns)
        yield PlayedGame(game_id, tuple(moves), int(batch.winners[i]), samples)


def pack_results(results: Sequence[Any]) -> bytes:
    """A job's results for the way back; games that follow each other become one :class:`GameBatch`."""
    packed: list[Any] = []
    games: list[PlayedGame] = []
    for result in [*results, None]:
        if isinstance(result, PlayedGame):
            games.append(result)
            continue
        if games:
            packed.append(_join(games))
            games = []
        packed.append(result)
    return zlib.compress(pickle.dumps(packed[:-1], protocol=5), 1)


def unpack_results(content: bytes) -> Iterator[Any]:
    """What :func:`pack_results` was given."""
    for value in pickle.loads(zlib.decompress(content)):
        if isinstance(value, GameBatch):
            yield from _split(value)
        else:
            yield value
