# SPDX-License-Identifier: AGPL-3.0-or-later
"""A person against a search, line by line: works on a terminal and from a pipe."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from azcaffe.cli.text import moves_text, percent, value_text
from azcaffe.errors import AzcaffeError
from azcaffe.games.base import Game, state_after
from azcaffe.progress import colours
from azcaffe.search import Evaluate, Search, SearchConfig, SearchResult, principal_variation

LEVELS = {"beginner": 10, "easy": 50, "medium": 200, "hard": 800, "master": 3200}
RED, BLUE, BOLD, DIM, PLAIN = "\x1b[31m", "\x1b[34m", "\x1b[1m", "\x1b[2m", "\x1b[0m"
TOP_MOVES = 4

COMMANDS_HELP = """\
  MOVE     play it: {moves}
  u        undo: take your last move back
  h        hint: what the net would play
  s        swap sides: the net moves for you from here
  l LEVEL  strength: playouts a move, or {levels}
  n        new game
  q        leave"""


class Leave(Exception):
    """The person is gone."""


def ask_terminal(prompt: str) -> str:
    """A line from stdin, without its end.

    Raises:
        Leave: the end of the input.
    """
    if sys.stdin.isatty() and sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - editing and history; without it input() writes the prompt to stderr
        try:
            return input(prompt)
        except EOFError:
            print()
            raise Leave from None
    print(prompt, end="", flush=True)
    raw = getattr(sys.stdin, "buffer", None)  # bytes that are no text are a bad move, not an error
    line = sys.stdin.readline() if raw is None else raw.readline().decode(errors="replace")
    print()
    if not line:
        raise Leave
    return line.rstrip("\n")


class Session:
    """Games between a person and a net (or roll-outs) at one board.

    Attributes:
        moves: actions of the game under way.
        human: the side the person plays, 1 or -1.
        playouts: made so far, in `seconds`.
    """

    def __init__(
        self, game: Game, evaluate: Evaluate, config: SearchConfig, *, name: str = "net", seed: int = 0,
        human: int = 1, ask: Callable[[str], str] = ask_terminal, colour: bool | None = None,
    ) -> None:  # fmt: skip
        self.moves: list[int] = []
        self.human = human
        self.playouts = 0
        self.seconds = 0.0
        self._game = game
        self._evaluate = evaluate
        self._config = config
        self._name = name
        self._seed = seed
        self._ask = ask
        self._colour = colours(sys.stdout) if colour is None else colour
        self._games = 0
        self._slot = np.array([0])
        self._search = Search(game, evaluate, config, 1)
        self._state = game.initial(1)

    def play(self, human: int | None = None, opening: tuple[int, ...] = ()) -> int:
        """One game, to its end; returns the winner (0: draw).

        Raises:
            Leave: the person leaves first.
        """
        if human is not None:
            self.human = human
        self._begin(opening)
        self._say(f"You are {'x' if self.human == 1 else 'o'}; x moves first. ? lists the commands.")
        while not self._state.over[0]:
            self._board()
            if self._state.to_move[0] == self.human:
                self._turn()
            else:
                self._answer()
        self._board()
        winner = int(self._state.winner[0])
        self._say("A draw." if winner == 0 else f"{'xo'[winner == -1]} wins: {self._owner(winner)}.")
        return winner

    def after_game(self) -> bool:
        """Ask what next; True for another game.

        Raises:
            Leave: the end of the input.
        """
        while True:
            word = self._ask("n new game, s new game with sides swapped, q leave: ").strip().lower()
            if word in ("q", "quit", "exit"):
                return False
            if word in ("n", "s", "new", "swap"):
                self.human = -self.human if word[0] == "s" else self.human
                return True

    def _begin(self, moves: Sequence[int]) -> None:
        """Set the board up after `moves`, with a fresh tree."""
        state = state_after(self._game, moves)
        self.moves, self._state = list(moves), state
        self._games += 1
        self._search = Search(self._game, self._evaluate, self._config, 1)
        self._search.reset(self._slot, state, [np.random.default_rng([self._seed, self._games])])

    def _owner(self, side: int) -> str:
        return "you" if side == self.human else self._name

    def _turn(self) -> None:
        """Ask until the board has changed."""
        symbol = "x" if self.human == 1 else "o"
        while True:
            line = self._ask(f"Your move ({symbol}): {self._game.move_range()}; ? for help: ").strip()
            word, _, rest = line.lower().partition(" ")
            if word in ("q", "quit", "exit"):
                raise Leave
            if word in ("?", "help"):
                levels = ", ".join(f"{name} ({count})" for name, count in LEVELS.items())
                self._say(COMMANDS_HELP.format(moves=self._game.move_range(), levels=levels))
            elif word in ("h", "hint"):
                self._say("hint: " + self._found(self._think()))
            elif word in ("u", "undo"):
                if self._undo():
                    return
                self._say("There is no move of yours to take back.")
            elif word in ("s", "swap"):
                self.human = -self.human
                return
            elif word in ("n", "new"):
                self._begin([])
                return
            elif word in ("l", "level"):
                self._level(rest.strip())
            elif self._try(line):
                return

    def _try(self, line: str) -> bool:
        """Play the move that `line` names; False, with a message, when there is none."""
        try:
            action = self._game.parse_move(line)
            self._move(action)
        except AzcaffeError as error:
            self._say(str(error))
            return False
        return True

    def _move(self, action: int) -> None:
        after = self._game.play(self._state, np.array([action]))
        if not after.over[0]:
            self._search.advance(self._slot, np.array([action]))
        self._state = after
        self.moves.append(action)

    def _undo(self) -> bool:
        """Go back to before the person's last move."""
        sides, state = [], self._game.initial(1)
        for move in self.moves:
            sides.append(int(state.to_move[0]))
            state = self._game.play(state, np.array([move]))
        if self.human not in sides:
            return False
        last = len(sides) - 1 - sides[::-1].index(self.human)
        self._begin(self.moves[:last])
        return True

    def _level(self, text: str) -> None:
        try:
            count = LEVELS[text] if text in LEVELS else int(text)
            self._config = replace(self._config, simulations=count)
        except ValueError:
            self._say(f"level needs a number of playouts or one of {', '.join(LEVELS)}, not {text!r}")
        except AzcaffeError as error:
            self._say(str(error))
        else:
            self._begin(self.moves)
            self._say(f"{self._name} now makes {count} playouts a move.")

    def _think(self) -> SearchResult:
        began = time.perf_counter()
        result = self._search.run(self._slot, noise=False)
        self.seconds += time.perf_counter() - began
        self.playouts += result.playouts
        return result

    def _answer(self) -> None:
        result = self._think()
        self._say(f"{self._name}: {self._found(result)}")
        self._move(int(result.selected[0]))

    def _found(self, result: SearchResult) -> str:
        """The move, the mover's value, the top moves with their shares of the visits, the line expected."""
        visits = result.visits[0]
        top = np.argsort(-visits, kind="stable")[:TOP_MOVES]
        shares = "  ".join(
            f"{self._game.move_name(int(a))} {percent(visits[a] / visits.sum())}" for a in top if visits[a] > 0
        )
        line = principal_variation(self._search, 0)
        side = "x" if self._state.to_move[0] == 1 else "o"
        return (
            f"{self._bold(self._game.move_name(int(result.selected[0])))}"
            f"  value for {side} {value_text(float(result.value[0]))}  visits: {shares}"
            f"\n     expects {moves_text(self._game, line[:8])}"
        )

    def _board(self) -> None:
        board = self._game.render(self._state, 0, self.moves[-1] if self.moves else None)
        print("\n" + (paint(board) if self._colour else board))

    def _bold(self, text: str) -> str:
        return f"{BOLD}{text}{PLAIN}" if self._colour else text

    def _say(self, text: str) -> None:
        print(text, flush=True)


def paint(board: str) -> str:
    """A rendered board with x in red and o in blue, below its line of coordinates."""
    head, _, body = board.partition("\n")
    body = re.sub(r"(?<![A-Za-z])x(?![A-Za-z])", f"{RED}x{PLAIN}", body)
    body = re.sub(r"(?<![A-Za-z])o(?![A-Za-z])", f"{BLUE}o{PLAIN}", body)
    return f"{DIM}{head}{PLAIN}\n{body}"
