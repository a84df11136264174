# SPDX-License-Identifier: AGPL-3.0-or-later
"""Which test matches start when, and that they never pile up."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from azcaffe import baselines
from azcaffe.baselines import BaselineMatches
from azcaffe.jobs import MatchJob, MatchScore, Weights

WEIGHTS: Weights = {"fc": [np.zeros(1, np.float32)]}


class Desk:
    """A pool that only notes what it is given."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Hashable, MatchJob]] = []

    def submit(self, key: Hashable, job: MatchJob, ahead: bool = False) -> None:
        assert ahead  # of the games that wait there
        self.jobs.append((key, job))


def started(matches: BaselineMatches, snapshots: int) -> Desk:
    desk = Desk()
    for iteration in range(1, snapshots + 1):
        matches.snapshot(iteration, WEIGHTS)
        matches.start(desk)  # type: ignore[arg-type]
    return desk


def test_a_level_that_may_rise_keeps_the_next_match_waiting() -> None:
    matches = BaselineMatches(100, 25, 0, seed=0)
    desk = started(matches, 3)
    assert [key for key, _ in desk.jobs] == [("match", 1, "rollout")]
    record = matches.result(("match", 1, "rollout"), MatchScore(24, 0, 1))
    assert record["opponent_simulations"] == 100 and record["next_opponent_simulations"] == 200
    matches.start(desk)  # type: ignore[arg-type]
    assert [(key, job.opponent_simulations) for key, job in desk.jobs[1:]] == [(("match", 2, "rollout"), 200)]


def test_at_the_highest_level_nothing_waits() -> None:
    matches = BaselineMatches(100, 25, 0, seed=0)
    matches.restore({"level": 1000, "last": [25, 0, 0], "due": [], "previous": []}, {})
    desk = started(matches, 3)
    assert [job.opponent_simulations for _, job in desk.jobs] == [1000] * 3
    for iteration in (2, 1, 3):
        record = matches.result(("match", iteration, "rollout"), MatchScore(25, 0, 0))
        assert record["snapshot"] == iteration and record["next_opponent_simulations"] == 1000
    assert len(matches) == 0


def test_a_run_that_goes_on_without_tests_forgets_those_due() -> None:
    matches = BaselineMatches(100, 25, 10, seed=0)
    started(matches, 3)
    assert len(matches) == 5
    state, weights = matches.state(), matches.weights()
    for games, previous, left in ((0, 0, 0), (25, 0, 3), (0, 10, 2)):
        again = BaselineMatches(100, games, previous, seed=0)
        again.restore(state, weights)
        assert len(again) == left


def test_so_many_may_wait_and_no_more() -> None:
    matches = BaselineMatches(100, 25, 0, seed=0)
    started(matches, baselines.MOST_WAITING)
    assert not matches.too_many
    matches.snapshot(99, WEIGHTS)
    assert matches.too_many
