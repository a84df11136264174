# SPDX-License-Identifier: AGPL-3.0-or-later
"""What runs on the nodes: a check of the node, and the actor that does jobs. Replies say what is wrong."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import azcaffe
from azcaffe.cluster.shipping import Key, pack_results, unpack
from azcaffe.errors import AzcaffeError
from azcaffe.network.runtime import load_caffe
from azcaffe.workers import Handler

Check = Callable[[], None]
"""Raises AzcaffeError where the node cannot play; must pickle."""


@dataclass(frozen=True)
class Reply:
    """How a call ended.

    Attributes:
        kind: `ready` (opened), `done`, `failed` (the user's mistake, or the node's lack) or `crashed` (a bug).
        text: of a failure: one line; of a bug: the traceback.
        results: of a job, by :func:`azcaffe.cluster.shipping.pack_results`.
        pid: the process.
    """

    kind: str
    text: str = ""
    results: bytes = b""
    pid: int = 0


def has_caffe() -> None:
    """The usual check."""
    load_caffe()


def check_node(check: Check, version: str) -> str:
    """Empty where the node can play with a trainer of this version of azcaffe, else what is wrong."""
    if azcaffe.__version__ != version:
        return f"it has azcaffe {azcaffe.__version__}, not {version}"
    try:
        check()
    except AzcaffeError as problem:
        return " ".join(str(problem).split())
    return ""


class JobActor:
    """Keeps a setup's handler (nets stay open) and does one job a call."""

    def __init__(self) -> None:
        self._handler: Handler | None = None

    def open(self, content: bytes, shared: Mapping[Key, Any]) -> Reply:
        """Make the handler."""
        try:
            self._handler = unpack(content, shared, _fetch)()
        except (AzcaffeError, ImportError, OSError) as problem:
            return Reply("failed", " ".join(str(problem).split()))
        except Exception:
            return Reply("crashed", traceback.format_exc())
        return Reply("ready", pid=os.getpid())

    def run(self, content: bytes, shared: Mapping[Key, Any]) -> Reply:
        """Do a job to its end."""
        assert self._handler is not None
        try:
            return Reply("done", results=pack_results(list(self._handler(unpack(content, shared, _fetch)))))
        except AzcaffeError as problem:
            return Reply("failed", " ".join(str(problem).split()))
        except Exception:
            return Reply("crashed", traceback.format_exc())


def _fetch(reference: Any) -> Any:
    import ray

    return ray.get(reference)
