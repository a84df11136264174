# SPDX-License-Identifier: AGPL-3.0-or-later
"""Self-play: targets for the right player (R13, R16), noise (R17), and games that do not depend on their neighbours."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import azcaffe.search.root
from azcaffe.encoding import Encoding
from azcaffe.errors import ConfigError
from azcaffe.games.base import Game, State
from azcaffe.games.registry import make_game
from azcaffe.replay import ReplayBuffer
from azcaffe.search import CachedEvaluator, RolloutEvaluator, SearchConfig, UniformEvaluator
from azcaffe.selfplay import PlayedGame, Samples, SelfPlayConfig, play_games, random_opening, value_targets
from azcaffe.training import sample_planes
from tests.helpers.stub_net import StubNet

GAME = make_game("tictactoe", height=3, width=3, connect=3)
PUBLISHED = SelfPlayConfig()
NOISY = SearchConfig(simulations=30, noise_epsilon=0.25)


def play(
    ids: list[int], search: SearchConfig = NOISY, config: SelfPlayConfig = PUBLISHED, seed: int = 5
) -> list[PlayedGame]:
    games = list(play_games(GAME, StubNet(GAME), search, config, seed, ids))
    assert sorted(game.game_id for game in games) == sorted(ids)
    return sorted(games, key=lambda game: game.game_id)


class Script:
    """An evaluator that leaves no choice: all prior is on the next move of a list, found by the stones on the board."""

    def __init__(self, game: Game, moves: list[int]) -> None:
        self.moves, self.num_actions = moves, game.num_actions

    def __call__(self, states: State, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        plies = np.abs(states.board).sum(axis=1)
        priors = np.full((len(states), self.num_actions), 1e-12, np.float32)
        priors[np.arange(len(states)), np.take(self.moves, plies, mode="clip")] = 1
        return priors, np.zeros(len(states), np.float32)


def scripted(game: Game, moves: list[int]) -> PlayedGame:
    """`moves` through the real self-play: one playout a move goes where the prior is."""
    search = SearchConfig(simulations=1)
    [played] = play_games(game, Script(game, moves), search, SelfPlayConfig(temperature_plies=0), 0, [0])
    assert list(played.actions) == moves
    return played


def test_r13_values_are_for_the_mover() -> None:
    # CASES R13: the targets of the positions before each move, side to move.
    assert scripted(GAME, [0, 3, 1, 4, 2]).samples.value.tolist() == [1, -1, 1, -1, 1]
    assert scripted(GAME, [0, 3, 1, 4, 8, 5]).samples.value.tolist() == [-1, 1, -1, 1, -1, 1]


def test_r13_a_pass_does_not_shift_the_targets() -> None:
    # The mover decides, not the ply: of movers 1, -1, 1, 1 (a pass between) the winner's are the positive ones.
    movers, searched = np.array([1, -1, 1, 1], np.int8), np.zeros(4, np.float32)
    assert value_targets(movers, 1, searched, 0).tolist() == [1, -1, 1, 1]
    assert value_targets(movers, -1, searched, 0).tolist() == [-1, 1, -1, -1]


def test_r16_draws_are_zero_for_both() -> None:
    played = scripted(GAME, [0, 1, 2, 4, 3, 5, 7, 6, 8])
    assert played.winner == 0
    assert played.samples.value.tolist() == [0] * 9
    connect = make_game("connectn", height=4, width=4, connect=4)
    played = scripted(connect, [0, 2, 0, 3, 1, 1, 0, 2, 1, 2, 3, 0, 3, 3, 2, 1])
    assert played.winner == 0
    assert played.samples.value.tolist() == [0] * 16


def test_samples_show_the_positions_in_order() -> None:
    samples = scripted(GAME.with_history(2), [0, 3, 1, 4, 2]).samples
    # By hand: x 0, o 3, x 1, o 4, x 2.
    assert samples.board.tolist() == [
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 0, -1, 0, 0, 0, 0, 0],
        [1, 1, 0, -1, 0, 0, 0, 0, 0],
        [1, 1, 0, -1, -1, 0, 0, 0, 0],
    ]
    assert samples.to_move.tolist() == [1, -1, 1, -1, 1]
    assert samples.past[4].tolist() == [[1, 1, 0, -1, 0, 0, 0, 0, 0], [1, 0, 0, -1, 0, 0, 0, 0, 0]]
    assert samples.past[0].any() == np.False_


def test_targets_are_the_visits_and_moves_are_legal() -> None:
    for played in play(list(range(20))):
        samples = played.samples
        assert len(samples) == len(played.actions)
        state = GAME.initial(1)
        for ply, action in enumerate(played.actions):
            assert np.array_equal(samples.board[ply], state.board[0])
            assert not samples.visits[ply][~GAME.legal(state)[0]].any()
            assert samples.visits[ply].sum() >= 30  # kept subtrees add to it
            assert samples.visits[ply][action] > 0
            state = GAME.play(state, np.array([action]))
        assert state.over[0] and state.winner[0] == played.winner


def test_a_game_is_the_same_alone_and_among_others() -> None:
    together = play(list(range(16)))
    for game_id in (0, 7, 15):
        [alone] = play([game_id])
        assert alone.actions == together[game_id].actions
        for field in fields(Samples):
            assert np.array_equal(getattr(alone.samples, field.name), getattr(together[game_id].samples, field.name))
    assert len({game.actions for game in together}) > 8  # and games differ
    assert play([3], seed=6)[0].actions != together[3].actions


def test_rollouts_and_a_cache_do_not_couple_games_either() -> None:
    config = SelfPlayConfig()
    with_rollouts = [
        {game.game_id: game.actions for game in play_games(GAME, RolloutEvaluator(GAME), NOISY, config, 1, ids)}
        for ids in (range(8), range(4, 12))
    ]
    assert all(with_rollouts[0][i] == with_rollouts[1][i] for i in range(4, 8))
    cached = play_games(GAME, CachedEvaluator(StubNet(GAME), GAME, 50), NOISY, config, 5, range(8))
    assert {g.game_id: g.actions for g in cached} == {g.game_id: g.actions for g in play(list(range(8)))}


def test_r17_one_noise_draw_a_searched_root_over_its_legal_moves() -> None:
    real = azcaffe.search.root.mix_noise
    drawn: list[tuple[int, np.ndarray]] = []

    def spy(prior, legal, config, rng):  # type: ignore[no-untyped-def]
        mixed = real(prior, legal, config, rng)
        assert mixed.sum() == pytest.approx(1, abs=1e-6)
        assert not mixed[~legal].any()
        if legal.sum() == 1:
            assert mixed[legal] == pytest.approx(1)
        drawn.append((int(legal.sum()), mixed))
        return mixed

    with mock.patch("azcaffe.search.engine.mix_noise", spy):
        [played] = play([2])
    assert [legal for legal, _ in drawn] == [9 - ply for ply in range(len(played.actions))]
    drawn.clear()
    with mock.patch("azcaffe.search.engine.mix_noise", spy):
        play([2], SearchConfig(simulations=30))
    assert not drawn


def test_temperature_draws_in_proportion_to_visits() -> None:
    # Prior 1/9 each, value 0 and 9 playouts: one visit each at the first root, so each first move has probability 1/9.
    games = play_games(GAME, UniformEvaluator(GAME), SearchConfig(simulations=9), SelfPlayConfig(), 0, range(900))
    counts = np.bincount([game.actions[0] for game in games], minlength=9)
    assert np.all(np.abs(counts - 100) < 5 * np.sqrt(900 / 9 * 8 / 9))


def test_temperature_drop_plays_the_most_visited_move() -> None:
    for played in play(list(range(10)), config=SelfPlayConfig(temperature_plies=2)):
        for ply in range(2, len(played.actions)):
            assert played.actions[ply] == played.samples.visits[ply].argmax()


def test_low_temperature_prefers_the_most_visited_move() -> None:
    cold = play(list(range(10)), config=SelfPlayConfig(temperature=0.01))
    best = [ply.argmax() == move for game in cold for ply, move in zip(game.samples.visits, game.actions, strict=True)]
    assert np.mean(best) > 0.9


def test_playout_cap_randomisation_records_full_searches_only() -> None:
    config = SelfPlayConfig(full_probability=0.25, fast_simulations=5)
    games = play(list(range(60)), SearchConfig(simulations=200, noise_epsilon=0.25), config)
    plies = sum(len(game.actions) for game in games)
    samples = sum(len(game.samples) for game in games)
    assert abs(samples - plies / 4) < 5 * np.sqrt(plies * 3 / 16)
    assert min(game.samples.visits.sum(axis=1).min(initial=200) for game in games) >= 200
    for game in games:
        assert np.array_equal(game.samples.value, game.samples.to_move * np.float32(game.winner))


def test_random_openings_are_played_and_not_learned() -> None:
    ids = list(range(400))
    plain, opened = play(ids), play(ids, config=SelfPlayConfig(opening_plies=3))
    lengths = [len(game.actions) - len(game.samples) for game in opened]
    # 0, 1, 2 or 3 random moves with probability 1/4 each; none of them can end a game of 3x3.
    assert np.all(np.abs(np.bincount(lengths, minlength=4) - 100) < 5 * np.sqrt(400 * 3 / 16))
    for game, length in zip(opened, lengths, strict=True):
        state = GAME.initial(1)
        for action in game.actions[:length]:
            state = GAME.play(state, np.array([action]))
        assert np.array_equal(game.samples.board[0], state.board[0])
        assert np.array_equal(game.samples.value, game.samples.to_move * np.float32(game.winner))
    firsts = np.bincount([game.actions[0] for game, n in zip(opened, lengths, strict=True) if n], minlength=9)
    assert np.all(np.abs(firsts - firsts.sum() / 9) < 5 * np.sqrt(firsts.sum() / 9 * 8 / 9))
    assert all(len(game.actions) == len(game.samples) for game in plain)


def test_an_opening_never_ends_the_game() -> None:
    for seed in range(50):
        moves, state = random_opening(GAME, 9, np.random.default_rng(seed))
        assert not state.over[0]
        assert np.count_nonzero(state.board) == len(moves)


def test_value_targets_are_mixed_from_result_and_search() -> None:
    assert value_targets(np.array([1, -1], np.int8), 1, np.array([0.5, 0.2], np.float32), 0.5).tolist() == [
        0.75, pytest.approx(-0.4),
    ]  # fmt: skip
    # One playout a move, moves forced by the prior. The stub says 0 everywhere; the last move's one playout ends the
    # game, so its search says 1; the moves before are a result of +-1 mixed half and half with 0.
    search = SearchConfig(simulations=1)
    config = SelfPlayConfig(temperature_plies=0, value_mix=0.5)
    [played] = play_games(GAME, Script(GAME, [0, 3, 1, 4, 2]), search, config, 0, [0])
    assert played.samples.value.tolist() == [0.5, -0.5, 0.5, -0.5, 1.0]


def test_gumbel_targets_are_the_improved_policy() -> None:
    games = play(list(range(6)), SearchConfig(simulations=16, root="gumbel", gumbel_considered=4))
    for game in games:
        policy = game.samples.policy()
        assert np.allclose(policy.sum(axis=1), 1, atol=1e-6)
        occupied = game.samples.board != 0
        assert not policy[occupied].any()
        assert np.all((policy > 0).sum(axis=1) >= np.minimum(1, 9 - occupied.sum(axis=1)))


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": 0}, {"temperature": float("nan")}, {"temperature_plies": -1}, {"full_probability": 0.0},
     {"full_probability": 1.1}, {"fast_simulations": 0}, {"opening_plies": -1}, {"value_mix": 1.5}],
)  # fmt: skip
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SelfPlayConfig(**wrong)  # type: ignore[arg-type]


def test_games_with_planes_of_their_own_are_kept_as_planes(tmp_path: Path) -> None:
    pytest.importorskip("pyspiel")
    game = pickle.loads(pickle.dumps(make_game("openspiel:breakthrough(rows=4,columns=4)")))  # as a worker gets it
    [played] = play_games(game, UniformEvaluator(game), SearchConfig(simulations=10), SelfPlayConfig(), 0, [0])
    buffer = ReplayBuffer(game, 100)
    buffer.append(played.samples)
    buffer.save(tmp_path / "replay.npz")
    kept = ReplayBuffer.load(tmp_path / "replay.npz", game).contents()
    state = game.initial(1)
    for ply, action in enumerate(played.actions):
        assert np.array_equal(kept.board[ply], game.planes(state)[0])
        state = game.play(state, np.array([action]))
    assert np.array_equal(sample_planes(game, kept, Encoding.of_game(game)), kept.board)
