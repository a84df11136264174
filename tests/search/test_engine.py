# SPDX-License-Identifier: AGPL-3.0-or-later
"""The lockstep engine against a naive scalar search, and the rules that any search here must keep."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.errors import ConfigError, GameError
from azcaffe.games.base import Game, State, concatenate
from azcaffe.games.connectn import ConnectN
from azcaffe.games.tictactoe import TicTacToe
from azcaffe.search import CachedEvaluator, Search, SearchConfig, UniformEvaluator, principal_variation
from tests.helpers.reference_mcts import ReferenceSearch
from tests.helpers.stub_net import StubNet

GAMES = [TicTacToe(6, 6, 4), TicTacToe(3, 3, 3), TicTacToe(5, 5, 4), ConnectN(6, 7, 4), ConnectN(4, 4, 4)]


def played(game: Game, *moves: int) -> State:
    """One position after `moves`."""
    state = game.initial(1)
    for move in moves:
        state = game.play(state, np.array([move]))
    return state


def random_positions(game: Game, count: int, seed: int) -> State:
    """`count` unfinished positions, 0 to 7 random plies from the start."""
    rng = np.random.default_rng(seed)
    found: list[State] = []
    while len(found) < count:
        state = game.initial(1)
        for _ in range(rng.integers(8)):
            following = game.play(state, np.array([rng.choice(np.flatnonzero(game.legal(state)[0]))]))
            if following.over[0]:
                break
            state = following
        found.append(state)
    return concatenate(found)


def streams(count: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, g]) for g in range(count)]


def search_visits(game: Game, states: State, config: SearchConfig, evaluate=None) -> np.ndarray:
    search = Search(game, evaluate or StubNet(game), config, len(states))
    slots = np.arange(len(states))
    search.reset(slots, states, streams(len(states)))
    return search.run(slots).visits


@pytest.mark.parametrize("variant", ["corrected", "original"])
@pytest.mark.parametrize("game", GAMES, ids=lambda g: g.name)
def test_bit_equal_to_the_naive_search_alone_and_beside_127_others(game: Game, variant: str) -> None:
    config = SearchConfig(simulations=120, variant=variant)
    states = random_positions(game, 128, seed=1)
    together = search_visits(game, states, config)
    assert (together.sum(axis=1) == 120).all()
    for row in (0, 17, 127):
        one = states.take(np.array([row]))
        assert np.array_equal(search_visits(game, one, config)[0], together[row])
        reference = ReferenceSearch(game, StubNet(game).scalar, 3.0, variant == "original")
        root, _ = reference.node(one, visits=0)
        naive = reference.search(root, 120)
        assert {a: int(n) for a, n in enumerate(together[row]) if n} == {a: n for a, n in naive.items() if n}


def test_values_equal_the_naive_search_too() -> None:
    game = TicTacToe(6, 6, 4)
    search = Search(game, StubNet(game), SearchConfig(simulations=300), 1)
    search.reset([0], game.initial(1), streams(1))
    result = search.run([0])
    reference = ReferenceSearch(game, StubNet(game).scalar, 3.0, original=False)
    root, value = reference.node(game.initial(1), visits=0)
    reference.search(root, 300)
    sums = np.array([root.sums[a] for a in range(36)])
    counts = np.array([root.counts[a] for a in range(36)])
    assert result.value[0] == np.float32(sums.sum() / 300)
    assert np.array_equal(result.q[0], (sums / np.maximum(counts, 1)).astype(np.float32))
    assert result.net_value[0] == np.float32(value)


@pytest.mark.parametrize("game", GAMES[:2] + GAMES[3:4], ids=lambda g: g.name)
def test_a_reused_subtree_goes_on_as_the_naive_one_does(game: Game) -> None:
    config = SearchConfig(simulations=260)  # more than the first allocation of nodes holds
    search = Search(game, StubNet(game), config, 3)
    search.reset([0, 1, 2], random_positions(game, 3, seed=2), streams(3))
    state = search.states([1])
    reference = ReferenceSearch(game, StubNet(game).scalar, 3.0, original=False)
    root, _ = reference.node(state, visits=0)
    while True:
        visits = search.run([0, 1, 2] if not search.states([0, 2]).over.any() else [1]).visits
        mine = visits[1] if len(visits) == 3 else visits[0]
        naive = reference.search(root, 260)
        assert {a: int(n) for a, n in enumerate(mine) if n} == {a: n for a, n in naive.items() if n}
        move = int(mine.argmax())
        search.advance([1], [move])
        if search.states([1]).over[0]:
            break
        root = root.children[move]


def test_an_unsearched_move_starts_a_fresh_tree() -> None:
    game = TicTacToe(3, 3, 3)
    search = Search(game, StubNet(game), SearchConfig(simulations=1), 1)
    search.reset([0], game.initial(1), streams(1))
    assert search.run([0]).visits[0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0]  # sqrt(0): all scores equal
    search.advance([0], [8])
    assert search.states([0]).board[0].tolist() == [0] * 8 + [1]
    assert search.run([0]).visits[0].sum() == 1


@pytest.mark.parametrize("slots", [1, 40])
def test_cache_and_deduplication_change_nothing(slots: int) -> None:
    game = TicTacToe(6, 6, 4)
    states = random_positions(game, 4, seed=3).repeat(slots // 4 or 1).take(np.arange(slots))
    config = SearchConfig(simulations=150)
    plain_net = StubNet(game)
    plain = search_visits(game, states, config, plain_net)
    for capacity, deduplicate in ((0, True), (100, False), (100, True), (50_000, True)):
        net = StubNet(game)
        cached = CachedEvaluator(net, game, capacity, deduplicate=deduplicate)
        assert np.array_equal(search_visits(game, states, config, cached), plain)
        assert cached.misses == net.asked
        assert cached.hits + cached.misses == plain_net.asked
    if slots == 40:  # ten copies of each position
        assert net.asked < plain_net.asked / 9.9


def test_folded_cache_answers_a_symmetric_position_with_turned_priors() -> None:
    game = TicTacToe(3, 3, 3)
    net = StubNet(game)
    cached = CachedEvaluator(net, game, 100, fold_symmetries=True)
    priors, values = cached(concatenate([played(game, corner) for corner in (0, 2, 8, 6)]), np.arange(4))
    assert net.asked == 1 and cached.hits == 3
    assert len(set(values.tolist())) == 1
    for row, corner in enumerate((0, 2, 8, 6)):
        # The stone's own square and the centre are fixed points of the maps, so their priors must travel with them.
        assert priors[row, corner] == priors[0, 0]
        assert priors[row, 4] == priors[0, 4]


def test_a_forced_win_is_found_for_either_player() -> None:
    # R13: uniform priors, value 0. X{0,1} O{3,4}, X to move: 2 wins. X{0,1,8} O{3,4}, O to move: 5 wins.
    # X{0,1} O{4}, O to move: only 2 holds.
    game = TicTacToe(3, 3, 3)
    for moves, simulations, best in (((0, 3, 1, 4), 200, 2), ((0, 3, 1, 4, 8), 200, 5), ((0, 4, 1), 800, 2)):
        search = Search(game, UniformEvaluator(game), SearchConfig(simulations=simulations), 1)
        search.reset([0], played(game, *moves), streams(1))
        result = search.run([0])
        assert result.selected[0] == best
        if simulations == 200:
            assert result.value[0] > 0
            assert principal_variation(search, 0) == [best]


def test_a_draw_one_ply_away_is_worth_exactly_nothing() -> None:
    # R16: two full boards without a line, one ply before the end.
    tic = (TicTacToe(3, 3, 3), (0, 1, 2, 4, 3, 5, 7, 6, 8))
    four = (ConnectN(4, 4, 4), (0, 2, 0, 3, 1, 1, 0, 2, 1, 2, 3, 0, 3, 3, 2, 1))
    for game, moves in (tic, four):
        search = Search(game, UniformEvaluator(game), SearchConfig(simulations=20), 1)
        search.reset([0], played(game, *moves[:-1]), streams(1))
        result = search.run([0])
        assert result.value[0] == 0
        assert result.visits[0, moves[-1]] == 20
        assert result.evaluations == 1  # the root; the ended game costs none


class SpyRng:
    """A generator that writes down every Dirichlet draw."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.lengths: list[int] = []

    def dirichlet(self, alpha: np.ndarray) -> np.ndarray:
        self.lengths.append(len(alpha))
        return self.rng.dirichlet(alpha)


