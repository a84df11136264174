# SPDX-License-Identifier: AGPL-3.0-or-later
"""The contract of a game: rules only, on a batch of positions.

Axes: B positions side by side, A actions, `cells` squares in row-major order (row 0 is the top of the board).
Players are 1 (moves first, drawn `x`) and -1 (`o`). A position is a value: :meth:`Game.play` returns new arrays and
reads no random numbers. The engine never asks how a game works, only what :class:`Game` promises, so a new game is one
file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import GameError

BoolArray = NDArray[np.bool_]
Int8Array = NDArray[np.int8]
IntArray = NDArray[np.integer]
FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class State:
    """B positions as a struct of arrays, each with leading axis B.

    Attributes:
        board: (B, cells) int8, 1 or -1 for a stone of that player, 0 for empty. Games without stones of two
            colours may keep any dtype here, objects included.
        to_move: (B,) int8, the player to move, 1 or -1 (of a finished game: anything).
        over: (B,) bool, the game has ended.
        winner: (B,) int8, 1 or -1; 0 for a draw and for games that go on (`over` tells which).
        past: (B, K, cells) int8, the K boards before this one, newest first, zeros before the game began.
            K is `Game.history`, 0 unless a net wants to see past positions.
    """

    board: NDArray
    to_move: Int8Array
    over: BoolArray
    winner: Int8Array
    past: NDArray

    def __len__(self) -> int:
        return len(self.to_move)

    def take(self, rows: NDArray) -> State:
        """The positions at `rows` ((n,) indices or (B,) bool mask), copied."""
        if rows.dtype == np.bool_:
            rows = rows.nonzero()[0]
        return State(
            self.board.take(rows, axis=0),
            self.to_move.take(rows),
            self.over.take(rows),
            self.winner.take(rows),
            self.past.take(rows, axis=0),
        )

    def put(self, rows: IntArray, other: State) -> None:
        """Overwrite the positions at `rows` (n,) with those of `other` (n): for storage that its owner alone holds."""
        self.board[rows] = other.board
        self.to_move[rows] = other.to_move
        self.over[rows] = other.over
        self.winner[rows] = other.winner
        self.past[rows] = other.past

    def repeat(self, count: int) -> State:
        """Each position `count` times in a row."""
        return self.take(np.repeat(np.arange(len(self)), count))


def concatenate(states: Sequence[State]) -> State:
    """One batch out of several."""
    return State(
        np.concatenate([s.board for s in states]),
        np.concatenate([s.to_move for s in states]),
        np.concatenate([s.over for s in states]),
        np.concatenate([s.winner for s in states]),
        np.concatenate([s.past for s in states]),
    )


@dataclass(frozen=True, slots=True)
class Symmetry:
    """A map of the board onto itself that the rules respect.

    Attributes:
        name: what it does, e.g. `rotate 90`.
        cells: (cells,) int, image.board[:, i] = board[:, cells[i]].
        actions: (A,) int, image.policy[:, a] = policy[:, actions[a]].
    """

    name: str
    cells: IntArray
    actions: IntArray


class Game(ABC):
    """Rules of a two-player, zero-sum game of perfect information.

    Attributes:
        name: canonical text that :func:`azcaffe.games.registry.parse_game` reads back, e.g.
            `tictactoe(height=6,width=6,connect=4)`; it identifies the rules in replay files and checkpoints.
        shape: (height, width) of the board and of the net's input planes.
        num_actions: A, the size of the policy; actions are 0 … A-1.
        history: K, how many past boards a :class:`State` keeps.
        max_plies: no game is longer than this.
    """

    name: str
    shape: tuple[int, int]
    num_actions: int
    history: int
    max_plies: int

    @property
    def rollout_draws(self) -> int:
        """How many random numbers a position's roll-out reads: the columns of :meth:`rollout`'s `uniforms`."""
        return self.max_plies

    @property
    def cells(self) -> int:
        """Number of squares."""
        return self.shape[0] * self.shape[1]

    @abstractmethod
    def with_history(self, history: int) -> Game:
        """The same game, its states keeping `history` past boards."""

    @abstractmethod
    def initial(self, batch: int) -> State:
        """`batch` start positions."""

    @abstractmethod
    def legal(self, state: State) -> BoolArray:
        """(B, A) bool: the moves allowed; all False where the game is over."""

    @abstractmethod
    def step(self, state: State, action: IntArray) -> State:
        """The positions after `action` (B,), trusted to be legal: for the search, which asks for legal moves only."""

    def play(self, state: State, action: IntArray) -> State:
        """The positions after `action` (B,).

        Raises:
            GameError: an action is outside 0 … A-1, not legal, or the game is over.
        """
        action = np.asarray(action)
        if action.shape != (len(state),) or not np.issubdtype(action.dtype, np.integer):
            raise GameError(
                f"{len(state)} positions need {len(state)} integer actions, not {action.dtype}{action.shape}"
            )
        for row in np.flatnonzero((action < 0) | (action >= self.num_actions)):
            raise GameError(f"action {action[row]} is outside 0 … {self.num_actions - 1}")
        for row in np.flatnonzero(state.over):
            raise GameError(f"action {action[row]} comes after the end of the game")
        for row in np.flatnonzero(~self.legal(state)[np.arange(len(state)), action]):
            raise GameError(f"{self.move_name(int(action[row]))} (action {action[row]}) is not a legal move here")
        return self.step(state, action)

    def outcome(self, state: State) -> tuple[BoolArray, Int8Array]:
        """(over (B,) bool, winner (B,) int8 in {1, 0, -1})."""
        return state.over, state.winner

    @abstractmethod
    def keys(self, state: State) -> list[bytes]:
        """B byte strings, equal exactly where everything a net may see (board, mover, past) is equal."""

    @abstractmethod
    def rollout(self, state: State, uniforms: NDArray[np.float64]) -> Int8Array:
        """Winners (B,) int8 when both sides play uniformly random legal moves from `state` to the end.

        `uniforms` (B, rollout_draws) float64 in [0, 1): the only source of chance, row b for position b alone.
        """

    @abstractmethod
    def symmetries(self) -> tuple[Symmetry, ...]:
        """All maps that the rules respect, the identity first."""

    @abstractmethod
    def move_name(self, action: int) -> str:
        """What a person calls this move, e.g. `c2` or `column 3`."""

    def move_label(self, action: int, state: State, row: int = 0) -> str:
        """The same for `action`, legal in position `row`: another name where names depend on the position."""
        return self.move_name(action)

    @abstractmethod
    def parse_move(self, text: str) -> int:
        """The action a person means by `text`, legal or not.

        Raises:
            GameError: `text` names no action; the message states the accepted range.
        """

    def move_range(self) -> str:
        """What :meth:`parse_move` accepts, for prompts and messages."""
        return f"a number 0 … {self.num_actions - 1}"

    def action_map(self) -> str:
        """Which action number is which move, as text of several lines."""
        return "\n".join(f"{action} = {self.move_name(action)}" for action in range(self.num_actions))

    @abstractmethod
    def render(self, state: State, row: int = 0, last: int | None = None) -> str:
        """Position `row` of the batch as text with coordinates, several lines, no trailing newline."""

    def planes(self, state: State) -> FloatArray | None:
        """(B, C, H, W) float32 of games that bring their own input planes; None: :mod:`azcaffe.encoding` makes them."""
        return None


def state_after(game: Game, moves: Sequence[int]) -> State:
    """The position (a batch of one) after `moves`.

    Raises:
        GameError: a move is illegal.
    """
    state = game.initial(1)
    for move in moves:
        state = game.play(state, np.array([move]))
    return state
