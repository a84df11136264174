# SPDX-License-Identifier: AGPL-3.0-or-later
"""A tree searched alone takes shorter ways through descent and backup: they must leave the very same bits behind."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azcaffe.games.base import Game, State
from azcaffe.games.connectn import ConnectN
from azcaffe.games.othello import Othello
from azcaffe.games.tictactoe import TicTacToe
from azcaffe.search import Search, SearchConfig, SearchResult
from azcaffe.search.descend import SINGLE
from tests.helpers.stub_net import StubNet

# Othello's players pass, so movers do not alternate; the past boards of the last one are stored with a node too.
GAMES = [TicTacToe(6, 6, 4), TicTacToe(3, 3, 3), ConnectN(4, 4, 4), Othello(4), TicTacToe(5, 5, 4, history=2)]


class PeakedNet(StubNet):
    """The stub's answers with the priors of a trained net, near 0 or near 1, and its values close to -1 or 1."""

    def __call__(self, states: State, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        priors, values = super().__call__(states, slots)
        sharp = priors**8
        return sharp / sharp.sum(axis=1, keepdims=True), np.cbrt(np.cbrt(values))


def play(game: Game, config: SearchConfig, net: StubNet, slot: int, slots: int) -> tuple[Search, list[SearchResult]]:
    """The searches of one game in `slot` of `slots`, to its end."""
    search = Search(game, net, config, slots)
    search.reset([slot], game.initial(1), [np.random.default_rng(3)])
    results = []
    while not search.states([slot]).over[0]:
        results.append(search.run([slot]))
        search.advance([slot], results[-1].selected)
    return search, results


@settings(max_examples=15, deadline=None)
@given(
    game=st.sampled_from(GAMES),
    net=st.sampled_from([StubNet, PeakedNet]),
    simulations=st.integers(1, 90),
    c_puct=st.floats(0, 50, width=16),
    variant=st.sampled_from(["corrected", "original"]),
    fpu=st.none() | st.floats(0, 2),
    root=st.sampled_from(["puct", "gumbel"]),
    noise=st.sampled_from([0.0, 0.25]),
    slot=st.integers(0, 2),
)
def test_alone_or_not_the_whole_tree_is_the_same_to_the_last_bit(
    game: Game, net: type[StubNet], simulations: int, c_puct: float, variant: str, fpu: float | None, root: str,
    noise: float, slot: int,
) -> None:  # fmt: skip
    config = SearchConfig(simulations, None, c_puct, variant, noise_epsilon=noise, fpu_reduction=fpu, root=root)
    short, results = play(game, config, net(game), slot, 3)
    with patch.dict(SINGLE, clear=True):
        general, expected = play(game, config, net(game), slot, 3)
    assert len(results) == len(expected)
    for mine, theirs in zip(results, expected, strict=True):
        for name, value in vars(theirs).items():
            assert np.array_equal(getattr(mine, name), value), name
    compare(short, general)


def compare(one: Search, other: Search) -> None:
    for name, array in vars(other.tree).items():
        if isinstance(array, np.ndarray) and name not in ("gathered", "totals"):
            assert getattr(one.tree, name).tobytes() == array.tobytes(), name
    for name in ("board", "to_move", "past"):
        assert np.array_equal(getattr(one.tree.states, name), getattr(other.tree.states, name)), name


@pytest.mark.parametrize("game", GAMES, ids=lambda g: g.name)
def test_the_same_when_the_tree_grows_and_its_arrays_move(game: Game) -> None:
    config = SearchConfig(simulations=700)  # the first allocation holds 256 nodes

    def searched() -> Search:
        search = Search(game, StubNet(game), config, 1)
        search.reset([0], game.initial(1), [np.random.default_rng(0)])
        for _ in range(2):
            search.advance([0], search.run([0]).selected)
        search.run([0])
        return search

    short = searched()
    with patch.dict(SINGLE, clear=True):
        general = searched()
    assert short.tree.nodes > 256 or game.num_actions < 20
    compare(short, general)
