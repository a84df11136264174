# SPDX-License-Identifier: AGPL-3.0-or-later
"""Games by name. A new game is one module and one line in :data:`GAMES`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from azcaffe.errors import GameError
from azcaffe.games.base import Game
from azcaffe.games.connectn import ConnectN
from azcaffe.games.othello import Othello
from azcaffe.games.tictactoe import TicTacToe

GAMES: Mapping[str, Callable[..., Game]] = MappingProxyType({
    "connectn": ConnectN,
    "othello": Othello,
    "tictactoe": TicTacToe,
})  # fmt: skip

OPENSPIEL = "openspiel:"


def make_game(name: str, **parameters: int) -> Game:
    """The game `name`, e.g. `make_game("connectn", height=6, width=7, connect=4, history=0)`.

    What is left out takes the game's default. `openspiel:NAME(...)` takes `history` only, which must be 0.

    Raises:
        GameError: an unknown name or parameter, or a value outside its range.
    """
    if name.startswith(OPENSPIEL):
        from azcaffe.games.openspiel import OpenSpielGame  # its dependency is optional

        factory: Callable[..., Game] = OpenSpielGame
        known = ["history"]
        arguments: tuple[str, ...] = (name.removeprefix(OPENSPIEL),)
    elif name in GAMES:
        factory, arguments = GAMES[name], ()
        known = list(inspect.signature(factory).parameters)
    else:
        raise GameError(f"unknown game {name!r}: there are {', '.join(sorted(GAMES))} and {OPENSPIEL}NAME")
    for parameter in parameters:
        if parameter not in known:
            raise GameError(f"{name} has no parameter {parameter!r}: there are {', '.join(known)}")
    return factory(*arguments, **parameters)


def parse_game(text: str) -> Game:
    """The game that :attr:`Game.name` or a person wrote, e.g. `tictactoe(height=3,width=3,connect=3)` or `othello`.

    Raises:
        GameError: not of the form NAME or NAME(parameter=number,...), or as :func:`make_game`.
    """
    text = text.strip()
    if text.startswith(OPENSPIEL):
        return make_game(text)
    match = re.fullmatch(r"(\w+)\s*(?:\((.*)\))?", text)
    if match is None:
        raise GameError(f"{text!r} is not a game: write NAME or NAME(parameter=number,...)")
    parameters: dict[str, int] = {}
    for part in filter(str.strip, (match[2] or "").split(",")):
        found = re.fullmatch(r"\s*(\w+)\s*=\s*(-?\d{1,9})\s*", part, re.ASCII)
        if found is None:
            raise GameError(f"{part.strip()!r} in {text!r} is not of the form parameter=number")
        if found[1] in parameters:
            raise GameError(f"{found[1]!r} stands twice in {text!r}")
        parameters[found[1]] = int(found[2])
    return make_game(match[1], **parameters)
