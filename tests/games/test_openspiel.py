# SPDX-License-Identifier: AGPL-3.0-or-later
"""Games of OpenSpiel, and our own rules against OpenSpiel's."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.encoding import Encoding, encode
from azcaffe.errors import GameError
from azcaffe.games.base import Game
from azcaffe.games.connectn import ConnectN
from azcaffe.games.othello import Othello
from azcaffe.games.registry import parse_game
from azcaffe.games.rollout import nth_legal
from azcaffe.games.tictactoe import TicTacToe
from azcaffe.search import CachedEvaluator, Search, SearchConfig, UniformEvaluator
from tests.games.walk import played, random_games

pyspiel = pytest.importorskip("pyspiel", reason="open_spiel is not installed (extra openspiel)")


@pytest.mark.parametrize(
    "game,theirs,count",
    [
        (TicTacToe(3, 3, 3), "tic_tac_toe", 10_000),
        (ConnectN(6, 7, 4), "connect_four", 10_000),
        (Othello(8), "othello", 200),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_random_games_are_the_same_under_both_rules(game: Game, theirs: str, count: int) -> None:
    positions = [pyspiel.load_game(theirs).new_initial_state() for _ in range(count)]
    for state, index, action, after in random_games(game, count, np.random.default_rng(1)):
        legal = game.legal(state)
        for row, number in enumerate(index.tolist()):
            position = positions[number]
            assert position.legal_actions() == legal[row].nonzero()[0].tolist()
            assert position.current_player() == (0 if state.to_move[row] == 1 else 1)
            position.apply_action(int(action[row]))
            assert position.is_terminal() == after.over[row]
            if after.over[row]:
                assert position.returns() == [after.winner[row], -after.winner[row]]
    assert all(position.is_terminal() for position in positions)


@pytest.mark.parametrize(
    "text,reason",
    [
        ("backgammon", "chance events"),
        ("matching_pennies_3p", "3 players"),
        ("goofspiel", "at the same time"),
        ("phantom_ttt", "do not see everything"),
        ("2048", "1 players"),
        ("nosuch", "knows no game 'nosuch'"),
        ("", "knows no game ''"),
        ("tic_tac_toe(size=4)", "Unknown parameter 'size'"),
        ("connect_four(rows=-3)", "refuses"),
        ("hex(board_size=0)", "refuses"),  # ends the process when OpenSpiel is asked directly
        ("go(board_size=19", "refuses"),
        ("go(board_size=9000)", "up to 19"),
    ],
)
def test_what_the_engine_cannot_play_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(GameError) as caught:
        parse_game(f"openspiel:{text}")
    assert reason in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text,shape,channels,actions",
    [
        ("tic_tac_toe", (3, 3), 4, 9),
        ("chess", (8, 8), 21, 4674),
        ("go(board_size=9)", (9, 9), 5, 82),
        ("mancala", (1, 1), 17, 14),  # a flat tensor of 16
        ("gomoku(size=5)", (1, 25), 4, 25),  # a tensor of 3 x 25
    ],
)
def test_planes_and_actions(text: str, shape: tuple[int, int], channels: int, actions: int) -> None:
    game = parse_game(f"openspiel:{text}")
    assert (game.shape, game.num_actions) == (shape, actions)
    encoding = Encoding.of_game(game)
    assert encoding is not None and encoding.channels == channels
    assert encode(game, game.initial(2), encoding).shape == (2, channels, *shape)


def test_the_last_plane_tells_the_mover() -> None:
    game = parse_game("openspiel:tic_tac_toe")
    assert (game.planes(game.initial(1))[0, -1] == 1).all()  # type: ignore[index]
    assert (game.planes(played(game, 4))[0, -1] == 0).all()  # type: ignore[index]


def test_winner_and_rollouts_of_chess() -> None:
    game = parse_game("openspiel:chess")
    state = game.initial(1)
    for name in ("f3", "e5", "g4", "Qh4#"):  # fool's mate
        position = state.board[0, 0]
        names = {position.action_to_string(a): a for a in position.legal_actions()}
        state = game.play(state, np.array([names[name]]))
    assert (bool(state.over[0]), int(state.winner[0])) == (True, -1)
    assert not game.legal(state).any()
    winner = game.rollout(game.initial(3), np.random.default_rng(0).random((3, game.rollout_draws)))
    assert np.isin(winner, (1, 0, -1)).all()


def test_rollouts_are_random_play() -> None:
    game = parse_game("openspiel:tic_tac_toe")
    winners = game.rollout(game.initial(1).repeat(4000), np.random.default_rng(2).random((4000, 1)))
    # 737/1260, 8/63, 121/420 exactly; 4.5 standard deviations
    for outcome, chance in ((1, 737 / 1260), (0, 8 / 63), (-1, 121 / 420)):
        assert abs((winners == outcome).mean() - chance) < 4.5 * np.sqrt(chance * (1 - chance) / 4000)


def test_a_drawn_position_lists_its_moves() -> None:
    game = parse_game("openspiel:tic_tac_toe")
    assert game.render(played(game, 4)).endswith(
        "moves: 0=o(0,0) 1=o(0,1) 2=o(0,2) 3=o(1,0) 5=o(1,2) 6=o(2,0) 7=o(2,1) 8=o(2,2)"
    )
    assert "moves" not in game.render(played(game, 0, 3, 1, 4, 2))


@pytest.mark.parametrize("text", ["chess", "go(board_size=9)"])
def test_the_search_plays_twenty_moves(text: str) -> None:
    game = parse_game(f"openspiel:{text}")
    search = Search(game, CachedEvaluator(UniformEvaluator(game), game, 1000), SearchConfig(simulations=8), slots=2)
    both, rng = np.arange(2), np.random.default_rng(3)
    search.reset(both, game.initial(2), [np.random.default_rng(seed) for seed in (1, 2)])
    for _ in range(20):
        result = search.run(both, noise=True)
        assert (result.visits.sum(axis=1) >= 8).all()
        search.advance(both, nth_legal(result.visits > 0, rng.random(2)))
    assert [len(position.history()) for position in search.states(both).board[:, 0]] == [20, 20]
