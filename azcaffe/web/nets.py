# SPDX-License-Identifier: AGPL-3.0-or-later
"""Nets for the catalog: files the server was started with, checked and opened before the first request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from azcaffe.encoding import Encoding
from azcaffe.errors import AzcaffeError
from azcaffe.games.base import Game
from azcaffe.games.registry import parse_game
from azcaffe.network import ModelInfo, NetEvaluator, read_model
from azcaffe.search import CachedEvaluator
from azcaffe.web.catalog import NetOffer
from azcaffe.web.engine import Source

CACHE = 50_000
"""Evaluations kept for each net."""


def offer_net(id_: str, model: Path, weights: Path, game: str | None = None) -> NetOffer:
    """Check and open a net; `game` is guessed from its shape and file name when None.

    Raises:
        ModelError: a file cannot be used, or net, weights and game do not fit each other.
        GameError: an unknown game.
        AzcaffeError: the game cannot be guessed, or Caffe is missing.
    """
    info = read_model(model)
    rules = parse_game(game if game is not None else guess_game(info, weights.stem))
    own = Encoding.of_game(rules)
    encoding = own or Encoding.for_channels(info.channels)
    rules = rules.with_history(encoding.past)
    evaluator = NetEvaluator(rules, model, weights, encoding)

    def open_cached(played: Game) -> CachedEvaluator:
        return CachedEvaluator(evaluator, played, CACHE)

    return NetOffer(id_, weights.stem, Source(id_, open_cached), rules.name, encoding.past)


def guess_game(info: ModelInfo, name: str) -> str:
    """The game a net was made for, by its board, its number of actions, and how the published files are named.

    `net_tic_tac_6_4_…` is a 6 x 6 board with four in a row, `net_connect_6_7_4_…` has 6 rows, 7 columns, four in a row.

    Raises:
        AzcaffeError: no game has that many actions on that board.
    """
    height, width, actions = info.height, info.width, info.num_actions
    numbers = [int(number) for number in re.findall(r"\d+", name)]
    if actions == height * width:
        connect = _connect(numbers[1:2], height, width)
        return f"tictactoe(height={height},width={width},connect={connect})"
    if actions == width:
        return f"connectn(height={height},width={width},connect={_connect(numbers[2:3], height, width)})"
    if height == width and actions == height * width + 1:
        return f"othello(size={height})"
    what = f"{actions} actions on a {height} x {width} board"
    raise AzcaffeError(f"{name}: no game known here has {what}; name the game: --net WEIGHTS MODEL GAME")


def _connect(named: Sequence[int], height: int, width: int) -> int:
    """How many in a row: as the file says, else four, or three on the smallest boards."""
    usable = [number for number in named if 3 <= number <= max(height, width)]
    return usable[0] if usable else min(4, max(height, width))
