# SPDX-License-Identifier: AGPL-3.0-or-later
"""The original program's own outputs: values, priors and visit counts of 40 positions with both published nets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from azcaffe.games.base import concatenate
from azcaffe.games.tictactoe import TicTacToe
from azcaffe.search import CachedEvaluator, Search, SearchConfig
from tests.search.test_engine import played, streams

NETS = ["net_tic_tac_6_4_1_res_block", "net_tic_tac_6_4_2_res_block"]
MODELS = Path(__file__).parents[2] / "models"


@pytest.mark.parametrize("variant", ["original", "corrected"])
@pytest.mark.parametrize("net", NETS)
def test_search_conforms_to_the_original(net: str, variant: str, original_assets: Path, golden: Path) -> None:
    from azcaffe.network import NetEvaluator

    game = TicTacToe(6, 6, 4)
    evaluate = NetEvaluator(game, MODELS / f"{net}.prototxt", original_assets / f"{net}.caffemodel")
    cases = [json.loads(line) for line in (golden / "ticfour_6x6.jsonl").read_text().splitlines()]
    states = concatenate([played(game, *case["moves"]) for case in cases])
    config = SearchConfig(simulations=400, c_puct=3.0, variant=variant)
    slots = np.arange(len(cases))
    search = Search(game, CachedEvaluator(evaluate, game), config, len(cases))
    search.reset(slots, states, streams(len(cases)))
    result = search.run(slots)
    identical = 0
    for case, n, p, v in zip(cases, result.visits, result.priors, result.net_value, strict=True):
        expected = case["nets"][net]
        assert v == pytest.approx(expected["value"], abs=1e-4)
        assert {a for a in range(36) if p[a] > 0} == {int(a) for a in expected["priors"]}
        for action, prior in expected["priors"].items():
            assert p[int(action)] == pytest.approx(prior, abs=1e-4)
        wanted = np.zeros(36, int)
        for action, count in expected[f"visits_{variant}"].items():
            wanted[int(action)] = count
        assert np.abs(n - wanted).sum() / 2 / 400 <= 0.02
        identical += np.array_equal(n, wanted)
    assert identical >= 38
    # Alone, without a cache, evaluations may differ in their last bits; here that flips no near-tie.
    alone = Search(game, evaluate, config, 1)
    for row in (0, 7):
        alone.reset([0], states.take(np.array([row])), streams(1))
        assert np.abs(alone.run([0]).visits[0] - result.visits[row]).sum() / 2 / 400 <= 0.02