def test_noise_is_drawn_once_a_root_over_legal_moves_and_reaches_no_inner_node() -> None:
    # R17
    game = TicTacToe(3, 3, 3)
    spy = SpyRng()
    search = Search(game, StubNet(game), SearchConfig(simulations=60, noise_epsilon=0.25), 1)
    search.reset([0], game.initial(1), [spy])  # type: ignore[list-item]
    clean = StubNet(game).scalar(game.initial(1))[0]
    clean = clean / clean.sum()
    result = search.run([0])
    assert np.allclose(result.priors[0], clean, atol=1e-6)
    search.run([0])  # the same root again: no second draw
    assert spy.lengths == [9]
    mixed = search.tree.prior[0]
    assert mixed.sum() == pytest.approx(1, abs=1e-6) and not np.allclose(mixed, clean, atol=1e-3)
    inner = search.tree.child[0][search.tree.child[0] > 0]
    for node in inner:
        legal = np.isfinite(search.tree.score[node, 0])
        priors, _ = StubNet(game).scalar(search.tree.states.take(np.array([node])))
        assert np.allclose(search.tree.prior[node][legal], priors[legal] / priors[legal].sum(), atol=1e-6)
        assert (search.tree.prior[node][~legal] == 0).all()
    move = int(result.selected[0])
    search.advance([0], [move])  # the root comes from reuse, and still gets its noise, over 8 moves
    search.run([0])
    assert spy.lengths == [9, 8]
    assert search.tree.prior[0].sum() == pytest.approx(1, abs=1e-6)
    assert search.tree.prior[0, move] == 0


