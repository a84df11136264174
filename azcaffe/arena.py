# SPDX-License-Identifier: AGPL-3.0-or-later
"""Any player against any player: many games in lockstep, and what they say.

Game number g draws from streams of its own, made from the seed and g, and starts with fresh trees, so its moves depend
neither on how many games run side by side nor on which. (With Caffe the last bits of an evaluation depend on the batch
size, which may turn a near-tie.)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from azcaffe.errors import ConfigError
from azcaffe.games.base import Game, concatenate, state_after
from azcaffe.games.rollout import random_step
from azcaffe.players import Player, StopMatch
from azcaffe.rating import elo_difference, score_interval

GAME_STREAM, OPENING_STREAM = 101, 102
"""Second word of a stream's seed, so that other users of the same seed draw other numbers."""
OPENINGS = ("paired", "single")
MAX_GAMES = 1_000_000
MAX_PARALLEL = 4096
DRAWS = 50
MAX_LISTED = 5000


@dataclass(frozen=True)
class MatchConfig:
    """How a match is played.

    Attributes:
        games: 1 … 1,000,000.
        openings: `paired`: each opening is played twice with sides swapped, and is used again only when there are no
            others. `single`: the published way, a random opening for each game, sides alternating.
        opening_plies: random moves before the players take over, ≥ 0.
        parallel: at most so many games side by side, 1 … 4096.
        seed: ≥ 0.
    """

    games: int = 100
    openings: str = "paired"
    opening_plies: int = 1
    parallel: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.games <= MAX_GAMES:
            raise ConfigError(f"games must be 1 … {MAX_GAMES:,}, not {self.games}")
        if self.openings not in OPENINGS:
            raise ConfigError(f"openings must be {' or '.join(OPENINGS)}, not {self.openings!r}")
        if self.opening_plies < 0:
            raise ConfigError(f"opening_plies must be at least 0, not {self.opening_plies}")
        if not 1 <= self.parallel <= MAX_PARALLEL:
            raise ConfigError(f"parallel must be 1 … {MAX_PARALLEL}, not {self.parallel}")
        if self.seed < 0:
            raise ConfigError(f"seed must be at least 0, not {self.seed}")


@dataclass(frozen=True)
class GameRecord:
    """One finished game.

    Attributes:
        number: g, from 0.
        opening: which opening it began with; two games share one in paired matches.
        a_first: whether player a moved first, as player 1.
        moves: all actions, the opening's included.
        winner: 1, -1, or 0 for a draw.
    """

    number: int
    opening: int
    a_first: bool
    moves: tuple[int, ...]
    winner: int

    @property
    def score(self) -> float:
        """Player a's: 1, 1/2 or 0."""
        return (1 + (self.winner if self.a_first else -self.winner)) / 2


