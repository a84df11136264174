# SPDX-License-Identifier: AGPL-3.0-or-later
"""The connection to a Ray cluster."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from azcaffe.errors import AzcaffeError

NAMESPACE = "azcaffe"
LOCAL_STORE = 256 * 2**20
"""Bytes of the object store of a cluster made here: some generations of weights and the results on their way."""
STARTS = 3
"""Tries to start one: Ray allows 30 seconds for it, which a machine under load may need."""

_ADDRESS = re.compile(r"(auto|local|(?P<host>[^\s:/]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5}))")


class ClusterError(AzcaffeError):
    """No Ray, no cluster, or none that can be used."""


@dataclass(frozen=True)
class NodeInfo:
    """A node that is alive: `id` is Ray's, `name` what messages call it."""

    id: str
    name: str
    cpus: float


@dataclass(frozen=True)
class Cluster:
    """An open connection; `ray` is the module."""

    ray: Any
    address: str

    def nodes(self) -> list[NodeInfo]:
        """The nodes that are alive now."""
        found = []
        for node in self.ray.nodes():
            if node["Alive"]:
                name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, node {node['NodeID'][:8]})"
                found.append(NodeInfo(node["NodeID"], name, float(node["Resources"].get("CPU", 0))))
        return found

    def cpus(self) -> int:
        """CPUs of all nodes."""
        return int(sum(node.cpus for node in self.nodes()))

    def close(self) -> None:
        """Leave the cluster; one made by :func:`attach` ends."""
        with _own_signals():
            self.ray.shutdown()


def check_address(address: str) -> str:
    """`address` as it is.

    Raises:
        ClusterError: it is neither `auto`, `local` nor HOST:PORT.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or (match["port"] and not 0 < int(match["port"]) < 65536):
        raise ClusterError(f"--cluster is auto, local or HOST:PORT, not {address[:60]!r}")
    return address


def attach(address: str, cpus: int = 1) -> Cluster:
    """Join the cluster of `address`: `auto` (the one this machine is a node of), HOST:PORT, or `local`: one made now,
    of this machine alone, with `cpus` CPUs.

    Raises:
        ClusterError: there is no Ray, no such cluster, or one of another version of Ray or Python.
    """
    match = _ADDRESS.fullmatch(check_address(address))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster made here tells nobody about itself
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise ClusterError("--cluster needs Ray: pip install 'azcaffe[cluster]'") from None
    if match is not None and match["port"]:
        _reach(match["host"].strip("[]"), int(match["port"]))
    options: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options |= {"address": "local", "num_cpus": cpus, "object_store_memory": LOCAL_STORE}
        options |= {"include_dashboard": False}
    else:
        options["address"] = address
    for left in range(STARTS - 1, -1, -1):
        try:
            with _own_signals():
                ray.init(**options)
            break
        except ConnectionError as problem:
            raise ClusterError(_no_cluster(address, problem)) from None
        except Exception as problem:  # of another version, say; too slow a start raises a bare Exception
            with _own_signals(), contextlib.suppress(Exception):
                ray.shutdown()  # what had started already
            if left and "timed out during startup" in str(problem):
                continue
            text = " ".join(str(problem).split())
            raise ClusterError(f"the Ray cluster {address} cannot be used: {text[:400]}") from None
    _silence()
    return Cluster(ray, address)


def _no_cluster(address: str, problem: Exception) -> str:
    if address == "auto":
        return "this machine is no node of a Ray cluster: `ray start --head` makes it the first, or --cluster local"
    text = " ".join(str(problem).split())
    return f"no Ray cluster can be joined at {address}; this machine must be one of its nodes (ray start): {text[:300]}"


def _reach(host: str, port: int) -> None:
    """Fail at once where nobody listens; Ray would try for a long time."""
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as problem:
        raise ClusterError(f"no Ray cluster at {host}:{port}: {problem.strerror or problem}") from None


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray sets a handler of SIGTERM that exits at once: keep ours, which lets training write its checkpoint."""
    here = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if here else None
    try:
        yield
    finally:
        if here:
            signal.signal(signal.SIGTERM, before)


def _silence() -> None:
    """Keep Ray's own reports of dead workers (with pages of its logs) off the screen: the pool says what happened."""
    with contextlib.suppress(Exception):  # an inner part of Ray, which may go
        worker: Any = importlib.import_module("ray._private.worker")
        if callable(worker.print_to_stdstream):
            worker.print_to_stdstream = _nothing


def _nothing(*_: Any, **__: Any) -> None:
    pass
