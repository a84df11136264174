# SPDX-License-Identifier: AGPL-3.0-or-later
"""Games in memory: bounded, forgotten in time, undone; and what the page is told about a position."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the page needs FastAPI (extra web)")

from azcaffe.errors import GameError
from azcaffe.games import make_game, parse_game
from azcaffe.web.catalog import ROLLOUTS, Catalog, UnknownOffer
from azcaffe.web.engine import Analysis
from azcaffe.web.sessions import SessionStore, UnknownSession
from azcaffe.web.view import game_view, kind_of, legal_moves, replay_view

TICTACTOE = make_game("tictactoe", height=3, width=3, connect=3)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def analysis(playouts: int, value: float = 0.25) -> Analysis:
    zeros = np.zeros(9, np.float32)
    return Analysis(zeros.astype(np.int32), zeros, zeros, value, value, [], playouts)


def test_the_longest_unused_session_makes_room() -> None:
    store = SessionStore(capacity=2)
    first, second = (store.create(TICTACTOE, ROLLOUTS, "first") for _ in range(2))
    store.get(first.id)
    third = store.create(TICTACTOE, ROLLOUTS, "first")
    assert store.get(first.id) is first
    assert store.get(third.id) is third
    with pytest.raises(UnknownSession):
        store.get(second.id)
    assert len(store) == 2


def test_sessions_expire_after_their_last_use() -> None:
    clock = Clock()
    store = SessionStore(10, 60, clock)
    kept, lost = (store.create(TICTACTOE, ROLLOUTS, "first") for _ in range(2))
    clock.now = 50
    store.get(kept.id)
    clock.now = 100
    assert store.get(kept.id) is kept
    with pytest.raises(UnknownSession):
        store.get(lost.id)
    store.drop(kept.id)
    with pytest.raises(UnknownSession):
        store.drop(kept.id)


def test_ids_cannot_be_guessed() -> None:
    store = SessionStore()
    ids = {store.create(TICTACTOE, ROLLOUTS, "first").id for _ in range(50)}
    assert len(ids) == 50
    assert all(len(id_) == 22 for id_ in ids)  # 128 random bits


def test_undo_forgets_moves_and_what_was_seen_after_them() -> None:
    session = SessionStore().create(TICTACTOE, ROLLOUTS, "first")
    for move in (0, 3, 1):
        session.play(move)
    for ply in range(4):
        session.learn(ply, analysis(10))
    session.undo_to(1)
    assert session.actions == [0]
    assert len(session.states) == 2
    assert set(session.analyses) == {0, 1}
    session.learn(1, analysis(5))
    assert session.analyses[1].playouts == 10  # a shorter search does not replace a longer one


def test_values_are_told_as_the_first_player_sees_them() -> None:
    session = SessionStore().create(TICTACTOE, ROLLOUTS, "first")
    session.learn(0, analysis(10, 0.25))
    session.play(0)
    session.learn(1, analysis(10, 0.25))  # good for the second player, who is to move
    assert [position.value for position in game_view(session).positions] == [0.25, -0.25]
    for move in (3, 1, 4, 2):
        session.play(move)
    view = game_view(session)
    assert view.over and view.winner == 1 and view.line == [0, 1, 2] and view.legal == []
    assert view.positions[-1].value == 1
    assert view.positions[-1].board == "xxxoo...."


def test_a_stone_falls_to_the_lowest_free_cell() -> None:
    """6 x 7: column 3 is cell 38 in the bottom row, then 31 above it."""
    game = make_game("connectn")
    view = replay_view(game, [3, 3])
    assert [position.cell for position in view.positions] == [None, 38, 31]
    state = game.play(game.play(game.initial(1), np.array([3])), np.array([3]))
    assert [move.cell for move in legal_moves(game, state)] == [35, 36, 37, 24, 39, 40, 41]
    assert view.kind == "columns"


def test_all_lines_of_a_double_win_are_marked() -> None:
    """x at 0 1 2 and 0 3 6 by the last stone at 0: rows and columns of 3x3, row-major."""
    view = replay_view(TICTACTOE, [1, 4, 2, 5, 3, 7, 6, 8, 0])
    assert view.winner == 1
    assert view.line == [0, 1, 2, 3, 6]


def test_a_pass_in_othello_has_no_square() -> None:
    """On 4x4 some random game contains a pass; passes and only passes put no stone."""
    game = make_game("othello", size=4)
    passes = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        state, actions = game.initial(1), []
        while not state.over[0]:
            actions.append(int(rng.choice(np.flatnonzero(game.legal(state)[0]))))
            state = game.play(state, np.array([actions[-1]]))
        cells = [position.cell for position in replay_view(game, actions).positions[1:]]
        assert cells == [action if action < 16 else None for action in actions]
        passes += cells.count(None)
    assert passes > 0


def test_the_catalog_offers_what_the_server_was_started_with() -> None:
    catalog = Catalog(games=["tictactoe(height=12,width=12,connect=5)"])
    assert catalog.game("tictactoe").name == "tictactoe(height=6,width=6,connect=4)"
    assert catalog.game("tictactoe(history=8)").history == 0
    assert catalog.game("tictactoe(height=12,width=12,connect=5)").cells == 144
    assert kind_of(catalog.game("othello(size=6)")) == "discs"
    for refused in ("tictactoe(height=11)", "connectn(width=26)"):
        with pytest.raises(GameError, match="boards on this server"):
            catalog.game(refused)
    with pytest.raises(UnknownOffer):
        catalog.game("openspiel:chess")
    with pytest.raises(UnknownOffer):
        catalog.net("../../etc/passwd", parse_game("tictactoe"))


def test_other_games_are_text_and_named_moves() -> None:
    """Hex 3x3 of OpenSpiel: its own action names (action 4 is b2) and drawing, without the list of moves below it."""
    pytest.importorskip("pyspiel", reason="needs open_spiel (extra openspiel)")
    catalog = Catalog(games=["openspiel:hex(board_size=3)"])
    session = SessionStore().create(catalog.game("openspiel:hex(board_size=3)"), ROLLOUTS, "both")
    session.play(4)
    view = game_view(session)
    assert view.kind == "text"
    assert [position.move for position in view.positions] == [None, "b2"]
    assert view.positions[1].board == "" and "moves:" not in (view.positions[1].text or "moves:")
    assert [move.name for move in view.legal] == ["a1", "b1", "c1", "a2", "c2", "a3", "b3", "c3"]
    assert {move.cell for move in view.legal} == {None}
