# SPDX-License-Identifier: AGPL-3.0-or-later
"""Rules of the games, and nothing else: see :mod:`azcaffe.games.base` for what a game promises."""

from azcaffe.games.base import Game, State, Symmetry, concatenate
from azcaffe.games.registry import make_game, parse_game

__all__ = ["Game", "State", "Symmetry", "concatenate", "make_game", "parse_game"]
