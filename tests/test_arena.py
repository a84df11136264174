# SPDX-License-Identifier: AGPL-3.0-or-later
"""Matches: pairing, determinism, bookkeeping, and results that are known beforehand."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from azcaffe.arena import GameRecord, MatchConfig, draw_openings, play_games, play_match
from azcaffe.errors import ConfigError
from azcaffe.games import Game, State, make_game
from azcaffe.players import RandomPlayer, RawPolicyPlayer, SearchPlayer, StopMatch
from azcaffe.search import RolloutEvaluator, SearchConfig, UniformEvaluator
from tests.helpers.stub_net import StubNet


@pytest.fixture
def small() -> Game:
    return make_game("tictactoe", height=3, width=3, connect=3)


class Script:
    """Plays the lowest legal move (or the highest), and remembers what it was told."""

    def __init__(self, game: Game, highest: bool = False) -> None:
        self.name = "script"
        self.playouts = 0
        self.seconds = 0.0
        self.game, self.highest = game, highest
        self.seen: dict[int, list[int]] = {}
        self.started: list[State] = []

    def start(self, slots: np.ndarray, states: State, rngs: object) -> None:
        self.started.append(states)
        self.seen.update({int(slot): [] for slot in slots})

    def choose(self, slots: np.ndarray, states: State) -> np.ndarray:
        legal = self.game.legal(states)
        return legal.shape[1] - 1 - legal[:, ::-1].argmax(axis=1) if self.highest else legal.argmax(axis=1)

    def observe(self, slots: np.ndarray, actions: np.ndarray) -> None:
        for slot, action in zip(slots, actions, strict=True):
            self.seen[int(slot)].append(int(action))


def replay(game: Game, record: GameRecord) -> State:
    state = game.initial(1)
    for move in record.moves:
        assert not state.over[0]
        state = game.play(state, np.array([move]))
    return state


def test_every_opening_is_played_twice_with_sides_swapped(small: Game) -> None:
    result = play_match(small, RandomPlayer(small), RandomPlayer(small), MatchConfig(games=20, opening_plies=2, seed=4))
    assert sum(record.a_first for record in result.records) == 10
    for one, other in zip(result.records[::2], result.records[1::2], strict=True):
        assert one.opening == other.opening
        assert one.moves[:2] == other.moves[:2]
        assert (one.a_first, other.a_first) == (True, False)
    assert len(result.unit_scores) == 10


def test_openings_are_not_repeated_before_all_were_used(small: Game) -> None:
    openings = draw_openings(small, MatchConfig(games=36, opening_plies=1))
    assert Counter(openings) == {(cell,): 2 for cell in range(9)}
    assert draw_openings(small, MatchConfig(games=10, opening_plies=1)) == openings[:5]
    # Too many to list (42 * 41 * 40 / 2 and more): drawn, all different.
    large = make_game("connectn", height=7, width=12, connect=4)
    assert len(set(draw_openings(large, MatchConfig(games=100, opening_plies=6)))) == 50


def test_single_openings_are_the_published_way(small: Game) -> None:
    config = MatchConfig(games=400, openings="single", seed=1)
    openings = draw_openings(small, config)
    assert len(openings) == 400
    counts = Counter(openings)
    assert len(counts) == 9 and max(counts.values()) < 80  # 44 expected, deviation 6.3
    result = play_match(small, RandomPlayer(small), RandomPlayer(small), config)
    assert all(one.a_first != other.a_first for one, other in pairwise(result.records))
    assert len(result.unit_scores) == 400


def test_openings_never_end_the_game(small: Game) -> None:
    for moves in draw_openings(small, MatchConfig(games=40, opening_plies=6)):
        state = small.initial(1)
        for move in moves:
            state = small.play(state, np.array([move]))
        assert not state.over[0]
    with pytest.raises(ConfigError, match="opening_plies"):
        draw_openings(small, MatchConfig(games=2, opening_plies=9))


@pytest.mark.parametrize("parallel", [1, 3, 64])
def test_games_do_not_depend_on_how_many_run_side_by_side(parallel: int) -> None:
    game = make_game("connectn", height=4, width=5, connect=4)

    def match(at_once: int) -> list[GameRecord]:
        net = SearchPlayer("net", game, StubNet(game), SearchConfig(simulations=20), at_once)
        mcts = SearchPlayer("mcts", game, RolloutEvaluator(game), SearchConfig(simulations=15), at_once)
        config = MatchConfig(games=11, parallel=at_once, seed=9)
        return sorted(play_games(game, net, mcts, config), key=lambda record: record.number)

    assert match(parallel) == match(7)


def test_records_are_whole_games_and_results_are_the_rules(small: Game) -> None:
    result = play_match(small, RandomPlayer(small), RandomPlayer(small), MatchConfig(games=60, parallel=7))
    assert [record.number for record in result.records] == list(range(60))
    for record in result.records:
        end = replay(small, record)
        assert end.over[0] and end.winner[0] == record.winner
    assert result.wins + result.draws + result.losses == 60
    assert result.mean_length == np.mean([len(record.moves) for record in result.records])
    assert sum(result.first_player) == 60
    (won, drawn, lost), (won2, drawn2, lost2) = result.on_side(True), result.on_side(False)
    assert (won + won2, drawn + drawn2, lost + lost2) == (result.wins, result.draws, result.losses)
    # Who moves first is player 1: what a won first and lost second is what player 1 won.
    assert (won + lost2, drawn + drawn2, lost + won2) == result.first_player


def test_a_draw_is_a_draw_with_either_colour(small: Game) -> None:
    # CASES R16: 0,1,2,4,3,5,7,6,8 ends without a line.
    class Forced(Script):
        moves = (0, 1, 2, 4, 3, 5, 7, 6, 8)

        def choose(self, slots: np.ndarray, states: State) -> np.ndarray:
            return np.array([self.moves[int((board != 0).sum())] for board in states.board])

    result = play_match(small, Forced(small), Forced(small), MatchConfig(games=2, opening_plies=0))
    assert (result.wins, result.draws, result.losses) == (0, 2, 0)
    assert result.score == 0.5
    assert result.first_player == (0, 2, 0)
    assert result.on_side(True) == result.on_side(False) == (0, 1, 0)


def test_players_hear_both_sides_moves_and_start_after_the_opening(small: Game) -> None:
    a, b = Script(small), Script(small, highest=True)
    result = play_match(small, a, b, MatchConfig(games=1, opening_plies=1, seed=2))
    moves = list(result.records[0].moves)
    assert a.seen[0] == b.seen[0] == moves[1:-1]  # the last move ended the game
    assert (a.started[0].board != 0).sum() == 1


def test_known_winner(small: Game) -> None:
    # Perfect play does not lose to a random mover who is given the first move.
    search = SearchPlayer("mcts", small, RolloutEvaluator(small), SearchConfig(simulations=1000), 18)
    result = play_match(small, search, RandomPlayer(small), MatchConfig(games=18, parallel=18))
    assert result.losses == 0
    assert result.wins >= 12
    low, high = result.interval
    assert 0.5 < low < result.score <= high


def test_twins_with_paired_openings_score_exactly_half(small: Game) -> None:
    # CASES R19: a net against itself is not better than itself, and the repetition is visible.
    players = [RawPolicyPlayer("net", small, StubNet(small)) for _ in range(2)]
    result = play_match(small, *players, MatchConfig(games=20))
    assert result.score == 0.5
    assert result.unit_scores == (0.5,) * 10
    assert 2 < result.distinct_games <= 9
    low, high = result.interval
    assert low < 0.5 < high


def test_a_player_may_leave(small: Game) -> None:
    class Leaver(Script):
        def choose(self, slots: np.ndarray, states: State) -> np.ndarray:
            if len(self.started) > 2:
                raise StopMatch
            return super().choose(slots, states)

    result = play_match(small, Leaver(small), Script(small), MatchConfig(games=10, parallel=1))
    assert len(result.records) == 2


def test_json_holds_everything_and_is_strict(small: Game) -> None:
    search = SearchPlayer("s", small, UniformEvaluator(small), SearchConfig(simulations=5), 4)
    result = play_match(small, search, RandomPlayer(small), MatchConfig(games=4, parallel=4))
    written = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert written["games"] == 4
    assert written["wins"] + written["draws"] + written["losses"] == 4
    assert written["playouts"][0] == result.playouts[0] > 0
    assert len(written["records"]) == 4


@pytest.mark.parametrize(
    "bad", [{"games": 0}, {"games": -1}, {"openings": "both"}, {"opening_plies": -1}, {"parallel": 0}, {"seed": -1}]
)
def test_config_refuses(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        MatchConfig(**bad)  # type: ignore[arg-type]
