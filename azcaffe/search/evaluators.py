# SPDX-License-Identifier: AGPL-3.0-or-later
"""Evaluators that need no net, and the cache that stands before one that does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import ConfigError
from azcaffe.games.base import Game, State
from azcaffe.search.expand import Evaluate

Priors = NDArray[np.float32]
Values = NDArray[np.float32]


class UniformEvaluator:
    """Knows nothing: equal priors, value 0."""

    def __init__(self, game: Game) -> None:
        self._num_actions = game.num_actions

    def __call__(self, states: State, slots: NDArray[np.intp]) -> tuple[Priors, Values]:
        count = len(states)
        return np.full((count, self._num_actions), 1 / self._num_actions, np.float32), np.zeros(count, np.float32)


class RolloutEvaluator:
    """Equal priors; the value is the result of one game of random moves from the position.

    With it the engine is plain Monte Carlo tree search. Each slot draws from the generator that the search was reset
    with, so a game's roll-outs do not depend on its neighbours.
    """

    BLOCK = 64
    """Roll-outs whose random numbers are drawn at once: a generator's call costs more than its numbers."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._rngs: dict[int, np.random.Generator] = {}
        self._blocks = np.empty((0, self.BLOCK, game.rollout_draws))
        self._used = np.empty(0, np.intp)

    def seed(self, slots: NDArray[np.intp], rngs: Sequence[np.random.Generator]) -> None:
        """From now on `slots` (n,) draw from `rngs`; called by :meth:`azcaffe.search.Search.reset`."""
        missing = int(max(slots, default=-1)) + 1 - len(self._used)
        if missing > 0:
            self._blocks = np.concatenate([self._blocks, np.empty((missing, *self._blocks.shape[1:]))])
            self._used = np.concatenate([self._used, np.zeros(missing, np.intp)])
        self._used[slots] = self.BLOCK
        self._rngs.update(zip(map(int, slots), rngs, strict=True))

    def __call__(self, states: State, slots: NDArray[np.intp]) -> tuple[Priors, Values]:
        for slot in slots[self._used[slots] == self.BLOCK]:
            self._blocks[slot] = self._rngs[int(slot)].random(self._blocks.shape[1:])
            self._used[slot] = 0
        uniforms = self._blocks[slots, self._used[slots]]
        self._used[slots] += 1
        winner = self._game.rollout(states, uniforms)
        num_actions = self._game.num_actions
        priors = np.full((len(states), num_actions), 1 / num_actions, np.float32)
        return priors, (winner * states.to_move).astype(np.float32)


