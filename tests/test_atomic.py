# SPDX-License-Identifier: AGPL-3.0-or-later
"""Whole files or none: what a failure in the middle of a write leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from azcaffe.atomic import clear_unfinished, put_in_place, write_atomically
from azcaffe.errors import AzcaffeError


def parts_that_end_badly(error: BaseException) -> Iterator[bytes]:
    yield b"the first half"
    raise error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "Ctrl-C"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = write_atomically(tmp_path / "new" / "file", [b"old"])  # the folder is made
    told = AzcaffeError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(told) as caught:
        write_atomically(path, parts_that_end_badly(error))
    if told is AzcaffeError:
        assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_the_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    path = write_atomically(tmp_path / "atomic", [b"one", b"two"])
    assert path.read_bytes() == b"onetwo"
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_a_kill_left_is_cleared_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed:  # a killed process neither renames nor cleans up
        killed.setattr(os, "replace", lambda *_: 1 / 0)
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(ZeroDivisionError):
            write_atomically(tmp_path / "net_iter_50.caffemodel", [b"half"])
    others = {tmp_path / name for name in ("net_iter_40.caffemodel", ".hidden", ".log.csv.abcdefgh")}
    for path in others:
        path.touch()
    assert len(list(tmp_path.iterdir())) == 4
    clear_unfinished(tmp_path, "*.caffemodel")
    assert set(tmp_path.iterdir()) == others


def test_a_folder_and_its_files_are_on_disk_before_it_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "writing").mkdir()
    (tmp_path / "writing" / "a").write_bytes(b"1")
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def note_replace(old: Path, new: Path) -> None:
        done.append(f"{old.name} -> {new.name}")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    put_in_place(tmp_path / "writing", tmp_path / "whole")
    assert done == ["a", "writing", "writing -> whole", tmp_path.name]
    assert (tmp_path / "whole" / "a").read_bytes() == b"1"
