# SPDX-License-Identifier: AGPL-3.0-or-later
"""Roll-outs and the cache."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.errors import ConfigError
from azcaffe.games.tictactoe import TicTacToe
from azcaffe.search import CachedEvaluator, RolloutEvaluator, Search, SearchConfig
from tests.helpers.stub_net import StubNet
from tests.search.test_engine import played, random_positions, streams


def test_rollout_value_is_the_movers_mean_result_of_random_play() -> None:
    # 3x3, random play from the empty board: the first player wins 737/1260 of the games and loses 121/420.
    game = TicTacToe(3, 3, 3)
    evaluate = RolloutEvaluator(game)
    slots = np.arange(4000)
    evaluate.seed(slots, streams(4000))
    _, values = evaluate(game.initial(4000), slots)
    expected = 737 / 1260 - 121 / 420
    assert values.mean() == pytest.approx(expected, abs=float(4 * values.std() / 4000**0.5))
    _, replies = evaluate(played(game, 4).repeat(4000), slots)
    assert replies.mean() < -0.2  # the mover is now the second player, behind after the centre


def test_a_slots_rollouts_do_not_depend_on_its_neighbours() -> None:
    game = TicTacToe(6, 6, 4)
    config = SearchConfig(simulations=150)
    states = random_positions(game, 20, seed=11)
    together = Search(game, RolloutEvaluator(game), config, 20)
    together.reset(np.arange(20), states, streams(20, seed=5))
    visits = together.run(np.arange(20)).visits
    for row in (0, 13):
        alone = Search(game, RolloutEvaluator(game), config, 1)
        alone.reset([0], states.take(np.array([row])), [streams(20, seed=5)[row]])
        assert np.array_equal(alone.run([0]).visits[0], visits[row])


def test_mcts_without_a_net_does_not_lose_tictactoe_to_itself() -> None:
    game = TicTacToe(3, 3, 3)
    slots = np.arange(8)
    search = Search(game, RolloutEvaluator(game), SearchConfig(simulations=1500, c_puct=1.4), 8)
    search.reset(slots, game.initial(8), streams(8))
    live = slots
    while len(live):
        search.advance(live, search.run(live).selected)
        live = slots[~search.states(slots).over]
    assert search.states(slots).winner.tolist() == [0] * 8


def test_cache_is_bounded_and_forgets_the_oldest() -> None:
    game = TicTacToe(6, 6, 4)
    net = StubNet(game)
    cached = CachedEvaluator(net, game, capacity=3)
    for cell in range(5):
        cached(played(game, cell), np.array([0]))
    assert net.asked == 5
    for cell, asked in ((4, 5), (3, 5), (2, 5), (1, 6), (0, 7), (4, 7), (3, 8)):
        priors, value = cached(played(game, cell), np.array([0]))
        assert net.asked == asked
        expected = StubNet(game).scalar(played(game, cell))
        assert np.array_equal(priors[0], expected[0]) and value[0] == np.float32(expected[1])
    cached.clear()
    cached(played(game, 3), np.array([0]))
    assert net.asked == 9
    with pytest.raises(ConfigError):
        CachedEvaluator(net, game, capacity=-1)
