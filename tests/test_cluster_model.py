# SPDX-License-Identifier: AGPL-3.0-or-later
"""The simulation of a cluster against queues whose throughput is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azcaffe.cli.main import main
from azcaffe.cluster.model import Costs, Plan, fitting_plan, limits, simulate

EXACT = Costs(game=1.0, weights=1e6, result=1e3, step=0.001, spread=0.0, latency=0.0, bandwidth=1e9)
PLAN = Plan(1, 32, steps_per_game=1.0)


def test_one_actor_plays_without_pause() -> None:
    # 32 games a job of 32 s; handing out and transfer take next to nothing: one game a second, the trainer 0.1 % busy.
    outcome = simulate(PLAN, EXACT)
    assert outcome.games == pytest.approx(1.0, rel=0.01)
    assert outcome.actors_busy == pytest.approx(1.0, rel=0.01)
    assert outcome.trainer_busy == pytest.approx(0.001, rel=0.05)
    assert outcome.bound == "actors"


def test_actors_multiply_until_the_trainer_is_full() -> None:
    # A step takes 50 ms, a game 10 steps: two games a second and no more, however many actors there are.
    costs = replace(EXACT, step=0.05)
    for actors, games, bound in ((1, 1.0, "actors"), (64, 2.0, "trainer"), (256, 2.0, "trainer")):
        outcome = simulate(fitting_plan(actors, replace(PLAN, steps_per_game=10.0)), costs)
        assert outcome.games == pytest.approx(games, rel=0.03)
        assert outcome.bound == bound
    # In step with the actors: 16 of them with a step of next to nothing.
    assert simulate(fitting_plan(16, PLAN), EXACT).games == pytest.approx(16.0, rel=0.05)


def test_results_fill_the_link() -> None:
    # 1 MB a game over 10 MB/s: ten games a second.
    outcome = simulate(fitting_plan(64, PLAN), replace(EXACT, result=1e6, bandwidth=1e7))
    assert outcome.games == pytest.approx(10.0, rel=0.05)
    assert outcome.bound == "network" and outcome.downlink_busy > 0.95


def test_taking_turns_leaves_one_side_idle() -> None:
    # Lag 0: a round of 32 games is played by one actor in 32 s, then trained on for 32 s, and so on.
    outcome = simulate(replace(PLAN, lag=0, steps_per_game=1000.0), EXACT)
    assert outcome.games == pytest.approx(0.5, rel=0.02)
    assert outcome.bound == "schedule"


def test_too_few_jobs_leave_actors_idle() -> None:
    # Three rounds of one job each are in play: the other seven actors have none.
    outcome = simulate(replace(PLAN, actors=10), EXACT)
    assert outcome.games == pytest.approx(3.0, rel=0.05)
    assert outcome.bound == "schedule"


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 40), st.integers(0, 3), st.floats(0.01, 5), st.floats(1e-4, 0.1), st.floats(1e2, 1e6),
    st.floats(0, 0.3),
)  # fmt: skip
def test_nothing_is_faster_than_its_bottleneck(
    actors: int, lag: int, game: float, step: float, result: float, spread: float
) -> None:
    plan = fitting_plan(actors, Plan(1, 1, lockstep=8, lag=lag, steps_per_game=2.0, actors_per_node=4))
    costs = Costs(game, 1e5, result, step, 1e-4, 1e-3, spread, bandwidth=1e7)
    outcome = simulate(plan, costs)
    assert outcome.games <= 1.3 * min(limits(plan, costs).values())  # a short run may catch up on what had piled up
    shares = outcome.actors_busy, outcome.trainer_busy, outcome.uplink_busy, outcome.downlink_busy
    assert all(0 <= share <= 1.0001 for share in shares)


def test_the_command_measures_once_and_simulates_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["scale", "--board-size=3", "--actors=1,100", "--quiet", "--json", str(tmp_path / "costs.json")]
    assert main([*words, "--simulations=10", "--measure-games=4", "--steps=2"]) == 0
    out = capsys.readouterr().out
    assert "the trainer saturates at" in out and "3,200" not in out
    written = json.loads((tmp_path / "costs.json").read_text())
    assert written["measured"]["weights"] > 1e5 and 5 <= written["measured"]["plies"] <= 9
    assert [row["actors"] for row in written["outcomes"]] == [1, 100]
    again = ["scale", "--board-size=3", "--actors=1,100", "--costs", str(tmp_path / "costs.json"), "--gbit=0.0001"]
    assert main(again) == 0
    assert "network" in capsys.readouterr().out
    for wrong in (["--actors=0"], ["--actors=a"], ["--costs=nowhere"], ["--gbit=0"], ["--json=no/where"]):
        assert main(["scale", *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1
