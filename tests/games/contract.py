# SPDX-License-Identifier: AGPL-3.0-or-later
"""What every game promises, as checks that know no rules. Add a board to test_contract.py to have it checked."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from azcaffe.encoding import Encoding, encode
from azcaffe.errors import ConfigError, GameError
from azcaffe.games.base import Game, State, concatenate
from azcaffe.games.board import BoardGame
from azcaffe.games.registry import parse_game
from azcaffe.games.symmetry import turn_actions, turn_boards, turn_planes, turn_policy, turn_state
from tests.games.walk import random_games

BATCH = 12
NO_MOVES = ("", " ", "-1", "+1", "1.0", "1,1", "abc", "a0", "a01x", "²", "٣", "9" * 11, "\x00")


def same(a: State, b: State) -> bool:
    """Whether two batches hold the same positions (openspiel ones: the same text)."""
    if a.board.dtype == object:
        boards = list(map(str, a.board[:, 0])) == list(map(str, b.board[:, 0]))
    else:
        boards = np.array_equal(a.board, b.board) and np.array_equal(a.past, b.past)
    return boards and all(np.array_equal(getattr(a, x), getattr(b, x)) for x in ("to_move", "over", "winner"))


def check_name_and_sizes(game: Game, rng: np.random.Generator) -> None:
    again = parse_game(game.name).with_history(game.history)
    for other in (again, pickle.loads(pickle.dumps(game))):
        assert (other.name, other.shape, other.num_actions, other.history, other.max_plies) == (
            game.name, game.shape, game.num_actions, game.history, game.max_plies
        )  # fmt: skip
        assert same(other.initial(2), game.initial(2))
    assert min(*game.shape, game.num_actions, game.max_plies, game.rollout_draws) >= 1
    assert game.cells == game.shape[0] * game.shape[1]


def check_shapes_and_types(game: Game, rng: np.random.Generator) -> None:
    longest = 0
    for state, _, action, after in random_games(game, BATCH, rng):
        longest += 1
        for batch in (state, after):
            count = len(batch)
            assert batch.board.shape[0] == count and batch.past.shape == (count, game.history, batch.board.shape[1])
            assert batch.to_move.shape == batch.over.shape == batch.winner.shape == (count,)
            assert (batch.to_move.dtype, batch.over.dtype, batch.winner.dtype) == (np.int8, np.bool_, np.int8)
            if isinstance(game, BoardGame):
                assert batch.board.shape == (count, game.cells) and batch.board.dtype == batch.past.dtype == np.int8
                assert np.isin(batch.board, (1, 0, -1)).all()
            legal = game.legal(batch)
            assert legal.shape == (count, game.num_actions) and legal.dtype == np.bool_
            assert np.array_equal(legal.any(axis=1), ~batch.over)
            assert np.isin(batch.to_move[~batch.over], (1, -1)).all()
            assert not batch.winner[~batch.over].any() and np.isin(batch.winner, (1, 0, -1)).all()
            over, winner = game.outcome(batch)
            assert np.array_equal(over, batch.over) and np.array_equal(winner, batch.winner)
        assert game.legal(state)[np.arange(len(action)), action].all()
    assert longest <= game.max_plies


def check_positions_are_values(game: Game, rng: np.random.Generator) -> None:
    for state, _, action, _ in random_games(game, 3, rng):
        before = pickle.dumps((state.board, state.to_move, state.over, state.winner, state.past))
        action_before = action.copy()
        game.play(state, action)
        game.legal(state)
        game.keys(state)
        if rng.random() < 0.1:
            game.rollout(state, rng.random((len(state), game.rollout_draws)))
        game.render(state)
        assert pickle.dumps((state.board, state.to_move, state.over, state.winner, state.past)) == before
        assert np.array_equal(action, action_before)


def check_batch_is_many_singles(game: Game, rng: np.random.Generator) -> None:
    for state, _, action, after in random_games(game, 4, rng):
        rows = [state.take(np.array([row])) for row in range(len(state))]
        assert same(concatenate([game.play(one, action[row : row + 1]) for row, one in enumerate(rows)]), after)
        assert np.array_equal(np.concatenate([game.legal(one) for one in rows]), game.legal(state))
        assert [game.keys(one)[0] for one in rows] == game.keys(state)


def check_finished_games_stay_finished(game: Game, rng: np.random.Generator) -> None:
    ended = [after.take(after.over) for *_, after in random_games(game, BATCH, rng) if after.over.any()]
    final = concatenate(ended)
    assert len(final) == BATCH
    assert not game.legal(final).any()
    assert np.array_equal(game.rollout(final, rng.random((BATCH, game.rollout_draws))), final.winner)
    for action in {0, game.num_actions - 1}:
        with pytest.raises(GameError, match="after the end"):
            game.play(final, np.full(BATCH, action))


def check_illegal_moves_raise(game: Game, rng: np.random.Generator) -> None:
    for state, _, action, _ in random_games(game, 2, rng):
        for wrong in (-1, game.num_actions, 2**40):
            with pytest.raises(GameError, match="outside 0 …"):
                game.play(state, np.where(np.arange(len(state)) == 0, wrong, action))
        for wrong in np.flatnonzero(~game.legal(state)[-1])[:3]:
            with pytest.raises(GameError, match="not a legal move"):
                game.play(state, np.append(action[:-1], wrong))
        for not_actions in (action.astype(float), action[None], np.append(action, 0)):
            with pytest.raises(GameError, match="integer actions"):
                game.play(state, not_actions)


def check_keys_tell_positions_apart(game: Game, rng: np.random.Generator) -> None:
    batches = [after for *_, after in random_games(game, BATCH, rng)]
    seen: dict[bytes, tuple] = {}
    for batch in batches:
        keys = game.keys(batch)
        assert all(type(key) is bytes for key in keys)
        planes = game.planes(batch)
        for row, key in enumerate(keys):
            visible = (
                (batch.board[row].tobytes(), batch.past[row].tobytes()) if planes is None else planes[row].tobytes()
            )
            assert seen.setdefault(key, (visible, batch.to_move[row])) == (visible, batch.to_move[row])
    assert len(set(seen.values())) == len(seen)


def check_history_is_the_boards_before(game: Game, rng: np.random.Generator) -> None:
    if game.planes(game.initial(1)) is not None:
        with pytest.raises(GameError):
            game.with_history(1)
        return
    deep = game.with_history(3)
    boards = [np.zeros((1, game.cells), np.int8)] * 3
    for state, _, _, after in random_games(deep, 1, rng):
        boards.append(state.board)
        assert np.array_equal(after.past[0], np.concatenate(boards[:-4:-1]))


def check_symmetries_respect_the_rules(game: Game, rng: np.random.Generator) -> None:
    symmetries = game.symmetries()
    first = symmetries[0]
    assert np.array_equal(first.cells, np.arange(len(first.cells)))
    assert np.array_equal(first.actions, np.arange(game.num_actions))
    maps = {(tuple(s.cells), tuple(s.actions)) for s in symmetries}
    assert len(maps) == len(symmetries) == len({s.name for s in symmetries})
    for a in symmetries:
        assert sorted(a.cells) == list(first.cells) and sorted(a.actions) == list(first.actions)
        for b in symmetries:
            assert (tuple(a.cells[b.cells]), tuple(a.actions[b.actions])) in maps
    assert same(turn_state(symmetries[-1], game.initial(1)), game.initial(1)) or game.name.startswith("othello")
    for state, _, action, after in random_games(game, 2, rng):
        for symmetry in symmetries:
            turned = turn_state(symmetry, state)
            assert np.array_equal(game.legal(turned), turn_policy(symmetry, game.legal(state)))
            assert same(game.play(turned, turn_actions(symmetry, action)), turn_state(symmetry, after))


def check_rollouts(game: Game, rng: np.random.Generator) -> None:
    for state, *_ in random_games(game, 4, rng):
        if rng.random() < 0.8:
            continue
        uniforms = rng.random((len(state), game.rollout_draws))
        winner = game.rollout(state, uniforms)
        assert winner.shape == (len(state),) and winner.dtype == np.int8 and np.isin(winner, (1, 0, -1)).all()
        alone = [game.rollout(state.take(np.array([r])), uniforms[r : r + 1])[0] for r in range(len(state))]
        assert winner.tolist() == alone


def check_moves_read_back(game: Game, rng: np.random.Generator) -> None:
    names = [game.move_name(action) for action in range(game.num_actions)]
    assert len(set(names)) == game.num_actions
    for action, name in enumerate(names):
        assert game.parse_move(name) == game.parse_move(f"  {name.upper()} ") == game.parse_move(str(action)) == action
    for wrong in (*NO_MOVES, str(game.num_actions)):
        with pytest.raises(GameError) as caught:
            game.parse_move(wrong)
        assert game.move_range() in str(caught.value) and "\n" not in str(caught.value)
    assert str(game.num_actions - 1) in game.move_range()
    assert str(game.num_actions - 1) in game.action_map()


def check_drawn_board_reads_back(game: Game, rng: np.random.Generator) -> None:
    for _, _, action, after in random_games(game, 1, rng):
        text = game.render(after, 0, int(action[0]))
        assert text and not text.endswith("\n")
        if isinstance(game, BoardGame):
            drawn = text.split("\n")[1:]
            cells = "".join(line[3:] for line in drawn).replace(" ", "").replace("[", "").replace("]", "")
            assert [".xo".index(c) for c in cells] == [int(stone) % 3 for stone in after.board[0]]
            last_move_is_a_stone = action[0] < game.cells
            assert text.count("[") == text.count("]") == int(last_move_is_a_stone)
            assert "[" not in game.render(after)


def check_planes_decode(game: Game, rng: np.random.Generator) -> None:
    if game.planes(game.initial(1)) is not None:
        own = Encoding.of_game(game)
        assert own is not None and own.kind == "game"
        for state, *_ in random_games(game, 2, rng):
            planes = encode(game, state, own)
            assert planes.shape == (len(state), own.channels, *game.shape) and planes.dtype == np.float32
        return
    deep = game.with_history(2)
    for state, *_ in random_games(deep, 2, rng):
        for encoding in (Encoding("absolute"), Encoding("relative", 1), Encoding("relative", 3)):
            planes = encode(deep, state, encoding)
            assert planes.shape == (len(state), encoding.channels, *game.shape) and planes.dtype == np.float32
            assert np.isin(planes, (0, 1)).all()
            boards, to_move = decode(planes, encoding)
            assert np.array_equal(to_move, state.to_move) and np.array_equal(boards[:, 0], state.board)
            assert np.array_equal(boards[:, 1:], state.past[:, : encoding.past])
            for symmetry in deep.symmetries():
                turned = encode(deep, turn_state(symmetry, state), encoding)
                assert np.array_equal(turned, turn_planes(symmetry, planes))
                assert np.array_equal(decode(turned, encoding)[0], turn_boards(symmetry, boards))
        with pytest.raises(ConfigError):
            encode(deep, state, Encoding("relative", 4))


def decode(planes: np.ndarray, encoding: Encoding) -> tuple[np.ndarray, np.ndarray]:
    """(boards (B, h, cells), to_move (B,)) out of planes: the way back, which only tests need."""
    flat = planes.reshape(*planes.shape[:2], -1)
    assert (flat[:, -1] == flat[:, -1, :1]).all()
    to_move = np.where(flat[:, -1, 0] == 1, 1, -1)
    h = encoding.history
    boards = flat[:, :h] - flat[:, h : 2 * h]
    return boards * (1 if encoding.kind == "absolute" else to_move[:, None, None]), to_move


CHECKS: list[Callable[[Game, np.random.Generator], None]] = [
    check for name, check in sorted(globals().items()) if name.startswith("check_")
]
