# SPDX-License-Identifier: AGPL-3.0-or-later
"""Gumbel's choice at the root against the paper's own formulas and guarantees."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from azcaffe.games.tictactoe import TicTacToe
from azcaffe.search import Search, SearchConfig, UniformEvaluator
from azcaffe.search.root import visit_schedule
from tests.helpers.stub_net import StubNet
from tests.search.test_engine import played, random_positions, streams


def test_schedule_is_sequential_halving() -> None:
    # Danihelka et al. 2022, Algorithm 2, n = 16, m = 4: 2 phases of 8: 4 moves twice, then 2 moves four times.
    assert visit_schedule(4, 16) == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert visit_schedule(1, 3) == [0, 1, 2]
    assert visit_schedule(2, 4) == [0, 0, 1, 1]


@given(considered=st.integers(1, 40), simulations=st.integers(1, 300))
def test_schedule_never_asks_for_more_moves_than_have_come_so_far(considered: int, simulations: int) -> None:
    schedule = visit_schedule(considered, simulations)
    assert len(schedule) == simulations
    with_visits = [considered]  # how many moves have had at least k visits
    for wanted in schedule:
        if wanted + 1 == len(with_visits):
            with_visits.append(0)
        with_visits[wanted + 1] += 1
        assert with_visits[wanted + 1] <= with_visits[wanted]


def test_gumbel_spends_its_playouts_on_the_considered_moves_and_finds_the_win() -> None:
    game = TicTacToe(3, 3, 3)
    config = SearchConfig(simulations=16, root="gumbel", gumbel_considered=4)
    search = Search(game, UniformEvaluator(game), config, 40)
    slots = np.arange(40)
    search.reset(slots, played(game, 0, 3, 1, 4).repeat(40), streams(40))
    result = search.run(slots)
    assert (result.visits.sum(axis=1) == 16).all()
    assert ((result.visits > 0).sum(axis=1) == 4).all()
    considered_win = result.visits[:, 2] > 0
    assert 5 < considered_win.sum() < 40  # 4 of 5 legal moves are considered: 32 expected
    assert (result.selected[considered_win] == 2).all()
    assert (result.improved_policy[considered_win, 2] > 0.9).all()
    assert np.allclose(result.improved_policy.sum(axis=1), 1, atol=1e-5)


def test_gumbel_root_works_with_reuse_growth_and_different_budgets() -> None:
    game = TicTacToe(6, 6, 4)
    search = Search(game, StubNet(game), SearchConfig(simulations=200, root="gumbel"), 3)
    search.reset([0, 1, 2], random_positions(game, 3, seed=9), streams(3))
    for _ in range(4):
        before = search.run([0, 1, 2], simulations=np.array([0, 0, 0])).visits.sum(axis=1)
        result = search.run([0, 1, 2], simulations=np.array([200, 300, 7]))
        assert (result.visits.sum(axis=1) - before).tolist() == [200, 300, 7]
        legal = game.legal(search.states([0, 1, 2]))
        assert legal[np.arange(3), result.selected].all()
        assert (result.improved_policy[~legal] == 0).all()
        search.advance([0, 1, 2], result.selected)
        if search.states([0, 1, 2]).over.any():
            break
