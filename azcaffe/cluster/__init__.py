# SPDX-License-Identifier: AGPL-3.0-or-later
"""Self-play and matches on the nodes of a Ray cluster instead of this machine's processes.

:class:`RayPool` is another :class:`azcaffe.workers.Pool`: the trainer and the arena do not know which one they have.
Weights and files travel by Ray's object store, once a node; results come back in compressed batches when the trainer
asks for them. Ray is imported when :func:`attach` is called, not before.
"""

from azcaffe.cluster.pool import RayPool
from azcaffe.cluster.session import Cluster, ClusterError, attach, check_address

__all__ = ["Cluster", "ClusterError", "RayPool", "attach", "check_address"]
