# SPDX-License-Identifier: AGPL-3.0-or-later
"""Thousands of damaged files: the process never dies, never hangs, always loads or refuses.

AZCAFFE_FUZZ=N makes N mutations instead of 2,000; AZCAFFE_FUZZ_SEED=S other ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_damaged_files_load_or_are_refused(tmp_path: Path) -> None:
    total, first = int(os.environ.get("AZCAFFE_FUZZ", "2000")), int(os.environ.get("AZCAFFE_FUZZ_SEED", "0"))
    running = []
    for half in range(2):  # CI has two cores
        folder = tmp_path / str(half)
        folder.mkdir()
        command = [sys.executable, "-m", "tests.helpers.fuzz", str((total + 1) // 2), str(first + half), str(folder)]
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            running.append((folder, subprocess.Popen(command, cwd=REPOSITORY, stdout=out, stderr=err)))
    counts: dict[str, float] = {}
    for folder, process in running:
        code = process.wait()
        last = (folder / "case").read_text() if (folder / "case").exists() else "none"
        assert code == 0, f"exit code {code} at {last}: {(folder / 'err').read_text()[-2000:]}"
        for name, value in json.loads((folder / "out").read_text().splitlines()[-1]).items():
            counts[name] = max(counts.get(name, 0), value) if name == "longest" else counts.get(name, 0) + value
    print(counts)
    assert sum(value for name, value in counts.items() if name != "longest") >= total
    assert min(counts.values()) > 0
