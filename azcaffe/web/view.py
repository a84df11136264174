# SPDX-License-Identifier: AGPL-3.0-or-later
"""From positions and searches to what the page is told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from azcaffe.games.base import Game, State
from azcaffe.games.lines import Lines
from azcaffe.web.engine import Analysis
from azcaffe.web.models import AnalysisView, GameView, Kind, MoveAnalysis, MoveView, PositionView, Replay
from azcaffe.web.sessions import Session

KINDS: dict[str, Kind] = {"tictactoe": "grid", "connectn": "columns", "othello": "discs"}
STONES = ".xo"


def kind_of(game: Game) -> Kind:
    """How the page draws the game."""
    return KINDS.get(game.name.partition("(")[0], "text")


def move_cells(game: Game, state: State, actions: Sequence[int]) -> list[int | None]:
    """The square on which each of `actions`, legal in `state` (B = 1), puts a stone."""
    if kind_of(game) == "text" or not actions:
        return [None] * len(actions)
    after = game.step(state.repeat(len(actions)), np.asarray(actions))
    return [_new_stone(state, after, row) for row in range(len(actions))]


def _new_stone(before: State, after: State, row: int = 0) -> int | None:
    """The square empty in `before` (B = 1) and not in position `row` of `after`; None after a pass."""
    new = (before.board[0] == 0) & (after.board[row] != 0)
    return int(new.argmax()) if new.any() else None


def legal_moves(game: Game, state: State) -> list[MoveView]:
    """All of them, in the order of their numbers."""
    actions = np.flatnonzero(game.legal(state)[0]).tolist()
    cells = move_cells(game, state, actions)
    return [MoveView(action=a, name=game.move_label(a, state), cell=c) for a, c in zip(actions, cells, strict=True)]


def winning_line(game: Game, state: State) -> list[int]:
    """Squares of the winner's rows, for games of N in a row."""
    found = re.search(r"connect=(\d+)", game.name)
    winner = int(state.winner[0])
    if found is None or winner == 0:
        return []
    lines = Lines(*game.shape, int(found[1])).cells
    complete = (state.board[0][lines] == winner).all(axis=1)
    return sorted(set(lines[complete].ravel().tolist()))


def positions(
    game: Game, states: Sequence[State], actions: Sequence[int], analyses: dict[int, Analysis]
) -> list[PositionView]:
    """The whole game, the start first."""
    text = kind_of(game) == "text"
    views = []
    for ply, state in enumerate(states):
        action = actions[ply - 1] if ply else None
        cell = None if action is None or text else _new_stone(states[ply - 1], state)
        mover, over = int(state.to_move[0]), bool(state.over[0])
        analysis = analyses.get(ply)
        value = float(state.winner[0]) if over else analysis.value * mover if analysis is not None else None
        views.append(
            PositionView(
                ply=ply,
                board="" if text else "".join(STONES[stone] for stone in state.board[0].tolist()),
                text=_board_text(game.render(state, 0, action)) if text else None,
                move=None if action is None else game.move_label(action, states[ply - 1]),
                cell=cell,
                to_move=mover,
                value=value,
            )
        )
    return views


def _board_text(text: str) -> str:
    """A drawn board without the list of moves below it, which the page shows as buttons."""
    return text.partition("\nmoves: ")[0]


def _line_names(game: Game, state: State, line: Sequence[int]) -> list[str]:
    names = []
    for action in line:
        names.append(game.move_label(action, state))
        state = game.step(state, np.array([action]))
    return names


def replay_view(game: Game, actions: Sequence[int]) -> Replay:
    """A recorded game.

    Raises:
        GameError: a move is not legal.
    """
    states = [game.initial(1)]
    for action in actions:
        states.append(game.play(states[-1], np.array([action])))
    return Replay(**_common(game, states, actions, {}))


def game_view(session: Session) -> GameView:
    """A game in progress."""
    common = _common(session.game, session.states, session.actions, session.analyses)
    legal = legal_moves(session.game, session.states[-1])
    return GameView(**common, id=session.id, net=session.net.id, human=session.human, legal=legal)


def _common(
    game: Game, states: Sequence[State], actions: Sequence[int], analyses: dict[int, Analysis]
) -> dict[str, Any]:
    last = states[-1]
    return {
        "game": game.name,
        "kind": kind_of(game),
        "height": game.shape[0],
        "width": game.shape[1],
        "positions": positions(game, states, actions, analyses),
        "over": bool(last.over[0]),
        "winner": int(last.winner[0]),
        "line": winning_line(game, last),
    }


def analysis_view(game: Game, state: State, ply: int, analysis: Analysis) -> AnalysisView:
    """A search, its moves sorted by visits, then by prior."""
    mover = int(state.to_move[0])
    actions = np.flatnonzero(game.legal(state)[0])
    order = actions[np.lexsort((-analysis.priors[actions], -analysis.visits[actions]))].tolist()
    total = max(1, int(analysis.visits.sum()))
    moves = [
        MoveAnalysis(
            action=action,
            name=game.move_label(action, state),
            cell=cell,
            prior=round(float(analysis.priors[action]), 5),
            visits=int(analysis.visits[action]),
            share=round(int(analysis.visits[action]) / total, 5),
            q=round(float(analysis.q[action]), 4),
        )
        for action, cell in zip(order, move_cells(game, state, order), strict=True)
    ]
    return AnalysisView(
        ply=ply,
        playouts=analysis.playouts,
        value=round(analysis.value * mover, 4),
        net_value=round(analysis.net_value * mover, 4),
        to_move=mover,
        line=_line_names(game, state, analysis.line),
        moves=moves,
    )
