# SPDX-License-Identifier: AGPL-3.0-or-later
"""Where tests find the published files, and a cache folder of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# A shell's background job ignores Ctrl-C, and so would every program that the tests start: tests send it on purpose.
signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared"


@pytest.fixture(scope="session")
def original_assets() -> Path:
    """The folder with the two published caffemodels: AZCAFFE_ORIGINAL_ASSETS, ../shared/original, or fetch-models."""
    named = os.environ.get("AZCAFFE_ORIGINAL_ASSETS")
    for folder in [Path(named)] if named else [SHARED / "original", REPOSITORY / "models" / "original"]:
        if (folder / "net_tic_tac_6_4_2_res_block.caffemodel").is_file():
            return folder
    pytest.skip("the published caffemodels are not here: azcaffe fetch-models, or AZCAFFE_ORIGINAL_ASSETS=FOLDER")


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder with the original program's own outputs (`ticfour_6x6.jsonl`), beside the published caffemodels."""
    named = os.environ.get("AZCAFFE_ORIGINAL_ASSETS")
    for folder in [Path(named).resolve().parent / "golden"] if named else [SHARED / "golden"]:
        if (folder / "ticfour_6x6.jsonl").is_file():
            return folder
    pytest.skip("the original program's outputs (ticfour_6x6.jsonl) are not here: they lie in ../shared/golden")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep what is remembered about opened nets out of the user's cache, and the tests independent of it."""
    before = os.environ.get("XDG_CACHE_HOME")
    folder = tmp_path_factory.mktemp("cache")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    yield folder
    os.environ.pop("XDG_CACHE_HOME")
    if before is not None:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)
