# SPDX-License-Identifier: AGPL-3.0-or-later
"""Roll-outs are uniformly random play: against exact probabilities, and against play move by move."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.games.base import Game, State, concatenate
from azcaffe.games.connectn import ConnectN
from azcaffe.games.othello import Othello
from azcaffe.games.rollout import nth_legal, play_randomly
from azcaffe.games.tictactoe import TicTacToe
from tests.games.walk import played, random_position

GAMES = 20_000
SIGMAS = 4.5  # a false alarm once in 150,000 comparisons; the seeds are fixed anyway


def assert_shares(winners: np.ndarray, exact: dict[int, float]) -> None:
    """The shares of each outcome lie within chance of the `exact` ones."""
    for outcome, chance in exact.items():
        spread = SIGMAS * np.sqrt(max(chance * (1 - chance), 1e-9) / len(winners))
        assert abs((winners == outcome).mean() - chance) <= spread, (outcome, exact)


def exact_shares(game: Game, state: State) -> dict[int, float]:
    """Chances of each outcome of uniformly random play from `state` (a batch of one): every position, weighted."""
    shares, weight = {1: 0.0, 0: 0.0, -1: 0.0}, np.ones(1)
    while len(state):
        for outcome in shares:
            shares[outcome] += float(weight[state.over & (state.winner == outcome)].sum())
        legal = game.legal(state)
        rows, actions = legal.nonzero()
        state, weight = game.step(state.take(rows), actions), (weight / np.maximum(legal.sum(axis=1), 1))[rows]
        number: dict[bytes, int] = {}
        place = np.array([number.setdefault(key, len(number)) for key in game.keys(state)], np.intp)
        state = state.take(np.unique(place, return_index=True)[1])
        weight = np.bincount(place, weights=weight)
    assert abs(sum(shares.values()) - 1) < 1e-9
    return shares


def test_random_3x3_from_the_start() -> None:
    # https://en.wikipedia.org/wiki/Tic-tac-toe and many others: 737/1260, 8/63, 121/420
    game = TicTacToe(3, 3, 3)
    winners = game.rollout(game.initial(GAMES), np.random.default_rng(1).random((GAMES, 9)))
    assert_shares(winners, {1: 737 / 1260, 0: 8 / 63, -1: 121 / 420})


@pytest.mark.parametrize(
    "game,plies",
    [
        (TicTacToe(3, 3, 3), 3), (TicTacToe(3, 4, 3), 7), (TicTacToe(4, 4, 4), 11), (ConnectN(4, 4, 3), 10),
        (ConnectN(4, 4, 4), 9), (ConnectN(3, 5, 4), 8), (Othello(4), 6),
    ],
    ids=lambda x: getattr(x, "name", x),
)  # fmt: skip
def test_shares_are_the_exact_ones(game: Game, plies: int) -> None:
    rng = np.random.default_rng(plies)
    for _ in range(3):
        state = random_position(game, plies, rng)
        winners = game.rollout(state.repeat(GAMES), rng.random((GAMES, game.rollout_draws)))
        assert_shares(winners, exact_shares(game, state))


LARGER = [TicTacToe(6, 6, 4), TicTacToe(9, 8, 5), ConnectN(6, 7, 4), ConnectN(5, 9, 4)]


@pytest.mark.parametrize("game", LARGER, ids=lambda g: g.name)
def test_shares_agree_with_play_move_by_move(game: Game) -> None:
    rng = np.random.default_rng(7)
    state = random_position(game, 5, rng).repeat(GAMES)
    fast = game.rollout(state, rng.random((GAMES, game.rollout_draws)))
    slow = play_randomly(game, state, rng.random((GAMES, game.max_plies)))
    for outcome in (1, 0, -1):
        a, b = (fast == outcome).mean(), (slow == outcome).mean()
        assert abs(a - b) <= SIGMAS * np.sqrt(max(a * (1 - a), 1e-4) * 2 / GAMES)


@pytest.mark.parametrize("game", [TicTacToe(5, 5, 4), ConnectN(5, 6, 4), Othello(4)], ids=lambda g: g.name)
def test_extreme_draws_are_still_games(game: Game) -> None:
    almost_one = np.nextafter(1, 0)
    for uniforms in (np.zeros((1, game.rollout_draws)), np.full((1, game.rollout_draws), almost_one)):
        assert game.rollout(game.initial(1), uniforms)[0] in (1, 0, -1)


def test_a_finished_game_keeps_its_winner_among_others() -> None:
    game = TicTacToe(3, 3, 3)
    won, draw = played(game, 0, 3, 1, 4, 2), played(game, 0, 1, 2, 4, 3, 5, 7, 6, 8)
    batch = concatenate([won, game.initial(1), draw])
    for seed in range(20):
        winners = game.rollout(batch, np.random.default_rng(seed).random((3, 9)))
        assert (winners[0], winners[2]) == (1, 0)


def test_one_move_left_is_played() -> None:
    # x to move on the last cell: a draw, and with the other board a win
    game = TicTacToe(3, 3, 3)
    uniforms = np.random.default_rng(0).random((1, 9))
    assert game.rollout(played(game, 0, 1, 2, 4, 3, 5, 7, 6), uniforms)[0] == 0
    assert game.rollout(played(game, 0, 1, 2, 3, 5, 4, 7, 6), uniforms)[0] == 1


def test_nth_legal_gives_every_legal_move_its_share() -> None:
    legal = np.array([[False, True, False, True, True]] * 9)
    chosen = nth_legal(legal, np.arange(9) / 9)
    assert chosen.tolist() == [1, 1, 1, 3, 3, 3, 4, 4, 4]
    assert nth_legal(legal[:1], np.array([np.nextafter(1, 0)]))[0] == 4
