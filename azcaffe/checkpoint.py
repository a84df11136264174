# SPDX-License-Identifier: AGPL-3.0-or-later
"""Checkpoints: folders that are there whole or not at all.

A checkpoint is written under a temporary name, every file and the folder are fsynced, then it is renamed;
`manifest.json` holds the size and SHA-256 of every other file. So a run killed at any moment, or a full disk, leaves
the previous one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from azcaffe.atomic import put_in_place
from azcaffe.errors import AzcaffeError

VERSION = 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"checkpoint-(\d{6,})")


class CheckpointError(AzcaffeError):
    """A checkpoint that cannot be written, or none that can be read."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that passed its checks.

    Attributes:
        path: its folder.
        state: what :func:`write_checkpoint` was given.
        damaged: newer checkpoints that could not be used, one line each.
    """

    path: Path
    state: dict[str, Any]
    damaged: tuple[str, ...] = ()


def write_checkpoint(folder: Path, fill: Callable[[Path], None], state: dict[str, Any], keep: int = 2) -> Path:
    """Write a new checkpoint into `folder` and remove all but the newest `keep`.

    `fill(path)` writes the files; `state` is plain JSON.

    Raises:
        CheckpointError: it could not be written; earlier checkpoints are untouched.
    """
    number = max((n for n, _ in _numbered(folder)), default=0) + 1
    temporary = folder / f"writing-{number:06d}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left_over in folder.glob("writing-*.tmp"):
            shutil.rmtree(left_over, ignore_errors=True)
        temporary.mkdir()
        fill(temporary)
        files = {path.name: _fingerprint(path) for path in sorted(temporary.iterdir())}
        manifest = {"format": "azcaffe checkpoint", "version": VERSION, "files": files, "state": state}
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        final = folder / f"checkpoint-{number:06d}"
        put_in_place(temporary, final)
    except OSError as problem:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(
            f"{folder}: no checkpoint could be written: {problem.strerror or problem}; the previous one is kept"
        ) from problem
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for _, old in _numbered(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in folder `path`, every file checked against the manifest.

    Raises:
        CheckpointError: what is damaged, or of another version.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(manifest, dict) or manifest.get("format") != "azcaffe checkpoint":
            raise CheckpointError(f"{path}: not a checkpoint of azcaffe")
        if manifest.get("version") != VERSION:
            raise CheckpointError(
                f"{path}: checkpoint format {manifest.get('version')}, this program reads format {VERSION}"
            )
        for name, expected in manifest["files"].items():
            if Path(name).name != name:
                raise CheckpointError(f"{path}: damaged, its manifest names {name!r}")
            if _fingerprint(path / name) != expected:
                raise CheckpointError(f"{path / name}: damaged, its size or checksum does not fit the manifest")
        return Checkpoint(path, manifest["state"])
    except OSError as problem:
        raise CheckpointError(f"{problem.filename or path}: {problem.strerror or problem}") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CheckpointError(f"{path / MANIFEST}: damaged ({problem})") from problem


def latest_checkpoint(folder: Path) -> Checkpoint:
    """The newest checkpoint in `folder` that is whole; those passed over are named in `damaged`.

    Raises:
        CheckpointError: there is none, or none is whole.
    """
    damaged: list[str] = []
    for _, path in reversed(_numbered(folder)):
        try:
            found = read_checkpoint(path)
            return Checkpoint(found.path, found.state, tuple(damaged))
        except CheckpointError as problem:
            damaged.append(str(problem))
    if damaged:
        raise CheckpointError("no checkpoint is whole: " + "; ".join(damaged))
    raise CheckpointError(f"{folder}: no checkpoint there")


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """(number, path) of the finished checkpoints, oldest first."""
    if not folder.is_dir():
        return []
    matches = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match.group(1)), path) for match, path in matches if match)


def _fingerprint(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def save_weights(path: Path, weights: Mapping[str, Sequence[np.ndarray]]) -> None:
    """Write a net's blobs, by layer, exactly as they are, as an .npz of plain arrays."""
    layers = [[name, len(blobs)] for name, blobs in weights.items()]
    flat: dict[str, Any] = {}
    for blobs in weights.values():
        flat |= {str(len(flat) + i): blob for i, blob in enumerate(blobs)}
    with open(path, "wb") as file:
        names = np.frombuffer(json.dumps(layers).encode(), np.uint8)
        np.savez(file, layers=names, **flat)


def load_weights(path: Path) -> dict[str, list[np.ndarray]]:
    """What :func:`save_weights` wrote."""
    with np.load(path, allow_pickle=False) as file:
        blobs = iter(range(len(file.files) - 1))
        layers = json.loads(file["layers"].tobytes())
        return {name: [file[str(next(blobs))] for _ in range(count)] for name, count in layers}
