# SPDX-License-Identifier: AGPL-3.0-or-later
"""Intervals against scipy and by simulation; the ladder against a published fit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from azcaffe.errors import ConfigError
from azcaffe.rating import ELO_PER_NAT, Pairing, elo_difference, fit_ladder, score_interval

# Wins of the row team over the column team, American League East 1987.
# Agresti, Categorical Data Analysis, 2nd ed., table 10.10.
BASEBALL = {
    "Milwaukee": (0, 7, 9, 7, 7, 9, 11),
    "Detroit": (6, 0, 7, 5, 11, 9, 9),
    "Toronto": (4, 6, 0, 7, 7, 8, 12),
    "New York": (6, 8, 6, 0, 6, 7, 10),
    "Boston": (6, 2, 6, 7, 0, 7, 12),
    "Cleveland": (4, 4, 5, 6, 6, 0, 6),
    "Baltimore": (2, 4, 1, 3, 1, 7, 0),
}
# The same book's fit (Baltimore at 0), with the standard errors of R's BradleyTerry2 for this data.
ABILITY = {
    "Milwaukee": (1.581, 0.343),
    "Detroit": (1.436, 0.340),
    "Toronto": (1.294, 0.337),
    "New York": (1.248, 0.336),
    "Boston": (1.108, 0.334),
    "Cleveland": (0.684, 0.332),
}


def test_interval_of_wins_and_losses_is_agresti_and_coulls() -> None:
    # 0 of 10: p~ = 2/14, half width 1.96 * sqrt(2/14 * 12/14 / 14) = 0.1833
    low, high = score_interval([0.0] * 10)
    assert low == 0.0
    assert high == pytest.approx(2 / 14 + 0.1833, abs=1e-4)


def test_interval_is_close_to_wilsons() -> None:
    stats = pytest.importorskip("scipy.stats")
    for wins in (0, 7, 20, 33, 40):
        low, high = score_interval([1.0] * wins + [0.0] * (40 - wins))
        wilson = stats.binomtest(wins, 40).proportion_ci(method="wilson")
        assert low == pytest.approx(wilson.low, abs=0.03)
        assert high == pytest.approx(wilson.high, abs=0.03)


def test_draws_narrow_the_interval_but_never_to_nothing() -> None:
    drawn = score_interval([0.5] * 40)
    decided = score_interval([1.0] * 20 + [0.0] * 20)
    assert 0 < drawn[1] - drawn[0] < (decided[1] - decided[0]) / 2


@pytest.mark.parametrize("win, draw", [(0.5, 0.0), (0.9, 0.0), (0.3, 0.5), (0.05, 0.9), (0.97, 0.02)])
@pytest.mark.parametrize("units", [20, 100])
def test_interval_covers_the_truth(win: float, draw: float, units: int) -> None:
    rng = np.random.default_rng(1)
    games = rng.choice([1.0, 0.5, 0.0], p=[win, draw, 1 - win - draw], size=(2000, units))
    truth = win + draw / 2
    covered = np.mean([low <= truth <= high for low, high in map(score_interval, games)])
    assert covered >= 0.93


def test_pairs_that_split_give_a_narrower_interval_than_their_games() -> None:
    # The first player wins every opening: each pair scores exactly 1/2, so the players are equal beyond doubt.
    pairs = score_interval([0.5] * 50)
    games = score_interval([1.0, 0.0] * 50)
    assert pairs[1] - pairs[0] < 0.6 * (games[1] - games[0])


def test_elo_of_known_scores() -> None:
    assert elo_difference(0.75) == pytest.approx(400 * math.log10(3))  # 190.85
    assert elo_difference(0.5) == 0.0
    assert elo_difference(0.0) == -math.inf
    assert elo_difference(1.0) == math.inf


def test_ladder_reproduces_the_published_fit() -> None:
    names, wins = list(BASEBALL), list(BASEBALL.values())
    pairings = [Pairing(i, j, (1.0,) * wins[i][j] + (0.0,) * wins[j][i]) for i in range(7) for j in range(i)]
    ladder = fit_ladder(names, pairings, anchor=names.index("Baltimore"))
    assert ladder.prior == 0
    for name, (ability, error) in ABILITY.items():
        player = names.index(name)
        assert ladder.elo[player] / ELO_PER_NAT == pytest.approx(ability, abs=6e-4)
        assert ladder.error[player] / ELO_PER_NAT / 1.96 == pytest.approx(error, rel=0.1)
    assert ladder.elo[names.index("Baltimore")] == ladder.error[names.index("Baltimore")] == 0
    assert [names[p] for p in ladder.order()][:2] == ["Milwaukee", "Detroit"]


def test_draws_count_as_half_a_win() -> None:
    # 50 wins, 40 draws, 10 losses: score 0.7, and that is what the two ratings predict.
    ladder = fit_ladder(["a", "b"], [Pairing(0, 1, (1.0,) * 50 + (0.5,) * 40 + (0.0,) * 10)], anchor=1)
    assert ladder.elo[0] == pytest.approx(elo_difference(0.7))
    decided = fit_ladder(["a", "b"], [Pairing(0, 1, (1.0,) * 70 + (0.0,) * 30)], anchor=1)
    assert ladder.error[0] < decided.error[0]


def test_a_player_that_loses_every_game_gets_a_finite_rating() -> None:
    ladder = fit_ladder(["net", "random"], [Pairing(0, 1, (1.0,) * 40)], anchor=1)
    assert ladder.prior == 1
    assert ladder.elo[0] == pytest.approx(elo_difference(40.5 / 41))
    assert np.isfinite(ladder.error).all()


def test_what_cannot_be_rated_is_refused() -> None:
    with pytest.raises(ConfigError, match="two players"):
        fit_ladder(["a"], [])
    with pytest.raises(ConfigError, match="connects"):
        fit_ladder(["a", "b", "c"], [Pairing(0, 1, (1.0, 0.0))])
    with pytest.raises(ConfigError, match="pairing"):
        fit_ladder(["a", "b"], [Pairing(0, 0, (1.0,))])


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=60))
def test_interval_holds_the_score_and_mirrors(scores: list[float]) -> None:
    low, high = score_interval(scores)
    assert 0 <= low <= np.mean(scores) <= high <= 1 or len(scores) < 4
    mirrored = score_interval([1 - s for s in scores])
    assert mirrored == pytest.approx((1 - high, 1 - low))


@given(st.permutations(range(4)), st.integers(0, 2**32 - 1))
def test_ladder_does_not_depend_on_the_order_of_players(order: list[int], seed: int) -> None:
    scores = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], size=(4, 4, 10))
    pairs = [(i, j) for i in range(4) for j in range(i)]
    plain = fit_ladder("abcd", [Pairing(i, j, tuple(scores[i, j])) for i, j in pairs])
    moved = fit_ladder("abcd", [Pairing(order[i], order[j], tuple(scores[i, j])) for i, j in pairs])
    assert moved.elo[order] == pytest.approx(plain.elo, abs=1e-6)
    assert moved.error[order] == pytest.approx(plain.error, abs=1e-6)
