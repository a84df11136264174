# SPDX-License-Identifier: AGPL-3.0-or-later
"""Othello against perft figures, a solved board and rules written a second time."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.errors import GameError
from azcaffe.games.base import State
from azcaffe.games.othello import Othello
from azcaffe.games.rollout import play_randomly
from tests.games.naive import othello_flips, othello_moves
from tests.games.walk import all_positions, played, random_games

# http://www.aartbik.com/strategy.php
PERFT_8 = [1, 4, 12, 56, 244, 1396, 8200, 55092, 390216, 3005288]


def test_perft_8x8() -> None:
    assert [int(ways.sum()) for _, ways in all_positions(Othello(8), 7)] == PERFT_8[:8]


@pytest.mark.slow
def test_perft_8x8_two_plies_deeper() -> None:
    assert [int(ways.sum()) for _, ways in all_positions(Othello(8), 9)] == PERFT_8


def test_opening_moves_are_d3_c4_f5_e6() -> None:
    game = Othello(8)
    names = [game.move_name(a) for a in np.flatnonzero(game.legal(game.initial(1))[0])]
    assert names == ["d3", "c4", "f5", "e6"]


@pytest.mark.parametrize("size,count", [(4, 200), (6, 40), (8, 20)])
def test_random_games_follow_the_naive_rules(size: int, count: int) -> None:
    game, passes = Othello(size), 0
    for state, _, action, after in random_games(game, count, np.random.default_rng(size)):
        for row, move in enumerate(action):
            grid, mover = state.board[row].reshape(size, size).tolist(), int(state.to_move[row])
            moves = othello_moves(grid, mover)
            assert set(np.flatnonzero(game.legal(state)[row])) == (moves or {size * size})
            if move == size * size:
                passes += 1
            else:
                r, c = divmod(int(move), size)
                for fr, fc in [*othello_flips(grid, r, c, mover), (r, c)]:
                    grid[fr][fc] = mover
            assert after.board[row].reshape(size, size).tolist() == grid
            assert after.to_move[row] == -mover
            over = not othello_moves(grid, 1) and not othello_moves(grid, -1)
            assert after.over[row] == over
            assert after.winner[row] == (np.sign(sum(map(sum, grid))) if over else 0)
    assert passes > 0


def test_4x4_is_won_by_the_second_player_by_eight() -> None:
    # The small board is long solved: 3 to 11 with best play of both.
    game = Othello(4)
    layers = [state for state, _ in all_positions(game, game.max_plies)]
    margins: dict[bytes, int] = {}  # discs of player 1 minus those of player -1
    for state in reversed(layers):
        moves: dict[int, list[int]] = {}
        rows, actions = game.legal(state).nonzero()
        if len(rows):
            for row, key in zip(rows, game.keys(game.step(state.take(rows), actions)), strict=True):
                moves.setdefault(int(row), []).append(margins[key])
        for row, key in enumerate(game.keys(state)):
            best = max if state.to_move[row] == 1 else min
            margins[key] = int(state.board[row].sum()) if state.over[row] else best(moves[row])
    assert margins[game.keys(game.initial(1))[0]] == 3 - 11


def test_pass_is_the_last_action_and_only_legal_without_another() -> None:
    game = Othello(4)
    for state, _, action, after in random_games(game, 100, np.random.default_rng(3)):
        passing = action == game.cells
        assert np.array_equal(game.legal(state)[:, -1], ~game.legal(state)[:, :-1].any(axis=1))
        assert np.array_equal(after.board[passing], state.board[passing])
        assert not after.over[passing].any()  # the other player had a move, else the game had ended before
    with pytest.raises(GameError, match=r"pass \(action 16\) is not a legal move"):
        game.play(game.initial(1), np.array([16]))


def test_rollouts_are_the_general_loop() -> None:
    game, rng = Othello(6), np.random.default_rng(5)
    for state, *_ in random_games(game, 50, rng):
        uniforms = rng.random((len(state), game.rollout_draws))
        assert np.array_equal(game.rollout(state, uniforms), play_randomly(game, state, uniforms))


def test_a_side_without_stones_has_lost() -> None:
    game = Othello(4)
    board = np.zeros((1, 16), np.int8)
    board[0, :4] = 1, -1, 0, 0
    one = np.zeros(1, np.int8)
    state = State(board, np.array([1], np.int8), one.astype(bool), one, np.zeros((1, 0, 16), np.int8))
    after = game.play(state, np.array([2]))
    assert (after.over[0], after.winner[0]) == (True, 1)


def test_known_short_game_ends_by_wipe_out() -> None:
    # A well-known nine-move game that leaves white without a stone.
    game = Othello(8)
    state = played(game, *(game.parse_move(move) for move in ("e6", "f4", "e3", "f6", "g5", "d6", "e7", "f5", "c5")))
    assert (state.over[0], state.winner[0]) == (True, 1)
    assert (state.board != -1).all()
