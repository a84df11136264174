# SPDX-License-Identifier: AGPL-3.0-or-later
"""Symmetries move the board, its past, the planes and the policy alike."""

from __future__ import annotations

import numpy as np
import pytest

from azcaffe.encoding import Encoding, encode
from azcaffe.games.connectn import ConnectN
from azcaffe.games.othello import Othello
from azcaffe.games.symmetry import turn_actions, turn_boards, turn_planes, turn_policy, turn_state
from azcaffe.games.tictactoe import TicTacToe
from tests.games.walk import played


def one_hot(size: int, at: int) -> np.ndarray:
    return np.eye(size, dtype=np.float32)[[at]]


def test_gravity_board_has_two_images_and_the_policy_moves_along() -> None:
    game = ConnectN(6, 7, 4)
    state = played(game, 0)
    policy = one_hot(7, 0)
    images = [(turn_state(s, state), turn_policy(s, policy)) for s in game.symmetries()]
    assert len(images) == 2
    mirrored, mirrored_policy = images[1]
    assert mirrored.board.nonzero()[1].tolist() == [5 * 7 + 6]  # bottom right: still at the bottom
    assert mirrored_policy.argmax() == 6
    for image, _ in images:
        assert image.board.reshape(6, 7)[5].any() and not image.board.reshape(6, 7)[:5].any()


def test_3x3_has_eight_images_each_the_same_map_on_every_part() -> None:
    game = TicTacToe(3, 3, 3, history=1)
    state = played(game, 7, 1)  # the last move is 1; the board before it had a stone on 7 only
    policy, last = one_hot(9, 5), 1
    planes = encode(game, state, Encoding("relative", 2))
    seen = set()
    for symmetry in game.symmetries():
        image = turn_state(symmetry, state)
        at = {cell: int(turn_actions(symmetry, np.array([cell]))[0]) for cell in range(9)}
        assert turn_policy(symmetry, policy).argmax() == at[5]
        assert int(turn_actions(symmetry, np.array([last]))[0]) == at[1]
        assert (image.board[0, at[7]], image.board[0, at[1]]) == (1, -1) and np.count_nonzero(image.board) == 2
        assert image.past[0, 0].nonzero()[0].tolist() == [at[7]]
        assert np.array_equal(encode(game, image, Encoding("relative", 2)), turn_planes(symmetry, planes))
        assert np.array_equal(turn_boards(symmetry, state.past), image.past)
        seen.add((at[1], at[5], at[7]))
    assert len(seen) == 8


@pytest.mark.parametrize(
    "game,count",
    [
        (TicTacToe(3, 4, 3), 4), (TicTacToe(6, 6, 4), 8), (ConnectN(6, 6, 4), 2), (Othello(4), 8),
    ],
    ids=lambda x: getattr(x, "name", x),
)  # fmt: skip
def test_number_of_images(game, count: int) -> None:
    assert len(game.symmetries()) == count


def test_names_say_what_the_picture_does() -> None:
    picture = np.arange(9).reshape(1, 9)
    by_name = {s.name: turn_boards(s, picture).reshape(3, 3).tolist() for s in TicTacToe(3, 3, 3).symmetries()}
    assert by_name["identity"] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert by_name["mirror left-right"] == [[2, 1, 0], [5, 4, 3], [8, 7, 6]]
    assert by_name["mirror up-down"] == [[6, 7, 8], [3, 4, 5], [0, 1, 2]]
    assert by_name["rotate 180"] == [[8, 7, 6], [5, 4, 3], [2, 1, 0]]
    assert by_name["rotate 90"] == [[2, 5, 8], [1, 4, 7], [0, 3, 6]]
    assert by_name["rotate 270"] == [[6, 3, 0], [7, 4, 1], [8, 5, 2]]
    assert by_name["transpose"] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_a_pass_stays_a_pass() -> None:
    for symmetry in Othello(6).symmetries():
        assert turn_actions(symmetry, np.array([36]))[0] == 36
        assert turn_policy(symmetry, one_hot(37, 36)).argmax() == 36