@dataclass(frozen=True)
class MatchResult:
    """What the finished games of a match say; scores and counts are player a's.

    Attributes:
        names: of a and b.
        records: the finished games, by number.
        seconds: wall time.
        playouts: of a and of b.
        thinking: seconds that a and b spent choosing moves, over all processes.
    """

    names: tuple[str, str]
    config: MatchConfig
    records: tuple[GameRecord, ...]
    seconds: float
    playouts: tuple[int, int]
    thinking: tuple[float, float]

    def count(self, score: float) -> int:
        """Games that scored 1, 0.5 or 0."""
        return sum(record.score == score for record in self.records)

    @property
    def wins(self) -> int:
        return self.count(1.0)

    @property
    def draws(self) -> int:
        return self.count(0.5)

    @property
    def losses(self) -> int:
        return self.count(0.0)

    @property
    def score(self) -> float:
        """(wins + draws / 2) / games; 1/2 before the first game."""
        return float(np.mean([record.score for record in self.records])) if self.records else 0.5

    @property
    def unit_scores(self) -> tuple[float, ...]:
        """Mean scores of what was drawn independently: openings where paired, games otherwise."""
        groups: dict[int, list[float]] = {}
        for record in self.records:
            groups.setdefault(record.opening, []).append(record.score)
        return tuple(float(np.mean(groups[opening])) for opening in sorted(groups))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the score, see :func:`azcaffe.rating.score_interval`."""
        return score_interval(self.unit_scores)

    @property
    def first_player(self) -> tuple[int, int, int]:
        """Games that the first player won, drew, lost, whoever it was."""
        tally = Counter(record.winner for record in self.records)
        return tally[1], tally[0], tally[-1]

    def on_side(self, first: bool) -> tuple[int, int, int]:
        """Wins, draws and losses of a, counting only games where it moved first (or second)."""
        scores = Counter(record.score for record in self.records if record.a_first == first)
        return scores[1.0], scores[0.5], scores[0.0]

    @property
    def mean_length(self) -> float:
        """Plies a game, the opening's included."""
        return float(np.mean([len(record.moves) for record in self.records])) if self.records else 0.0

    @property
    def distinct_games(self) -> int:
        """Different move lists: deterministic players repeat themselves where openings do."""
        return len({record.moves for record in self.records})

    def as_json(self) -> dict[str, Any]:
        """Everything, in JSON's types."""
        games = len(self.records)
        wins, draws, losses = self.first_player
        low, high = self.interval
        elo = elo_difference(self.score)
        return {
            "players": list(self.names),
            "games": games,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "score": self.score,
            "score_95": [low, high],
            "elo_difference": elo if np.isfinite(elo) else None,
            "first_player": {"wins": wins, "draws": draws, "losses": losses, "win_rate": wins / max(games, 1)},
            "moving_first": list(self.on_side(True)),
            "moving_second": list(self.on_side(False)),
            "mean_length": self.mean_length,
            "distinct_games": self.distinct_games,
            "playouts": list(self.playouts),
            "playouts_per_second": [
                n / t if t > 0 else None for n, t in zip(self.playouts, self.thinking, strict=True)
            ],
            "seconds": self.seconds,
            "openings": self.config.openings,
            "opening_plies": self.config.opening_plies,
            "parallel": self.config.parallel,
            "seed": self.config.seed,
            "records": [
                {
                    "game": record.number,
                    "opening": record.opening,
                    "first": self.names[0 if record.a_first else 1],
                    "winner": record.winner,
                    "score": record.score,
                    "moves": list(record.moves),
                }
                for record in self.records
            ],
        }


