# SPDX-License-Identifier: AGPL-3.0-or-later
"""Who can sit at a board: search, a net's raw policy, random moves. People sit in :mod:`azcaffe.cli.console`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import Game, State
from azcaffe.search import Evaluate, Search, SearchConfig, SearchResult, masked_priors

Slots = NDArray[np.intp]
Actions = NDArray[np.intp]
Generators = Sequence[np.random.Generator]


class StopMatch(Exception):
    """A player leaves the table: the match ends, finished games count."""


class Player(Protocol):
    """Plays many games side by side, each in a slot of its own, numbered from 0.

    Attributes:
        name: what tables call it.
        playouts: made so far.
        seconds: spent choosing so far.
    """

    name: str
    playouts: int
    seconds: float

    def start(self, slots: Slots, states: State, rngs: Generators) -> None:
        """New games begin at `states` (n) in `slots` (n,); all chance of a game comes from its generator."""

    def choose(self, slots: Slots, states: State) -> Actions:
        """A legal move (n,) for each of `states` (n), all of them this player's turn.

        Raises:
            StopMatch: the player leaves.
        """

    def observe(self, slots: Slots, actions: Actions) -> None:
        """`actions` (n,), own and the opponent's, have been played in games that go on."""


class SearchPlayer:
    """Plays the most visited move of a tree search without noise, and keeps the tree from move to move.

    Attributes:
        search: the trees, one a slot.
        last: what the latest search found, for its slots in order.
    """

    def __init__(self, name: str, game: Game, evaluate: Evaluate, config: SearchConfig, slots: int) -> None:
        self.name = name
        self.playouts = 0
        self.seconds = 0.0
        self.search = Search(game, evaluate, config, slots)
        self.last: SearchResult | None = None

    def start(self, slots: Slots, states: State, rngs: Generators) -> None:
        self.search.reset(slots, states, rngs)

    def choose(self, slots: Slots, states: State) -> Actions:
        began = time.perf_counter()
        self.last = self.search.run(slots, noise=False)
        self.seconds += time.perf_counter() - began
        self.playouts += self.last.playouts
        return self.last.selected

    def observe(self, slots: Slots, actions: Actions) -> None:
        self.search.advance(slots, actions)


class RawPolicyPlayer:
    """Plays the legal move that the net likes most, ties to the lowest; no search."""

    def __init__(self, name: str, game: Game, evaluate: Evaluate) -> None:
        self.name = name
        self.playouts = 0
        self.seconds = 0.0
        self._game = game
        self._evaluate = evaluate

    def start(self, slots: Slots, states: State, rngs: Generators) -> None:
        """Nothing to prepare."""

    def choose(self, slots: Slots, states: State) -> Actions:
        began = time.perf_counter()
        priors, _ = self._evaluate(states, slots)
        best = masked_priors(priors, self._game.legal(states)).argmax(axis=1)
        self.seconds += time.perf_counter() - began
        return best

    def observe(self, slots: Slots, actions: Actions) -> None:
        """Nothing to remember."""


class RandomPlayer:
    """Plays every legal move with the same probability."""

    def __init__(self, game: Game, name: str = "random") -> None:
        self.name = name
        self.playouts = 0
        self.seconds = 0.0
        self._game = game
        self._rngs: dict[int, np.random.Generator] = {}

    def start(self, slots: Slots, states: State, rngs: Generators) -> None:
        self._rngs.update(zip(map(int, slots), rngs, strict=True))

    def choose(self, slots: Slots, states: State) -> Actions:
        legal = self._game.legal(states)
        moves = [self._rngs[int(slot)].choice(row.nonzero()[0]) for slot, row in zip(slots, legal, strict=True)]
        return np.array(moves, np.intp)

    def observe(self, slots: Slots, actions: Actions) -> None:
        """Nothing to remember."""
