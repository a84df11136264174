# SPDX-License-Identifier: AGPL-3.0-or-later
"""The perfect solver behind `azcaffe optimal`: known scores, our orientation, the judge of moves."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.cli.optimal import judge, read_strengths
from azcaffe.cli.parser import UsageError
from azcaffe.errors import GameError
from azcaffe.games import make_game
from azcaffe.oracle import ILLEGAL, Oracle, random_positions

GAME = make_game("connectn", height=6, width=7, connect=4)


def test_scores_of_known_positions() -> None:
    pytest.importorskip("bitbully", reason="the perfect solver is not installed: pip install 'azcaffe[solver]'")
    oracle = Oracle(GAME)
    # Allis 1988: the centre wins, its neighbours draw, all others lose.
    assert np.sign(oracle.scores(GAME.initial(1))).tolist() == [-1, -1, 0, 1, 0, -1, -1]
    state = GAME.initial(1)
    for move in (0, 6, 0, 6, 0, 6):  # three on three, x to move: column 0 wins at once, and 6 must not be allowed
        state = GAME.play(state, np.array([move]))
    scores = oracle.scores(state)
    assert scores.argmax() == 0 and scores[0] > 0
    assert (np.delete(scores, [0, 6]) < 0).all()
    for move in (0, 6):
        state = GAME.initial(1)
        for _ in range(6):
            state = GAME.play(state, np.array([move]))
        assert oracle.scores(state)[move] == ILLEGAL


def test_only_the_known_board() -> None:
    with pytest.raises(GameError, match="knows connectn"):
        Oracle(make_game("connectn", height=6, width=6, connect=4))


def test_random_positions_are_different_and_in_their_band() -> None:
    states = random_positions(GAME, 60, range(8, 16), np.random.default_rng(1))
    assert len(set(GAME.keys(states))) == 60
    plies = np.count_nonzero(states.board, axis=1)
    assert plies.min() >= 8 and plies.max() <= 15
    assert not states.over.any()
    with pytest.raises(GameError, match="no 9 different"):
        random_positions(GAME, 9, range(1, 2), np.random.default_rng(1))


def test_judge() -> None:
    scores = np.array([[3, 5, -1, ILLEGAL, 0, -2, -2], [-4, -4, -9, -9, -9, -9, -9], [0, 0, -1, 0, 0, 0, 0]], np.int16)
    band = judge(scores, np.array([0, 2, 2]), "0-7", 100)
    assert (band.positions, band.choices) == (3, 2)  # in the second every move loses
    assert (band.right, band.right_choices, band.best) == (2, 1, 0)
    assert judge(scores, np.array([1, 1, 6]), "0-7", 100).best == 3


def test_strengths() -> None:
    assert read_strengths("0, 100,400") == [0, 100, 400]
    with pytest.raises(UsageError):
        read_strengths("0,-1")