def draw_openings(game: Game, config: MatchConfig) -> list[tuple[int, ...]]:
    """The random moves that each opening consists of; none ends the game.

    Where all positions after so many plies can be listed, paired openings go through them in random order, again and
    again; else each opening is drawn, a few times over if need be to find a new one. More games continue the same list.

    Raises:
        ConfigError: the game ends within so many random moves almost always.
    """
    if config.openings == "single":
        return [_random_moves(game, config, number)[0] for number in range(config.games)]
    count = -(-config.games // 2)
    every = _all_openings(game, config.opening_plies)
    drawn: list[tuple[int, ...]] = []
    if every is not None:
        if not every:
            raise ConfigError(f"{game.name} is over after {config.opening_plies} plies: lower opening_plies")
        rng = np.random.default_rng([config.seed, OPENING_STREAM])
        while len(drawn) < count:
            drawn += [every[at] for at in rng.permutation(len(every))]
        return drawn[:count]
    seen: set[bytes] = set()
    for number in range(count):
        moves, key = _random_moves(game, config, number, seen)
        seen.add(key)
        drawn.append(moves)
    return drawn


def _all_openings(game: Game, plies: int) -> list[tuple[int, ...]] | None:
    """One way to each position that goes on after `plies` moves; None if there are too many."""
    states = game.initial(1)
    lines: list[tuple[int, ...]] = [()]
    for _ in range(plies):
        rows, actions = game.legal(states).nonzero()
        if len(rows) > MAX_LISTED:
            return None
        after = game.step(states.take(rows), actions)
        new: dict[bytes, int] = {}
        for at, key in enumerate(game.keys(after)):
            if not after.over[at]:
                new.setdefault(key, at)
        kept = np.array(list(new.values()), np.intp)
        lines = [(*lines[rows[at]], int(actions[at])) for at in kept]
        states = after.take(kept)
    return lines


def _random_moves(
    game: Game, config: MatchConfig, number: int, seen: Collection[bytes] = ()
) -> tuple[tuple[int, ...], bytes]:
    """Opening `number` and the key of its position, not among `seen` if that is not too hard."""
    rng = np.random.default_rng([config.seed, OPENING_STREAM, number])
    found = None
    for _ in range(DRAWS):
        state = game.initial(1)
        moves: list[int] = []
        while len(moves) < config.opening_plies and not state.over[0]:
            action, state = random_step(game, state, rng)
            moves.append(action)
        if not state.over[0]:
            found = tuple(moves), game.keys(state)[0]
            if found[1] not in seen:
                break
    if found is None:
        raise ConfigError(f"{game.name} hardly lasts {config.opening_plies} random plies: lower opening_plies")
    return found


def play_match(game: Game, a: Player, b: Player, config: MatchConfig) -> MatchResult:
    """Play all games and sum them up."""
    began = time.perf_counter()
    records = tuple(sorted(play_games(game, a, b, config), key=lambda record: record.number))
    seconds = time.perf_counter() - began
    return MatchResult((a.name, b.name), config, records, seconds, (a.playouts, b.playouts), (a.seconds, b.seconds))


@dataclass
class _Table:
    """A game under way in one slot."""

    number: int
    opening: int
    a_first: bool
    moves: list[int]


def blocks(config: MatchConfig) -> list[range]:
    """The game numbers that are played side by side, block after block, at most `parallel` each.

    At least two blocks, so that two processes find work; how many processes there are does not matter.
    """
    count = max(-(-config.games // config.parallel), 2)
    size = -(-config.games // count)
    size = min(size + size % 2, config.parallel)
    return [range(start, min(start + size, config.games)) for start in range(0, config.games, size)]


def play_games(
    game: Game, a: Player, b: Player, config: MatchConfig, parts: Iterable[range] | None = None
) -> Iterator[GameRecord]:
    """Play a match, or only the blocks `parts`, yielding each game as it ends; StopMatch of a player ends it early.

    `a` and `b` are two objects, even when the same net plays both sides: each keeps its own trees.
    """
    openings = draw_openings(game, config)
    try:
        for numbers in blocks(config) if parts is None else parts:
            yield from _play_block(game, a, b, config, openings, numbers)
    except StopMatch:
        return


def _play_block(
    game: Game, a: Player, b: Player, config: MatchConfig, openings: list[tuple[int, ...]], numbers: range
) -> Iterator[GameRecord]:
    tables = []
    for number in numbers:
        opening = number // 2 if config.openings == "paired" else number
        tables.append(_Table(number, opening, number % 2 == 0, list(openings[opening])))
    states = concatenate([state_after(game, table.moves) for table in tables])
    busy = np.arange(len(tables))
    a_first = np.array([table.a_first for table in tables])
    for side, player in enumerate((a, b)):
        streams = [np.random.default_rng([config.seed, GAME_STREAM, number, side]) for number in numbers]
        player.start(busy, states, streams)
    while len(busy):
        actions = np.zeros(len(busy), np.intp)
        a_moves = a_first[busy] == (states.to_move == 1)
        for player, mine in ((a, a_moves), (b, ~a_moves)):
            if mine.any():
                actions[mine] = player.choose(busy[mine], states.take(mine))
        states = game.play(states, actions)
        for row, action in enumerate(actions):
            table = tables[busy[row]]
            table.moves.append(int(action))
            if states.over[row]:
                winner = int(states.winner[row])
                yield GameRecord(table.number, table.opening, table.a_first, tuple(table.moves), winner)
        on = ~states.over
        busy, actions, states = busy[on], actions[on], states.take(on)
        if len(busy):
            a.observe(busy, actions)
            b.observe(busy, actions)
