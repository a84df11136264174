# SPDX-License-Identifier: AGPL-3.0-or-later
"""Checkpoints are whole or absent, and damage is named."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest

from azcaffe.checkpoint import (
    CheckpointError,
    latest_checkpoint,
    load_weights,
    read_checkpoint,
    save_weights,
    write_checkpoint,
)


def fill(path: Path) -> None:
    (path / "a.bin").write_bytes(bytes(range(256)))
    (path / "b.bin").write_bytes(b"")


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in range(5):
        write_checkpoint(tmp_path, fill, {"step": step})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint-000004", "checkpoint-000005"]
    found = latest_checkpoint(tmp_path)
    assert (found.state, found.damaged) == ({"step": 4}, ())


@pytest.mark.parametrize("name", ["a.bin", "manifest.json"])
@pytest.mark.parametrize("harm", ["half", "gone", "changed", "empty"])
def test_damage_is_named_and_the_previous_one_used(tmp_path: Path, name: str, harm: str) -> None:
    write_checkpoint(tmp_path, fill, {"step": 1})
    victim = write_checkpoint(tmp_path, fill, {"step": 2}) / name
    data = victim.read_bytes()
    if harm == "gone":
        victim.unlink()
    else:
        victim.write_bytes({"half": data[: len(data) // 2], "changed": b"\xff" + data[1:], "empty": b""}[harm])
    found = latest_checkpoint(tmp_path)
    assert found.state == {"step": 1}
    assert len(found.damaged) == 1 and name in found.damaged[0]


def test_none_whole_is_an_error_not_an_empty_start(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint there"):
        latest_checkpoint(tmp_path)
    (write_checkpoint(tmp_path, fill, {}) / "a.bin").unlink()
    with pytest.raises(CheckpointError, match=r"no checkpoint is whole: .*a\.bin"):
        latest_checkpoint(tmp_path)


def test_a_failed_write_leaves_the_previous_one(tmp_path: Path) -> None:
    first = write_checkpoint(tmp_path, fill, {"step": 1})

    def full_disk(path: Path) -> None:
        fill(path)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CheckpointError, match="No space left on device; the previous one is kept"):
        write_checkpoint(tmp_path, full_disk, {"step": 2})
    assert list(tmp_path.iterdir()) == [first]


def test_what_a_killed_writer_leaves_is_ignored_and_cleared(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, fill, {"step": 1})
    (tmp_path / "writing-000002.tmp").mkdir()
    (tmp_path / "writing-000002.tmp" / "a.bin").write_bytes(b"half")
    assert latest_checkpoint(tmp_path).state == {"step": 1}
    write_checkpoint(tmp_path, fill, {"step": 2})
    assert not list(tmp_path.glob("*.tmp"))


def test_another_version_and_a_path_outside_are_refused(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, fill, {})
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "version": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        read_checkpoint(path)
    (path / "manifest.json").write_text(json.dumps({**manifest, "files": {"../../etc/passwd": {}}}))
    with pytest.raises(CheckpointError, match="names"):
        read_checkpoint(path)
    (path / "manifest.json").write_text("[]")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        read_checkpoint(path)


def test_weights_come_back_bit_for_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {
        "a/b": [rng.normal(size=(3, 2, 1, 1)).astype(np.float32), np.float32([1e-38, 0.1])],
        "none": [],
        "c": [np.zeros(())],
    }
    save_weights(tmp_path / "w.npz", weights)
    loaded = load_weights(tmp_path / "w.npz")
    assert list(loaded) == list(weights)
    for name, blobs in weights.items():
        assert [b.tobytes() for b in loaded[name]] == [b.tobytes() for b in blobs]
        assert [b.shape for b in loaded[name]] == [b.shape for b in blobs]
