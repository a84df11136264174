# SPDX-License-Identifier: AGPL-3.0-or-later
"""A perfect player of Connect 7x6: PyPI's `bitbully` (extra `solver`), and positions to ask it about."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import AzcaffeError, GameError
from azcaffe.games.base import Game, State, concatenate
from azcaffe.games.rollout import random_step

NAME = "connectn(height=6,width=7,connect=4)"
ILLEGAL = -100
"""Below every score: those are at most 22 from 0."""
TRIES = 1000


class Oracle:
    """Scores of all moves under best play of both sides."""

    def __init__(self, game: Game) -> None:
        """
        Raises:
            GameError: not Connect 7x6 with four in a row.
            AzcaffeError: bitbully is not installed.
        """
        if game.name != NAME:
            raise GameError(f"the perfect solver knows {NAME} only, not {game.name}")
        try:
            import bitbully  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise AzcaffeError("the perfect solver is not installed: pip install 'azcaffe[solver]'") from None
        self._board: Any = bitbully.Board
        self._solver: Any = bitbully.BitBully()

    def scores(self, state: State, row: int = 0) -> NDArray[np.int16]:
        """(7,) int16, how good each column is for the mover: > 0 wins, the more the sooner; 0 draws; full: ILLEGAL."""
        columns = state.board[row].reshape(6, 7)[::-1].T  # (column, height), from the bottom up
        stones = np.where(columns == -1, 2, columns).tolist()
        scores = np.full(7, ILLEGAL, np.int16)
        for column, score in self._solver.score_all_moves(self._board(stones)).items():
            scores[column] = score
        return scores


def random_positions(game: Game, count: int, plies: range, rng: np.random.Generator) -> State:
    """`count` different positions (count) that go on, each after a number of random moves drawn from `plies`.

    Raises:
        GameError: there are not so many.
    """
    found: dict[bytes, State] = {}
    for _ in range(count * TRIES):
        if len(found) == count:
            break
        state = game.initial(1)
        for _ in range(int(rng.integers(plies.start, plies.stop))):
            if state.over[0]:
                break
            _, state = random_step(game, state, rng)
        if not state.over[0]:
            found.setdefault(game.keys(state)[0], state)
    if len(found) < count:
        raise GameError(f"{game.name} has no {count} different positions after {plies.start} … {plies.stop - 1} plies")
    return concatenate(list(found.values()))
