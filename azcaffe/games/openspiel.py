# SPDX-License-Identifier: AGPL-3.0-or-later
"""Any OpenSpiel game that this engine can play, through PyPI's `open_spiel` (extra `openspiel`).

Position by position in Python, so slower than the games of this package (README has figures). Player 1 is who moves
first: in chess OpenSpiel's player 1, elsewhere its player 0.
"""

from __future__ import annotations

import hashlib
import importlib
import random
import subprocess
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import GameError
from azcaffe.games.base import BoolArray, FloatArray, Game, Int8Array, IntArray, State, Symmetry
from azcaffe.games.board import parse_number

MOST_ACTIONS = 100_000
MOST_INPUTS = 1_000_000
SHOWN_MOVES = 80
TRIAL_SECONDS = 30
_TRIAL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import pyspiel
try:
    state = pyspiel.load_game(sys.argv[1]).new_initial_state()
    for _ in range(4):
        if not state.is_terminal() and not state.is_chance_node() and not state.is_simultaneous_node():
            state.apply_action(state.legal_actions()[-1])
except Exception as error:
    sys.exit("TRIAL " + str(error).strip().splitlines()[0])
"""


class OpenSpielGame(Game):
    """A two-player, zero-sum, deterministic, perfect-information, turn-based game of OpenSpiel.

    `State.board` is (B, 1) object, the pyspiel state of each position; they are cloned, never changed. Input planes are
    the mover's observation tensor, (C, H, W) as it is, (C, n) as (C, 1, n), (n,) as (n, 1, 1), and one plane of ones
    where player 1 is to move. Actions are OpenSpiel's own numbers.
    """

    rollout_draws = 1

    def __init__(self, text: str, history: int = 0) -> None:
        """`text` is what pyspiel.load_game takes, e.g. `go(board_size=9)`.

        Raises:
            GameError: open_spiel is not installed, knows no such game, or the engine cannot play it; `history` not 0.
        """
        if history != 0:
            raise GameError("an openspiel game brings its own planes: it keeps no past boards")
        self._game = _load(text)
        kind = self._game.get_type()
        self._tensor = "observation_tensor" if kind.provides_observation_tensor else "information_state_tensor"
        sides = list(getattr(self._game, f"{self._tensor}_shape")())
        if len(sides) < 3:
            sides = [sides[0], 1, *sides[1:], 1][:3]
        *channels, height, width = sides
        self.shape = (height, width)
        self.channels = int(np.prod(channels)) + 1
        self.name = f"openspiel:{self._game}"
        self.num_actions = self._game.num_distinct_actions()
        self.max_plies = self._game.max_game_length()
        self.history = 0
        self._first = self._game.new_initial_state().current_player()
        if not 0 < self.num_actions <= MOST_ACTIONS or not 0 < height * width * self.channels <= MOST_INPUTS:
            raise GameError(
                f"{self.name} has {self.num_actions} actions and planes {self.channels} x {height} x {width}: at most "
                f"{MOST_ACTIONS} actions and {MOST_INPUTS} inputs are possible"
            )

    def with_history(self, history: int) -> OpenSpielGame:
        return OpenSpielGame(str(self._game), history)

    def initial(self, batch: int) -> State:
        start = self._game.new_initial_state()
        return self._batch([start] * batch)

    def legal(self, state: State) -> BoolArray:
        legal = np.zeros((len(state), self.num_actions), np.bool_)
        for row, position in enumerate(state.board[:, 0]):
            legal[row, position.legal_actions()] = True
        return legal

    def step(self, state: State, action: IntArray) -> State:
        positions = []
        for position, move in zip(state.board[:, 0], action.tolist(), strict=True):
            after = position.clone()
            after.apply_action(move)
            positions.append(after)
        return self._batch(positions)

    def keys(self, state: State) -> list[bytes]:
        # Of the planes only their 128-bit digest is kept: those of chess would be 5 kB a position.
        planes = self.planes(state)
        return [hashlib.blake2b(one.tobytes(), digest_size=16).digest() for one in planes]

    def rollout(self, state: State, uniforms: NDArray[np.float64]) -> Int8Array:
        winner = np.zeros(len(state), np.int8)
        for row, position in enumerate(state.board[:, 0]):
            rng = random.Random(int(uniforms[row, 0] * 2**53))
            position = position.clone()
            while not position.is_terminal():
                position.apply_action(rng.choice(position.legal_actions()))
            winner[row] = np.sign(position.returns()[self._first])
        return winner

    def symmetries(self) -> tuple[Symmetry, ...]:
        return (Symmetry("identity", np.arange(1), np.arange(self.num_actions)),)

    def move_name(self, action: int) -> str:
        # Names depend on the position in many games (chess): render lists them beside the numbers.
        return str(action)

    def move_label(self, action: int, state: State, row: int = 0) -> str:
        position = state.board[row, 0]
        return str(position.action_to_string(position.current_player(), action))

    def parse_move(self, text: str) -> int:
        action = parse_number(text.strip(), self.num_actions)
        if action is None:
            raise GameError(f"{text.strip()!r} is not a move: {self.move_range()}")
        return action

    def move_range(self) -> str:
        return f"an action number 0 … {self.num_actions - 1}, as listed below the board"

    def action_map(self) -> str:
        start = self.render(self.initial(1)).rpartition("moves: ")[2]
        return f"OpenSpiel's own action numbers 0 … {self.num_actions - 1}; at the start of the game:\n{start}"

    def render(self, state: State, row: int = 0, last: int | None = None) -> str:
        position = state.board[row, 0]
        text = str(position).rstrip()
        if position.is_terminal():
            return text
        mover, actions = position.current_player(), position.legal_actions()
        names = [f"{action}={position.action_to_string(mover, action)}" for action in actions[:SHOWN_MOVES]]
        more = f" … ({len(actions)} in all)" if len(actions) > SHOWN_MOVES else ""
        return f"{text}\nmoves: {' '.join(names)}{more}"

    def planes(self, state: State) -> FloatArray:
        planes = np.empty((len(state), self.channels, *self.shape), np.float32)
        for row, position in enumerate(state.board[:, 0]):
            mover = self._first if state.to_move[row] == 1 else 1 - self._first
            planes[row, :-1] = np.reshape(getattr(position, self._tensor)(mover), (-1, *self.shape))
        planes[:, -1] = (state.to_move == 1)[:, None, None]
        return planes

    def __getstate__(self) -> dict[str, Any]:
        return {"text": str(self._game)}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__init__(saved["text"])  # type: ignore[misc]

    def _batch(self, positions: list[Any]) -> State:
        count = len(positions)
        board = np.empty((count, 1), object)
        board[:, 0] = positions
        over = np.array([position.is_terminal() for position in positions], np.bool_)
        winner = np.array(
            [np.sign(p.returns()[self._first]) if done else 0 for p, done in zip(positions, over, strict=True)], np.int8
        )
        to_move = np.array([-1 if p.current_player() == 1 - self._first else 1 for p in positions], np.int8)
        return State(board, to_move, over, winner, np.empty((count, 0, 1), object))


def _pyspiel() -> ModuleType:
    try:
        return importlib.import_module("pyspiel")
    except ImportError as error:
        raise GameError("openspiel games need the package open_spiel: pip install 'azcaffe[openspiel]'") from error


@lru_cache(maxsize=32)
def _load(text: str) -> Any:
    """The pyspiel game, once it is known that the engine can play it."""
    pyspiel = _pyspiel()
    name = text.partition("(")[0]
    if name not in pyspiel.registered_names():
        raise GameError(
            f"OpenSpiel knows no game {name!r}: `python -c 'import pyspiel; print(pyspiel.registered_names())'`"
        )
    if text.removeprefix(name) not in ("", "()"):
        _try_out(text)
    try:
        game = pyspiel.load_game(text)
    except (pyspiel.SpielError, ValueError) as error:
        raise GameError(f"OpenSpiel refuses {text!r}: {_first_line(error)}") from error
    kind = game.get_type()
    kinds = pyspiel.GameType
    for fits, reason in (
        (game.num_players() == 2, f"it has {game.num_players()} players, not two"),
        (kind.dynamics == kinds.Dynamics.SEQUENTIAL, "players move at the same time, not in turns"),
        (kind.chance_mode == kinds.ChanceMode.DETERMINISTIC, "it has chance events"),
        (kind.information == kinds.Information.PERFECT_INFORMATION, "players do not see everything"),
        (kind.utility == kinds.Utility.ZERO_SUM, "it is not zero-sum"),
        (kind.provides_observation_tensor or kind.provides_information_state_tensor, "it has no tensor for a net"),
    ):
        if not fits:
            raise GameError(f"openspiel:{text} cannot be played by this engine: {reason}")
    return game


def _try_out(text: str) -> None:
    """Some parameters end the whole process inside OpenSpiel (hex(board_size=0)): let that happen to a throw-away one.

    Raises:
        GameError: the game with these parameters does not survive its first moves.
    """
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL, text], capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise GameError(f"OpenSpiel does not get {text!r} going within {TRIAL_SECONDS} s") from None
    if trial.returncode:
        said = [line.removeprefix("TRIAL ") for line in trial.stderr.splitlines() if line.startswith("TRIAL ")]
        raise GameError(f"OpenSpiel refuses {text!r}: {said[0] if said else 'it ends the process'}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
