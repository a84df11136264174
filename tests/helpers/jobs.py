# SPDX-License-Identifier: AGPL-3.0-or-later
"""What test worker processes run: importable, because spawned processes import it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from azcaffe.errors import AzcaffeError


def count_setup() -> Any:
    """Handler of (name, argument) jobs."""
    return _count


def broken_setup() -> Any:
    raise AzcaffeError("the net does not fit")


def dying_setup() -> Any:
    os._exit(7)


def fine() -> None:
    """A check that every node of a cluster passes."""


def _count(job: tuple[str, Any]) -> Iterator[Any]:
    name, argument = job
    if name == "count":
        yield from range(argument)
    elif name == "slow":
        for i in range(argument):
            time.sleep(0.05)
            yield i
    elif name == "halting":  # half of it, then the rest once there is such a file
        for i in range(10):
            while i == 5 and not argument.exists():
                time.sleep(0.01)
            yield i
    elif name == "pid":
        yield os.getpid()
    elif name == "environment":
        yield os.environ.get(argument)
    elif name == "die":
        yield 1
        os._exit(3)
    elif name == "refuse":
        raise AzcaffeError(argument)
    elif name == "bug":
        raise KeyError(argument)
    elif name == "forever":
        while True:
            time.sleep(1)
