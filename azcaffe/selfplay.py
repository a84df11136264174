# SPDX-License-Identifier: AGPL-3.0-or-later
"""Self-play: many games in lockstep, each turned into training samples.

A game draws everything (root noise, moves, roll-outs, search lengths) from one random stream of its own, made from the
seed and its number, so it does not matter which process plays it or when. The games of one call start together and none
replaces a finished one: with the evaluator's cache cleared first, what comes out is a function of weights, seed and
numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import ConfigError
from azcaffe.games.base import Game, State, concatenate
from azcaffe.games.rollout import random_step
from azcaffe.search import Evaluate, Search, SearchConfig, SearchResult

SELFPLAY_STREAM = 1
"""Second word of a self-play game's seed, so that other users of the run's seed draw other numbers."""

_LARGEST = np.iinfo(np.uint16).max


@dataclass(frozen=True)
class SelfPlayConfig:
    """How the moves of self-play are found and chosen; the defaults are the published ones.

    Attributes:
        temperature: moves are drawn in proportion to visits ** (1 / temperature), > 0.
        temperature_plies: after this many plies (those of a random opening not counted) the most visited move is
            played; None: never (as published).
        full_probability: share of the moves searched in full, 0 < p ≤ 1; the rest get `fast_simulations` playouts, no
            noise, and give no sample ("playout cap randomization", Wu 2019, "Accelerating Self-Play Learning in Go").
        fast_simulations: playouts of those other moves.
        opening_plies: each game begins with 0 … so many random moves (how many is random, too), ≥ 0, which give no
            sample: a net that only ever saw its own openings is lost after a stranger's. 0: none (as published).
        value_mix: share of the search's root value in the value target, 0 … 1, the rest is the game's result, which
            moves drawn by temperature blur; 0: the result alone (as published).
    """

    temperature: float = 1.0
    temperature_plies: int | None = None
    full_probability: float = 1.0
    fast_simulations: int = 50
    opening_plies: int = 0
    value_mix: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ConfigError(f"temperature must be a number above 0, not {self.temperature}")
        if self.temperature_plies is not None and self.temperature_plies < 0:
            raise ConfigError(f"temperature_plies must be at least 0, not {self.temperature_plies}")
        if not 0 < self.full_probability <= 1:
            raise ConfigError(f"full_probability must be above 0 and at most 1, not {self.full_probability}")
        if self.fast_simulations < 1:
            raise ConfigError(f"fast_simulations must be at least 1, not {self.fast_simulations}")
        if self.opening_plies < 0:
            raise ConfigError(f"opening_plies must be at least 0, not {self.opening_plies}")
        if not 0 <= self.value_mix <= 1:
            raise ConfigError(f"value_mix must be 0 … 1, not {self.value_mix}")


@dataclass(frozen=True, slots=True)
class Samples:
    """n positions to learn from, as named columns with leading axis n.

    Attributes:
        board: (n, cells) int8; games that bring their own planes: those planes, (n, C, H, W) float32.
        past: (n, K, cells) int8, the K boards before, newest first (K = 0 for games with their own planes).
        to_move: (n,) int8, the mover, 1 or -1.
        visits: (n, A) uint16, the policy target before it is divided by its sum: visit counts of the root's moves.
        value: (n,) float32, the value target for the mover of the position: the game's result (1 won, -1 lost, 0
            draw), mixed with the search's value where the run says so.
        game_id: (n,) int64, number of the game in its run.
        generation: (n,) int32, which weights played it.
    """

    board: NDArray
    past: NDArray[np.int8]
    to_move: NDArray[np.int8]
    visits: NDArray[np.uint16]
    value: NDArray[np.float32]
    game_id: NDArray[np.int64]
    generation: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.game_id)

    def take(self, rows: NDArray) -> Samples:
        """The samples at `rows` (m,), copied."""
        return Samples(*(getattr(self, field.name).take(rows, axis=0) for field in fields(self)))

    def put(self, rows: NDArray, other: Samples) -> None:
        """Overwrite `rows` (m,) with the m samples of `other`."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(other, field.name)

    def policy(self) -> NDArray[np.float32]:
        """(n, A) float32, each row summing to 1."""
        total = self.visits.sum(axis=1, dtype=np.uint32, keepdims=True)
        return (self.visits / total).astype(np.float32)


def join_samples(parts: Sequence[Samples]) -> Samples:
    """One after the other; at least one part."""
    return Samples(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Samples)))


def empty_samples(game: Game, rows: int) -> Samples:
    """`rows` samples of zeros in the shapes and dtypes of `game`."""
    state = game.initial(1)
    planes = game.planes(state)
    board, past = (state.board, state.past) if planes is None else (planes, np.zeros((1, 0, 1), np.int8))
    return Samples(
        np.zeros((rows, *board.shape[1:]), board.dtype),
        np.zeros((rows, *past.shape[1:]), np.int8),
        np.zeros(rows, np.int8),
        np.zeros((rows, game.num_actions), np.uint16),
        np.zeros(rows, np.float32),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int32),
    )


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """One finished game.

    Attributes:
        game_id: its number in the run.
        actions: the moves.
        winner: 1, -1, or 0 for a draw.
        samples: what it teaches, one row a searched position, in the order played.
    """

    game_id: int
    actions: tuple[int, ...]
    winner: int
    samples: Samples


def game_stream(seed: int, game_id: int) -> np.random.Generator:
    """The one source of chance of self-play game `game_id` of the run seeded with `seed`."""
    return np.random.default_rng([seed, SELFPLAY_STREAM, game_id])


