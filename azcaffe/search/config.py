# SPDX-License-Identifier: AGPL-3.0-or-later
"""What a search may do: one frozen record, checked when made."""

from __future__ import annotations

import math
from dataclasses import dataclass

from azcaffe.errors import ConfigError

VARIANTS = ("corrected", "original")
ROOTS = ("puct", "gumbel")
MAX_SIMULATIONS = 10_000_000


@dataclass(frozen=True)
class SearchConfig:
    """Settings of one tree search; the defaults are the published ones, with no root noise.

    Attributes:
        simulations: playouts a move, 1 … 10,000,000; None leaves `time_ms` as the only limit.
        time_ms: milliseconds a move, > 0, or None; where both are given the first one reached ends the search, but
            every tree gets at least one playout.
        c_puct: weight of the prior against the mean value, finite, ≥ 0.
        variant: `corrected`, or `original` for the published program's sign error (see :mod:`azcaffe.search`).
        noise_alpha: parameter of the Dirichlet noise at the root, > 0 (Silver et al. 2017, "Methods": 0.03 for Go,
            about 10 / number of legal moves).
        noise_epsilon: share of that noise in the root's priors, 0 … 1; 0 draws none.
        fpu_reduction: first-play urgency: an unvisited child counts as its parent's mean value less this times
            sqrt(prior mass already visited), as in Leela Chess Zero; None is the published rule, an unvisited
            child counts as 0.
        root: `puct`, or `gumbel` (Danihelka et al. 2022) to choose the root's moves by sequential halving.
        gumbel_considered: how many root moves `gumbel` considers, ≥ 1.
    """

    simulations: int | None = 400
    time_ms: float | None = None
    c_puct: float = 3.0
    variant: str = "corrected"
    noise_alpha: float = 0.3
    noise_epsilon: float = 0.0
    fpu_reduction: float | None = None
    root: str = "puct"
    gumbel_considered: int = 16

    def __post_init__(self) -> None:
        if self.simulations is None and self.time_ms is None:
            raise ConfigError("a search needs a limit: simulations, time_ms, or both")
        if self.simulations is not None and not 1 <= self.simulations <= MAX_SIMULATIONS:
            raise ConfigError(f"simulations must be 1 … {MAX_SIMULATIONS:,}, not {self.simulations}")
        if self.time_ms is not None and not (math.isfinite(self.time_ms) and self.time_ms > 0):
            raise ConfigError(f"time_ms must be a number above 0, not {self.time_ms}")
        if not (math.isfinite(self.c_puct) and self.c_puct >= 0):
            raise ConfigError(f"c_puct must be a number of at least 0, not {self.c_puct}")
        if self.variant not in VARIANTS:
            raise ConfigError(f"search must be {' or '.join(VARIANTS)}, not {self.variant!r}")
        if not (math.isfinite(self.noise_alpha) and self.noise_alpha > 0):
            raise ConfigError(f"alpha must be a number above 0, not {self.noise_alpha}")
        if not 0 <= self.noise_epsilon <= 1:
            raise ConfigError(f"epsilon must be 0 … 1, not {self.noise_epsilon}")
        if self.fpu_reduction is not None and not 0 <= self.fpu_reduction <= 2:
            raise ConfigError(f"fpu_reduction must be 0 … 2, not {self.fpu_reduction}")
        if self.root not in ROOTS:
            raise ConfigError(f"root must be {' or '.join(ROOTS)}, not {self.root!r}")
        if self.root == "gumbel" and self.simulations is None:
            raise ConfigError("root gumbel plans its visits ahead: give simulations, with time_ms or without")
        if self.gumbel_considered < 1:
            raise ConfigError(f"gumbel_considered must be at least 1, not {self.gumbel_considered}")
