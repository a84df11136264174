# SPDX-License-Identifier: AGPL-3.0-or-later
"""Waiting for other processes: for as long as it takes, because a machine may be slow, and no longer."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 300.0
"""Seconds until something that takes one or two on an idle machine counts as never coming."""


def wait_for(
    condition: Callable[[], object], process: subprocess.Popen[str] | None = None, seconds: float = PATIENCE
) -> None:
    """Return once `condition()` holds; files that are not there yet do not. `process` must be running until then.

    `seconds` is for what we promise to happen so soon.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except OSError:
            pass
        assert process is None or process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def alive(pid: int | str) -> bool:
    """Running, and not a zombie that nobody has collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