def test_noise_over_a_single_legal_move_is_that_move() -> None:
    game = TicTacToe(3, 3, 3)
    search = Search(game, StubNet(game), SearchConfig(simulations=5, noise_epsilon=1.0), 1)
    search.reset([0], played(game, 0, 1, 2, 4, 3, 5, 7, 6), streams(1))
    search.run([0])
    assert search.tree.prior[0].tolist() == [0] * 8 + [1.0]


def test_an_evaluation_without_noise_draws_none() -> None:
    game = TicTacToe(3, 3, 3)
    spy = SpyRng()
    search = Search(game, StubNet(game), SearchConfig(simulations=30), 1)
    search.reset([0], game.initial(1), [spy])  # type: ignore[list-item]
    before = search.run([0]).visits
    noisy = Search(game, StubNet(game), SearchConfig(simulations=30, noise_epsilon=0.25), 1)
    noisy.reset([0], game.initial(1), [spy])  # type: ignore[list-item]
    assert np.array_equal(noisy.run([0], noise=False).visits, before)
    assert spy.lengths == []


def test_budgets_may_differ_from_tree_to_tree() -> None:
    game = TicTacToe(6, 6, 4)
    search = Search(game, StubNet(game), SearchConfig(simulations=10), 4)
    search.reset([0, 1, 2, 3], game.initial(4), streams(4))
    result = search.run([0, 1, 2, 3], simulations=np.array([5, 300, 0, 17]))
    assert result.visits.sum(axis=1).tolist() == [5, 300, 0, 17]
    assert result.playouts == 322
    assert result.value[2] == result.net_value[2]


def test_time_limit_ends_the_search_and_gives_every_tree_a_playout() -> None:
    game = TicTacToe(6, 6, 4)
    for simulations, at_most in ((None, 10**9), (3, 3)):
        search = Search(game, UniformEvaluator(game), SearchConfig(simulations=simulations, time_ms=30), 2)
        search.reset([0, 1], game.initial(2), streams(2))
        counts = search.run([0, 1]).visits.sum(axis=1)
        assert counts[0] == counts[1] and 1 <= counts[0] <= at_most
    search = Search(game, UniformEvaluator(game), SearchConfig(simulations=None, time_ms=1e-9), 1)
    search.reset([0], game.initial(1), streams(1))
    assert search.run([0]).playouts == 1


def test_finished_games_and_illegal_moves_are_refused_and_change_nothing() -> None:
    game = TicTacToe(3, 3, 3)
    search = Search(game, StubNet(game), SearchConfig(simulations=50), 2)
    search.reset([0, 1], concatenate([played(game, 0, 3, 1, 4, 2), played(game, 4)]), streams(2))
    with pytest.raises(GameError, match="over"):
        search.run([0, 1])
    visits = search.run([1]).visits
    with pytest.raises(GameError, match="not a legal move"):
        search.advance([1], [4])
    assert np.array_equal(search.run([1], simulations=0).visits, visits)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"simulations": 0}, "simulations"),
        ({"simulations": -5}, "simulations"),
        ({"simulations": None}, "limit"),
        ({"time_ms": 0.0}, "time_ms"),
        ({"time_ms": float("nan")}, "time_ms"),
        ({"c_puct": float("nan")}, "c_puct"),
        ({"c_puct": -1.0}, "c_puct"),
        ({"variant": "fixed"}, "corrected or original"),
        ({"noise_alpha": 0.0}, "alpha"),
        ({"noise_epsilon": 1.5}, "epsilon"),
        ({"fpu_reduction": -0.1}, "fpu_reduction"),
        ({"root": "ucb"}, "root"),
        ({"root": "gumbel", "gumbel_considered": 0}, "gumbel_considered"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        SearchConfig(**wrong)


def test_urgency_reduction_holds_back_unvisited_moves() -> None:
    # With the published rule an unvisited move counts 0; from a lost-looking node that draws visits to new moves.
    game = TicTacToe(6, 6, 4)
    states = random_positions(game, 30, seed=5)
    published = search_visits(game, states, SearchConfig(simulations=100))
    reduced = search_visits(game, states, SearchConfig(simulations=100, fpu_reduction=1.0))
    assert (reduced.sum(axis=1) == 100).all()
    assert (reduced > 0).sum() < (published > 0).sum()
