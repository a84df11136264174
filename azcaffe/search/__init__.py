# SPDX-License-Identifier: AGPL-3.0-or-later
"""Monte Carlo tree search over many games in lockstep; NumPy only.

The sign convention, once for all of it
---------------------------------------
An evaluator's value is the expected result for the **mover**, the player to move in the position evaluated: +1 it
wins, 0 draw, -1 it loses. A playout's value travels up as **player 1 sees it**; W and Q of an edge are for the mover
of the node the edge leaves. So a value changes sides where the mover changes, not by ply (a game may let a player
pass), in one line of :mod:`azcaffe.search.backup`.

Three plies of an example. Player 1 moves at the root, plays a; player -1 answers b; player 1 plays c; in the position
after c, player -1 is to move, and the evaluator says 0.6: player -1 likes it.

    position   mover   edge   as player 1 sees it   added to the edge's W
    root         1      a      -0.6                  -0.6 *  1 = -0.6    bad for player 1
    after a     -1      b      -0.6                  -0.6 * -1 = +0.6    good for player -1
    after b      1      c      -0.6                  -0.6 *  1 = -0.6    bad for player 1
    after c     -1      -      0.6 * -1 = -0.6       (the leaf)

The published program takes the leaf's 0.6 for player 1's own value, so the same playout would add +0.6, -0.6, +0.6;
`SearchConfig(variant="original")` does that, to reproduce its results. Ended games were right there, and are the same
here: their value is the winner, 1, 0 or -1, which is player 1's view already.
"""

from azcaffe.search.config import SearchConfig
from azcaffe.search.engine import Search, SearchResult, principal_variation
from azcaffe.search.evaluators import CachedEvaluator, RolloutEvaluator, UniformEvaluator
from azcaffe.search.expand import Evaluate, masked_priors

__all__ = [
    "CachedEvaluator",
    "Evaluate",
    "RolloutEvaluator",
    "Search",
    "SearchConfig",
    "SearchResult",
    "UniformEvaluator",
    "masked_priors",
    "principal_variation",
]
