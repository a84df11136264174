# SPDX-License-Identifier: AGPL-3.0-or-later
"""Players one by one: what they choose, and that each slot is its own game."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.games import Game, State, make_game
from azcaffe.players import RandomPlayer, RawPolicyPlayer, SearchPlayer
from azcaffe.search import RolloutEvaluator, SearchConfig, UniformEvaluator
from tests.helpers.stub_net import StubNet


def after(game: Game, *moves: int) -> State:
    state = game.initial(1)
    for move in moves:
        state = game.play(state, np.array([move]))
    return state


def streams(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng([5, i]) for i in range(count)]


@pytest.mark.parametrize("variant", ["corrected"])
@pytest.mark.parametrize("moves, best", [((0, 3, 1, 4), 2), ((0, 3, 1, 4, 8), 5), ((0, 4, 1), 2)])
def test_search_player_wins_and_blocks(variant: str, moves: tuple[int, ...], best: int) -> None:
    # The positions of CASES R13: complete the own row, or stop the opponent's.
    game = make_game("tictactoe", height=3, width=3, connect=3)
    player = SearchPlayer("s", game, UniformEvaluator(game), SearchConfig(simulations=800, variant=variant), 1)
    state = after(game, *moves)
    player.start(np.array([0]), state, streams(1))
    assert player.choose(np.array([0]), state).tolist() == [best]
    assert player.playouts == 800
    assert player.seconds > 0


def test_search_player_starts_each_game_with_an_empty_tree_and_keeps_it_within() -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3)
    player = SearchPlayer("s", game, StubNet(game), SearchConfig(simulations=50), 2)
    slots = np.array([0, 1])
    for _ in range(2):
        states = game.initial(2)
        player.start(slots, states, streams(2))
        actions = player.choose(slots, states)
        assert player.last is not None
        assert player.last.visits.sum(axis=1).tolist() == [50, 50]
        kept = player.last.visits[0, actions[0]] - 1  # the playout that created the child did not pass through it
        player.observe(slots, actions)
        player.choose(slots, game.play(states, actions))
        assert player.last.visits[0].sum() == kept + 50


def test_raw_policy_player_takes_the_best_legal_move() -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3)
    net = StubNet(game)
    state = after(game, 4, 0)
    priors = net(state, np.array([0]))[0][0]
    priors[[0, 4]] = -1
    player = RawPolicyPlayer("raw", game, net)
    assert player.choose(np.array([0]), state).tolist() == [priors.argmax()]


def test_random_player_is_uniform_over_legal_moves_and_draws_from_its_game() -> None:
    game = make_game("connectn", height=4, width=4, connect=4)
    state = after(game, 0, 0, 0, 0)
    player = RandomPlayer(game)
    player.start(np.array([7]), state, streams(1))
    drawn = [int(player.choose(np.array([7]), state)[0]) for _ in range(3000)]
    counts = np.bincount(drawn, minlength=4)
    assert counts[0] == 0
    assert (abs(counts[1:] - 1000) < 120).all()  # 4.6 standard deviations
    again = RandomPlayer(game)
    again.start(np.array([0]), state, streams(1))
    assert [int(again.choose(np.array([0]), state)[0]) for _ in range(50)] == drawn[:50]


def test_rollout_search_does_not_depend_on_its_neighbours() -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3)
    config = SearchConfig(simulations=60)
    alone = SearchPlayer("m", game, RolloutEvaluator(game), config, 1)
    beside = SearchPlayer("m", game, RolloutEvaluator(game), config, 8)
    alone.start(np.array([0]), game.initial(1), [np.random.default_rng(3)])
    beside.start(np.arange(8), game.initial(8), [np.random.default_rng(i) for i in range(8)])
    alone.choose(np.array([0]), game.initial(1))
    beside.choose(np.arange(8), game.initial(8))
    assert alone.last is not None and beside.last is not None
    assert (alone.last.visits[0] == beside.last.visits[3]).all()
