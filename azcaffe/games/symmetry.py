# SPDX-License-Identifier: AGPL-3.0-or-later
"""Maps of a board onto itself, and their use on everything that has a place on the board.

A policy, a past board or a plane that is left behind when its board turns teaches a net nonsense, so all of them go
through the functions here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import State, Symmetry

_Turn = Callable[[NDArray], NDArray]

_OF_RECTANGLES: tuple[tuple[str, _Turn], ...] = (
    ("identity", lambda grid: grid),
    ("mirror left-right", lambda grid: grid[:, ::-1]),
    ("mirror up-down", lambda grid: grid[::-1]),
    ("rotate 180", lambda grid: grid[::-1, ::-1]),
)
_OF_SQUARES: tuple[tuple[str, _Turn], ...] = (
    *_OF_RECTANGLES,
    ("transpose", lambda grid: grid.T),
    ("rotate 90", lambda grid: np.rot90(grid)),
    ("rotate 270", lambda grid: np.rot90(grid, -1)),
    ("transpose, rotate 180", lambda grid: grid.T[::-1, ::-1]),
)


def board_symmetries(height: int, width: int, extra_actions: int = 0) -> tuple[Symmetry, ...]:
    """The 8 maps of a square, or the 4 of another rectangle, for games whose actions are the cells.

    `extra_actions` more (a pass) follow the cells and stay what they are.
    """
    turns = _OF_SQUARES if height == width else _OF_RECTANGLES
    grid = np.arange(height * width).reshape(height, width)
    extra = np.arange(extra_actions) + height * width
    maps = [(name, turn(grid).ravel()) for name, turn in turns]
    return tuple(Symmetry(name, cells, np.concatenate([cells, extra])) for name, cells in maps)


def gravity_symmetries(height: int, width: int) -> tuple[Symmetry, ...]:
    """The identity and the mirror, for games whose actions are the columns: stones must still fall down."""
    grid = np.arange(height * width).reshape(height, width)
    columns = np.arange(width)
    return (
        Symmetry("identity", grid.ravel(), columns),
        Symmetry("mirror left-right", grid[:, ::-1].ravel(), columns[::-1].copy()),
    )


def turn_boards(symmetry: Symmetry, boards: NDArray) -> NDArray:
    """The images of boards (…, cells), past ones (B, K, cells) included."""
    return boards.take(symmetry.cells, axis=-1)


def turn_planes(symmetry: Symmetry, planes: NDArray) -> NDArray:
    """The images of input planes (…, H, W)."""
    flat = planes.reshape(*planes.shape[:-2], -1)
    return flat.take(symmetry.cells, axis=-1).reshape(planes.shape)


def turn_policy(symmetry: Symmetry, policy: NDArray) -> NDArray:
    """The images of anything with an action axis (…, A): policies, visits, legal masks."""
    return policy.take(symmetry.actions, axis=-1)


def turn_actions(symmetry: Symmetry, actions: NDArray[np.integer]) -> NDArray[np.intp]:
    """The images of action numbers (…)."""
    return np.argsort(symmetry.actions)[actions]


def turn_state(symmetry: Symmetry, state: State) -> State:
    """The images of positions."""
    return State(
        turn_boards(symmetry, state.board),
        state.to_move,
        state.over,
        state.winner,
        turn_boards(symmetry, state.past),
    )