def play_games(
    game: Game,
    evaluate: Evaluate,
    search_config: SearchConfig,
    config: SelfPlayConfig,
    seed: int,
    game_ids: Sequence[int],
    generation: int = 0,
    tick: Callable[[int], None] | None = None,
) -> Iterator[PlayedGame]:
    """Play the games numbered `game_ids` side by side; yields each as it ends.

    `search_config.noise_epsilon` is the root noise of full searches. `tick(playouts)`, where given, is called after
    every ply with the playouts just made.
    """
    rngs = [game_stream(seed, game_id) for game_id in game_ids]
    openings = [random_opening(game, config.opening_plies, rng) for rng in rngs]
    recorders = [
        _Recorder(game, game_id, generation, moves, config.value_mix)
        for game_id, (moves, _) in zip(game_ids, openings, strict=True)
    ]
    search = Search(game, evaluate, search_config, len(recorders))
    live: NDArray[np.integer] = np.arange(len(recorders))
    search.reset(live, concatenate([state for _, state in openings]), rngs)
    ply = 0
    while len(live):
        states = search.states(live)
        full = np.array([config.full_probability == 1 or rngs[i].random() < config.full_probability for i in live])
        simulations = np.where(full, search_config.simulations or 0, config.fast_simulations)
        if full.all():
            result = search.run(live)
        else:
            result = search.run(live, simulations, full)
        targets = _policy_targets(result, search_config)
        actions = _choose(result, search_config, config, ply, [rngs[i] for i in live])
        for row, slot in enumerate(live.tolist()):
            recorder, state = recorders[slot], states.take(np.array([row]))
            recorder.record(state, targets[row], float(result.value[row]), int(actions[row]), bool(full[row]))
        search.advance(live, actions)
        after = search.states(live)
        ply += 1
        if tick is not None:
            tick(result.playouts)
        for ended in np.flatnonzero(after.over):
            yield recorders[live[ended]].finish(int(after.winner[ended]))
        live = live[~after.over]


def random_opening(game: Game, plies: int, rng: np.random.Generator) -> tuple[list[int], State]:
    """0 … `plies` random moves (an even choice of how many) and the position (B = 1) they lead to; none ends the game.

    `plies` 0 draws nothing from `rng`.
    """
    state, moves = game.initial(1), []
    for _ in range(int(rng.integers(plies + 1)) if plies else 0):
        action, after = random_step(game, state, rng)
        if after.over[0]:
            break
        moves.append(action)
        state = after
    return moves, state


def _policy_targets(result: SearchResult, search_config: SearchConfig) -> NDArray[np.uint16]:
    """(n, A) uint16 in proportion to the policy target: visit counts, exactly as they are where 16 bits hold them."""
    if search_config.root == "gumbel":
        return np.rint(result.improved_policy * _LARGEST).astype(np.uint16)
    largest = result.visits.max(axis=1, keepdims=True)
    scale = np.where(largest > _LARGEST, _LARGEST / np.maximum(largest, 1), 1.0)
    return (result.visits * scale).astype(np.uint16)


def _choose(
    result: SearchResult, search_config: SearchConfig, config: SelfPlayConfig, ply: int, rngs: list[np.random.Generator]
) -> NDArray[np.intp]:
    """The moves (n,) to play: drawn by visits while it is warm, then the most visited one.

    Gumbel's move is played as the search returns it: its noise is the exploration (Danihelka et al. 2022, section 3).
    """
    if search_config.root == "gumbel" or (config.temperature_plies is not None and ply >= config.temperature_plies):
        return np.asarray(result.selected, np.intp)
    weights = result.visits.astype(np.float64)
    if config.temperature != 1.0:
        weights = (weights / weights.max(axis=1, keepdims=True)) ** (1 / config.temperature)
    cumulative = weights.cumsum(axis=1)
    draws = np.array([rng.random() for rng in rngs])
    return (cumulative > (draws * cumulative[:, -1])[:, None]).argmax(axis=1)


class _Recorder:
    """Collects the positions of one game until its result is known."""

    def __init__(self, game: Game, game_id: int, generation: int, opening: list[int], value_mix: float) -> None:
        self._game = game
        self._game_id = game_id
        self._generation = generation
        self._value_mix = value_mix
        self._rows = [empty_samples(game, 0)]
        self._actions = list(opening)

    def record(self, state: State, target: NDArray[np.uint16], value: float, action: int, sample: bool) -> None:
        """One position (state: B = 1), its policy target (A,), the search's value for the mover and the move played.

        `sample` False: the move only.
        """
        self._actions.append(action)
        if not sample:
            return
        row = empty_samples(self._game, 1)
        planes = self._game.planes(state)
        row.board[:] = state.board if planes is None else planes
        if planes is None:
            row.past[:] = state.past
        row.to_move[:] = state.to_move
        row.visits[:] = target
        row.value[:] = value  # `finish` makes the target of it
        row.game_id[:] = self._game_id
        row.generation[:] = self._generation
        self._rows.append(row)

    def finish(self, winner: int) -> PlayedGame:
        samples = join_samples(self._rows)
        samples = replace(samples, value=value_targets(samples.to_move, winner, samples.value, self._value_mix))
        return PlayedGame(self._game_id, tuple(self._actions), winner, samples)


def value_targets(
    to_move: NDArray[np.int8], winner: int, searched: NDArray[np.float32], mix: float
) -> NDArray[np.float32]:
    """(n,) float32: (1 - mix) * the result for the mover (1 won, -1 lost, 0 draw) + mix * `searched`.

    `winner` is 1, -1 or 0; `searched` (n,) are the searches' values for the movers.
    """
    result = (to_move * winner).astype(np.float32)
    return result if mix == 0 else ((1 - mix) * result + mix * searched).astype(np.float32)
