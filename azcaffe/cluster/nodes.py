# SPDX-License-Identifier: AGPL-3.0-or-later
"""Which nodes of a cluster can play, and how many actors each has room for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from azcaffe.cluster.session import Cluster, NodeInfo

CHECK_SECONDS = 180.0
"""A node that has not answered for so long is left out."""
SETTLE_SECONDS = 20.0
"""So long the first actors wait for all nodes to have answered."""


@dataclass
class _Node:
    info: NodeInfo
    call: Any  # its check, None once answered
    since: float
    fit: bool = False
    deaths: int = 0  # actors that died there before they were ready, in a row


class Nodes:
    """The nodes by Ray's id; those that cannot play are in `left_out`, id -> a line with the node's name."""

    def __init__(self, cluster: Cluster, cpus: float, check: Callable[[str], Any]) -> None:
        """`cpus`: an actor's; `check(id)` starts the check of a node and returns the reference of its answer."""
        self._cluster, self._cpus, self._check = cluster, cpus, check
        self._nodes: dict[str, _Node] = {}
        self._names: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        self._ever_worked = False
        self._began = time.monotonic()

    @property
    def calls(self) -> list[Any]:
        """References of the checks without answer."""
        return [node.call for node in self._nodes.values() if node.call is not None]

    @property
    def checking(self) -> bool:
        """Some node has not answered yet."""
        return any(node.call is not None for node in self._nodes.values())

    @property
    def hopeless(self) -> bool:
        """Every node has been left out and none ever played."""
        return bool(self.left_out) and not self._ever_worked and not self.checking and not self._fit()

    @property
    def settled(self) -> bool:
        """All nodes have answered, or have had time to: before that, actors would crowd on the quickest."""
        return not self.checking or time.monotonic() - self._began > SETTLE_SECONDS

    def name(self, node: str) -> str:
        """What messages call it."""
        return self._names.get(node, node[:8])

    def refresh(self) -> list[str]:
        """Notice nodes that came (their check starts) and went; lines to be told."""
        alive = {info.id: info for info in self._cluster.nodes()}
        lines = [f"{self.name(gone)} has left the cluster" for gone in self._nodes.keys() - alive.keys()]
        self._nodes = {id_: node for id_, node in self._nodes.items() if id_ in alive}
        now = time.monotonic()
        for id_, info in alive.items():
            if id_ not in self._names:
                self._names[id_] = info.name
                if info.cpus >= self._cpus:
                    self._nodes[id_] = _Node(info, self._check(id_), now)
        for id_, node in list(self._nodes.items()):
            if node.call is not None and now - node.since > CHECK_SECONDS:
                lines.append(self.leave_out(id_, f"no answer in {CHECK_SECONDS:.0f} s"))
        return [line for line in lines if line]

    def checked(self, call: Any) -> list[str]:
        """Take in the answer of a check; lines to be told."""
        ray = self._cluster.ray
        for id_, node in self._nodes.items():
            if node.call == call:
                try:
                    wrong = str(ray.get(call))
                except ray.exceptions.RayError as problem:
                    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
                    wrong = f"its check failed: {lines[-1][:300] if lines else type(problem).__name__}"
                node.call, node.fit = None, not wrong
                return [self.leave_out(id_, wrong)] if wrong else []
        return []

    def leave_out(self, node: str, reason: str) -> str:
        """Never use it; the line to be told, empty where it was told before."""
        if node in self._nodes:
            del self._nodes[node]
        if node in self.left_out:
            return ""
        self.left_out[node] = f"{self.name(node)} is left out: {reason}"
        return self.left_out[node]

    def works(self, node: str) -> None:
        """An actor got ready there."""
        self._ever_worked = True
        if node in self._nodes:
            self._nodes[node].deaths = 0

    def died(self, node: str) -> int:
        """An actor died there before it was ready; how many in a row now, 0 where the node itself has gone."""
        if node not in self._nodes:
            return 0
        self._nodes[node].deaths += 1
        return self._nodes[node].deaths

    def roomiest(self, taken: Iterable[str]) -> str | None:
        """The node with room for the most further actors; `taken` are the nodes of those there are. None: no room."""
        used = Counter(taken)
        room = {id_: int(node.info.cpus / self._cpus + 1e-9) - used[id_] for id_, node in self._fit().items()}
        best = max(room, key=lambda id_: (room[id_], id_), default=None)
        return best if best is not None and room[best] > 0 else None

    def _fit(self) -> dict[str, _Node]:
        return {id_: node for id_, node in self._nodes.items() if node.fit}
