# SPDX-License-Identifier: AGPL-3.0-or-later
"""Files and folders that are there whole or not at all, whatever moment a kill, a power cut or a full disk picks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from azcaffe.errors import AzcaffeError


def write_atomically(path: str | os.PathLike[str], parts: Iterable[bytes]) -> Path:
    """Write `parts` to `path` by way of a temporary file beside it: there is the old file or the new one, never half.

    Raises:
        AzcaffeError: the folder cannot be written, the disk is full.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        put_in_place(Path(temporary), path)
        temporary = None
    except OSError as error:
        raise AzcaffeError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
    return path


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename `temporary`, a file or a folder of files, to `path` in the same folder, once its content is on disk.

    Raises:
        OSError: something cannot be written.
    """
    if temporary.is_dir():
        for file in temporary.iterdir():
            _fsync(file)
    _fsync(temporary)
    os.replace(temporary, path)
    _fsync(path.parent)  # the rename itself is on disk


def clear_unfinished(folder: Path, pattern: str) -> None:
    """Remove what kills in the middle of :func:`write_atomically` left of files in `folder` called like `pattern`.

    Nobody else may be writing them.
    """
    for unfinished in folder.glob(f".{pattern}.????????"):
        unfinished.unlink()


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