class CachedEvaluator:
    """Remembers evaluations by position, and asks only once for positions that a batch holds twice.

    Not for :class:`RolloutEvaluator`, whose answer is chance. Whoever changes the net's weights calls :meth:`clear`.

    Attributes:
        hits: positions answered without the net, duplicates in a batch included.
        misses: positions that the net was asked for.
    """

    def __init__(
        self, evaluate: Evaluate, game: Game, capacity: int = 200_000, *, deduplicate: bool = True,
        fold_symmetries: bool = False,
    ) -> None:  # fmt: skip
        """`capacity` positions are kept, the oldest making room (0: none); about 4 A + 250 bytes each.

        `fold_symmetries` evaluates one image for all symmetric positions, which raises hits and changes results
        (a net is not symmetric).

        Raises:
            ConfigError: a negative capacity.
        """
        if capacity < 0:
            raise ConfigError(f"cache capacity must be at least 0, not {capacity}")
        self.hits = 0
        self.misses = 0
        self._evaluate = evaluate
        self._game = game
        self._deduplicate = deduplicate
        self._symmetries = game.symmetries() if fold_symmetries else ()
        self._capacity = capacity
        self._priors = np.zeros((capacity, game.num_actions), np.float32)
        self._values = np.zeros(capacity, np.float32)
        self._place_of: dict[bytes, int] = {}
        self._key_at: list[bytes | None] = [None] * capacity
        self._next = 0

    def seed(self, slots: NDArray[np.intp], rngs: Sequence[np.random.Generator]) -> None:
        """Hand the games' streams on to an evaluator that wants them."""
        inner = getattr(self._evaluate, "seed", None)
        if inner is not None:
            inner(slots, rngs)

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._place_of.clear()
        self._key_at = [None] * self._capacity
        self._next = 0

    @property
    def hit_rate(self) -> float:
        """hits / (hits + misses), 0 before the first."""
        return self.hits / max(1, self.hits + self.misses)

    def __call__(self, states: State, slots: NDArray[np.intp]) -> tuple[Priors, Values]:
        if self._symmetries:
            return self._folded(states, slots)
        return self._look_up(states, slots, self._game.keys(states))

    def _look_up(self, states: State, slots: NDArray[np.intp], keys: list[bytes]) -> tuple[Priors, Values]:
        find = self._place_of.get
        places = np.array([find(key, -1) for key in keys], np.intp)
        unknown = (places < 0).nonzero()[0]
        if not len(unknown):
            self.hits += len(keys)
            return self._priors.take(places, axis=0), self._values.take(places)
        asked, source = unknown, np.arange(len(unknown))
        if self._deduplicate and len(unknown) > 1:
            first: dict[bytes, int] = {}
            source = np.array([first.setdefault(keys[row], len(first)) for row in unknown], np.intp)
            if len(first) < len(unknown):
                asked = unknown[np.unique(source, return_index=True)[1]]
        fresh = states if len(asked) == len(keys) else states.take(asked)
        new_priors, new_values = self._evaluate(fresh, slots[asked])
        self.misses += len(asked)
        self.hits += len(keys) - len(asked)
        if len(asked) == len(keys):
            priors, values = new_priors, new_values
        else:
            priors = np.empty((len(keys), new_priors.shape[1]), np.float32)
            values = np.empty(len(keys), np.float32)
            known = (places >= 0).nonzero()[0]
            priors[known] = self._priors.take(places[known], axis=0)
            values[known] = self._values.take(places[known])
            priors[unknown] = new_priors.take(source, axis=0)
            values[unknown] = new_values.take(source)
        self._remember([keys[row] for row in asked], new_priors, new_values)
        return priors, values

    def _remember(self, keys: list[bytes], priors: Priors, values: Values) -> None:
        count = min(len(keys), self._capacity)
        if not count:
            return
        places = (self._next + np.arange(count)) % self._capacity
        self._next = int(places[-1] + 1) % self._capacity
        for place, key in zip(places.tolist(), keys, strict=False):
            old = self._key_at[place]
            if old is not None and self._place_of.get(old) == place:
                del self._place_of[old]
            self._key_at[place] = key
            self._place_of[key] = place
        self._priors[places] = priors[:count]
        self._values[places] = values[:count]

    def _folded(self, states: State, slots: NDArray[np.intp]) -> tuple[Priors, Values]:
        """Look every position up by the least of its images, and turn the priors back."""
        images = [
            State(states.board[:, s.cells], states.to_move, states.over, states.winner, states.past[:, :, s.cells])
            for s in self._symmetries
        ]
        keys = [self._game.keys(image) for image in images]
        chosen = np.array([min(range(len(keys)), key=lambda s: keys[s][row]) for row in range(len(states))], np.intp)
        boards = np.stack([image.board for image in images])
        pasts = np.stack([image.past for image in images])
        rows = np.arange(len(states))
        folded = State(boards[chosen, rows], states.to_move, states.over, states.winner, pasts[chosen, rows])
        priors, values = self._look_up(folded, slots, [keys[s][row] for row, s in enumerate(chosen)])
        back = np.stack([np.argsort(s.actions) for s in self._symmetries])
        return np.take_along_axis(priors, back[chosen], axis=1), values
