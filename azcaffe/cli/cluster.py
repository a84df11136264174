# SPDX-License-Identifier: AGPL-3.0-or-later
"""`--cluster` and `--actors`: where workers run, for every command that has some."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from azcaffe.cli.common import usable_cores
from azcaffe.cli.parser import UsageError, whole_number
from azcaffe.workers import MakePool, Pool, Setup

if TYPE_CHECKING:
    from azcaffe.cluster import Cluster

NONE = "none"
"""`--cluster none`: this machine's processes after all, where a run kept a cluster."""
MAX_ACTORS = 100_000


def add_cluster(group: argparse._ActionsContainer, actors: argparse._ActionsContainer | None = None) -> None:
    """The options; `actors`: another group for --actors."""
    group.add_argument("--cluster", metavar="WHERE", help="Ray actors: auto, local or HOST:PORT [processes here]")
    (actors or group).add_argument("--actors", type=whole_number, metavar="N", help="on the cluster [one a CPU of it]")


def check_cluster(cluster: str | None, actors: int | None, workers: int | None) -> str | None:
    """The cluster's address, None without one.

    Raises:
        UsageError: options that contradict each other.
        ClusterError: no such kind of address.
    """
    if cluster is None or cluster == NONE:
        if actors is not None:
            raise UsageError("--actors are a cluster's: give --cluster too, or --workers instead")
        return None
    from azcaffe.cluster import check_address

    if workers is not None:
        raise UsageError("--workers are this machine's processes: with --cluster it is --actors")
    if actors is not None and not 1 <= actors <= MAX_ACTORS:
        raise UsageError(f"--actors must be 1 … {MAX_ACTORS:,}, not {actors}")
    return check_address(cluster)


class Connection:
    """`with Connection() as connection`: the one cluster of a command, joined when it is first needed."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def actors(self, address: str, given: int | None) -> int:
        """How many actors: as given, else one for each CPU there."""
        if given is not None:
            return given
        return usable_cores() if address == "local" else max(1, self._join(address, 1).cpus())

    def pools(self, address: str, name: str) -> MakePool:
        """Makes the pools of the run called `name`."""

        def make(count: int, setup: Setup) -> Pool:
            from azcaffe.cluster import RayPool

            return RayPool(self._join(address, count), count, setup, name)

        return make

    def _join(self, address: str, cpus: int) -> Cluster:
        from azcaffe.cluster import attach

        if self._cluster is None:
            self._cluster = attach(address, cpus)
        return self._cluster
