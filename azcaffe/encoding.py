# SPDX-License-Identifier: AGPL-3.0-or-later
"""Positions as the planes that a net sees.

Two encodings: the published program's absolute one with 3 planes, and AlphaZero's, relative to the mover and with
earlier positions. The channel count of a net's `input_data` says which is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from azcaffe.errors import ConfigError
from azcaffe.games.base import FloatArray, Game, State

ABSOLUTE_CHANNELS = 3
KINDS = ("absolute", "relative", "game")


@dataclass(frozen=True)
class Encoding:
    """How positions become planes.

    Attributes:
        kind: `absolute`: player 1's stones, player -1's stones, ones where player 1 is to move.
            `relative`: the mover's stones in `history` positions, newest first, then the opponent's, then ones
            where player 1 is to move. `game`: the game's own planes.
        history: positions shown, the present one included; needs a game that keeps `history - 1` past boards.
            For `game`: 1.
        game_channels: planes of `game`, else 0.
    """

    kind: str = "absolute"
    history: int = 1
    game_channels: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"encoding must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if self.history < 1 or (self.kind != "relative" and self.history != 1):
            raise ConfigError(f"encoding {self.kind} cannot show {self.history} positions")

    @property
    def channels(self) -> int:
        """C, the number of planes."""
        if self.kind == "game":
            return self.game_channels
        return ABSOLUTE_CHANNELS if self.kind == "absolute" else 2 * self.history + 1

    @property
    def past(self) -> int:
        """Past boards that a game must keep for this encoding (`Game.with_history`)."""
        return self.history - 1

    def __str__(self) -> str:
        shown = f", {self.history} positions" if self.kind == "relative" else ""
        return f"{self.kind} ({self.channels} planes{shown})"

    @classmethod
    def for_channels(cls, channels: int, override: str | None = None) -> Encoding:
        """The encoding of a net whose `input_data` has `channels` planes.

        3 means absolute unless `override` says `relative`; another odd number means relative.

        Raises:
            ConfigError: no encoding has that many planes.
        """
        if override not in (None, "absolute", "relative"):
            raise ConfigError(f"encoding must be absolute or relative, not {override!r}")
        if channels < ABSOLUTE_CHANNELS or channels % 2 == 0:
            raise ConfigError(
                f"no encoding has {channels} planes: absolute has 3, relative has 2 h + 1 for h positions (3, 5, 7, …)"
            )
        if override == "absolute" and channels != ABSOLUTE_CHANNELS:
            raise ConfigError(f"the absolute encoding has 3 planes, the net wants {channels}")
        if channels == ABSOLUTE_CHANNELS and override != "relative":
            return cls("absolute")
        return cls("relative", (channels - 1) // 2)

    @classmethod
    def of_game(cls, game: Game) -> Encoding | None:
        """The game's own encoding, or None when the game leaves it to this module."""
        planes = game.planes(game.initial(1))
        return None if planes is None else cls("game", 1, planes.shape[1])


def encode(game: Game, state: State, encoding: Encoding, out: FloatArray | None = None) -> FloatArray:
    """Planes (B, C, H, W) float32 of `state`, written to `out` when it is given.

    Raises:
        ConfigError: the game keeps fewer past boards than the encoding shows, or has planes of its own.
    """
    count, (height, width) = len(state), game.shape
    if out is None:
        out = np.empty((count, encoding.channels, height, width), np.float32)
    if encoding.kind == "game":
        planes = game.planes(state)
        if planes is None:
            raise ConfigError(f"{game.name} has no planes of its own")
        out[...] = planes
        return out
    if game.history < encoding.past:
        raise ConfigError(f"{encoding} needs {encoding.past} past boards, the game keeps {game.history}")
    flat = out.reshape(count, encoding.channels, height * width)
    board, to_move = state.board, state.to_move
    if encoding.kind == "absolute":
        flat[:, 0] = board == 1
        flat[:, 1] = board == -1
    else:
        boards = board[:, None]
        if encoding.past:
            boards = np.concatenate([boards, state.past[:, : encoding.past]], axis=1)
        mover = to_move[:, None, None]
        flat[:, : encoding.history] = boards == mover
        flat[:, encoding.history : -1] = boards == -mover
    flat[:, -1] = (to_move == 1)[:, None]
    return out
