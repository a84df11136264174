# SPDX-License-Identifier: AGPL-3.0-or-later
"""The shapes of requests and answers. Requests are strict: no unknown field, no text where a number belongs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Human = Literal["first", "second", "both", "none"]
Kind = Literal["grid", "columns", "discs", "text"]
Ply = Annotated[int, Field(ge=0, le=10_000)]
Simulations = Annotated[int, Field(ge=0, le=10_000_000)]


class Request(BaseModel):
    """Base of all request bodies."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class NewGame(Request):
    """Begin a game."""

    game: str = Field(min_length=1, max_length=200, examples=["tictactoe(height=3,width=3,connect=3)"])
    net: str = Field(min_length=1, max_length=200, examples=["rollouts"])
    human: Human = "first"


class Move(Request):
    """A person's move. `ply`: moves played before it, so that a repeated or late request is noticed."""

    ply: Ply
    action: int = Field(ge=0, le=1_000_000)


class Reply(Request):
    """Let the net move. `variety`: draw the move by visit share, so that games differ."""

    ply: Ply
    simulations: Simulations
    variety: bool = False


class Look(Request):
    """Analyse the position after `ply` moves."""

    ply: Ply
    simulations: Simulations


class Undo(Request):
    """Go back to the position after `ply` moves."""

    ply: Ply


class ErrorBody(BaseModel):
    """What went wrong, for people."""

    detail: str


class NetView(BaseModel):
    """An opponent on offer."""

    id: str
    title: str
    game: str | None
    policy: bool


class BoardLimits(BaseModel):
    """Sizes a player may choose."""

    least_side: int
    most_side: int


class Setup(BaseModel):
    """What the page offers."""

    families: list[str]
    games: list[str]
    nets: list[NetView]
    board: BoardLimits
    max_simulations: int
    runs: int


class MoveView(BaseModel):
    """A legal move; `cell`: where its stone will lie, null for a pass or a board without squares."""

    action: int
    name: str
    cell: int | None


class PositionView(BaseModel):
    """A position of the game.

    `board`: one of `x`, `o` and `.` a square, row by row, empty for games shown as `text`. `cell`: the square of the
    last stone. `value`: what the search expects, as the first player sees it, null where nobody looked.
    """

    ply: int
    board: str
    text: str | None
    move: str | None
    cell: int | None
    to_move: int
    value: float | None


class Replay(BaseModel):
    """A game to look at."""

    game: str
    kind: Kind
    height: int
    width: int
    positions: list[PositionView]
    over: bool
    winner: int
    line: list[int]


class GameView(Replay):
    """A game in progress; `line`: the squares of the winner's row."""

    id: str
    net: str
    human: Human
    legal: list[MoveView]


class MoveAnalysis(BaseModel):
    """A move in an analysis: the net's prior, share of the visits, mean value for the mover."""

    action: int
    name: str
    cell: int | None
    prior: float
    visits: int
    share: float
    q: float


class AnalysisView(BaseModel):
    """A position analysed; values are for the first player, those of moves for the mover. Moves are best first."""

    ply: int
    playouts: int
    value: float
    net_value: float
    to_move: int
    line: list[str]
    moves: list[MoveAnalysis]


class ReplyView(BaseModel):
    """The net's move: the game after it, and what it saw before."""

    game: GameView
    analysis: AnalysisView


class RunView(BaseModel):
    """A training run; `active`: something was written in the last two minutes."""

    id: str
    title: str
    game: str | None
    games: int | None
    active: bool
    updated: float | None


Series = list[float | None]


class CurvesView(BaseModel):
    """A run's curves, thinned to at most a thousand points; all series of one group are equally long."""

    id: str
    game: str | None
    active: bool
    log: dict[str, Series]
    metrics: dict[str, Series]
    matches: dict[str, Series]


class SavedGame(BaseModel):
    """A self-play game in a list."""

    number: int
    plies: int
    winner: int


class SavedGames(BaseModel):
    """A page of them, newest first."""

    total: int
    games: list[SavedGame]
