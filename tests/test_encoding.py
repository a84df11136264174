# SPDX-License-Identifier: AGPL-3.0-or-later
"""Planes by hand, and which encoding a net's channels mean."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.encoding import Encoding, encode
from azcaffe.errors import ConfigError
from azcaffe.games.base import concatenate
from azcaffe.games.connectn import ConnectN
from azcaffe.games.tictactoe import TicTacToe
from tests.games.walk import played


def cells(planes: np.ndarray) -> list[list[int]]:
    """The ones of each plane of a single position, by cell number."""
    return [plane.ravel().nonzero()[0].tolist() for plane in planes[0]]


ALL = list(range(9))


def test_absolute_is_the_originals() -> None:
    game = TicTacToe(3, 3, 3)
    assert cells(encode(game, played(game, 0, 4, 8), Encoding())) == [[0, 8], [4], []]  # o to move
    assert cells(encode(game, played(game, 0, 4), Encoding())) == [[0], [4], ALL]  # x to move
    assert cells(encode(game, game.initial(1), Encoding())) == [[], [], ALL]


def test_relative_shows_the_mover_first_and_the_newest_board_first() -> None:
    game = TicTacToe(3, 3, 3, history=3)
    state = played(game, 0, 4, 8)  # o to move: its planes come first
    assert cells(encode(game, state, Encoding("relative", 1))) == [[4], [0, 8], []]
    assert cells(encode(game, state, Encoding("relative", 4))) == [[4], [4], [], [], [0, 8], [0], [0], [], []]
    state = played(game, 0, 4)
    assert cells(encode(game, state, Encoding("relative", 3))) == [[0], [0], [], [4], [], [], ALL]


def test_planes_are_row_major_with_row_0_at_the_top() -> None:
    game = ConnectN(6, 7, 4)
    planes = encode(game, played(game, 2), Encoding())
    assert planes.shape == (1, 3, 6, 7) and planes[0, 0, 5, 2] == 1 and planes.sum() == 1


def test_out_is_filled_completely() -> None:
    game = TicTacToe(3, 3, 3, history=1)
    state = concatenate([played(game, 0), played(game, 0, 4)])
    for encoding in (Encoding(), Encoding("relative", 2)):
        out = np.full((2, encoding.channels, 3, 3), np.nan, np.float32)
        assert encode(game, state, encoding, out) is out
        assert np.array_equal(out, encode(game, state, encoding))


@pytest.mark.parametrize(
    "channels,override,expected",
    [
        (3, None, Encoding("absolute")),
        (3, "absolute", Encoding("absolute")),
        (3, "relative", Encoding("relative", 1)),
        (5, None, Encoding("relative", 2)),
        (9, None, Encoding("relative", 4)),  # the article's h = 4
        (17, "relative", Encoding("relative", 8)),
    ],
)
def test_channels_say_which_encoding(channels: int, override: str | None, expected: Encoding) -> None:
    encoding = Encoding.for_channels(channels, override)
    assert encoding == expected
    assert encoding.channels == channels and encoding.past == encoding.history - 1


@pytest.mark.parametrize("channels", [-1, 0, 1, 2, 4, 6, 18])
def test_channels_that_no_encoding_has(channels: int) -> None:
    with pytest.raises(ConfigError, match=rf"no encoding has {channels} planes: absolute has 3, relative has 2 h \+ 1"):
        Encoding.for_channels(channels)


def test_absolute_has_three_planes_only() -> None:
    with pytest.raises(ConfigError, match="absolute encoding has 3 planes, the net wants 9"):
        Encoding.for_channels(9, "absolute")


@pytest.mark.parametrize("kind,history", [("absolute", 2), ("relative", 0), ("game", 2), ("both", 1)])
def test_impossible_encodings(kind: str, history: int) -> None:
    with pytest.raises(ConfigError):
        Encoding(kind, history)
    if kind == "both":
        with pytest.raises(ConfigError, match="must be absolute or relative"):
            Encoding.for_channels(3, kind)


def test_a_game_without_enough_past_boards_is_refused() -> None:
    game = TicTacToe(3, 3, 3, history=1)
    with pytest.raises(ConfigError, match="needs 2 past boards, the game keeps 1"):
        encode(game, game.initial(1), Encoding("relative", 3))
    with pytest.raises(ConfigError, match="no planes of its own"):
        encode(game, game.initial(1), Encoding("game", 1, 3))
    assert Encoding.of_game(game) is None
