# SPDX-License-Identifier: AGPL-3.0-or-later
"""The web application: one page, its files, and the JSON API under /api that the page uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, FastAPI, Header, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from azcaffe.errors import AzcaffeError, GameError
from azcaffe.web import models
from azcaffe.web.catalog import LEAST_SIDE, MOST_SIDE, Catalog, UnknownOffer
from azcaffe.web.engine import Analysis, EngineLimits, Overloaded, SearchService
from azcaffe.web.runs import RunShelf, UnknownRun
from azcaffe.web.security import Guard
from azcaffe.web.sessions import Session, SessionStore, UnknownSession
from azcaffe.web.view import analysis_view, game_view

STATIC = Path(__file__).parent / "static"

STATUS: Sequence[tuple[type[AzcaffeError], int]] = (
    (UnknownSession, 404),
    (UnknownRun, 404),
    (Overloaded, 503),
    (UnknownOffer, 422),
    (GameError, 422),
    (AzcaffeError, 500),
)
"""HTTP status of our errors, the first class that fits."""

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": models.ErrorBody, "description": text}
    for status, text in {
        400: "The body is not JSON.",
        404: "No such game or run, or it has expired.",
        409: "The game has moved on, or has ended.",
        413: "The body is too large.",
        422: "The request does not make sense.",
        503: "Too many requests are waiting.",
    }.items()
}

SessionId = Annotated[str, PathParameter(pattern=r"^[A-Za-z0-9_-]{22}$")]
RunId = Annotated[str, PathParameter(pattern=r"^[0-9]{1,6}$")]


class OutOfStep(AzcaffeError):
    """The request was made for another position than the game's, or for a game that has ended."""


@dataclass
class Desk:
    """What the handlers share."""

    catalog: Catalog
    shelf: RunShelf
    searches: SearchService
    sessions: SessionStore = field(default_factory=SessionStore)

    async def analyse(self, session: Session, ply: int, simulations: int) -> Analysis:
        """Search the position after `ply` moves; an answer already known with that many playouts is used again.

        The game may change meanwhile (no lock is held: whoever moves or takes back ends the search), so a session
        never has more than one search going.

        Raises:
            Overloaded: too many requests wait.
            OutOfStep: another request of this game ended the search, or the game is over there.
        """
        if ply > session.ply:
            raise OutOfStep(f"the game has {session.ply} moves")
        state = session.states[ply]
        if state.over[0]:
            raise OutOfStep("the game is over there")
        most = self.searches.limits.max_simulations
        if simulations > most:
            raise UnknownOffer(f"this server makes at most {most} playouts a move")
        if not session.net.policy:
            simulations = max(1, simulations)
        known = session.analyses.get(ply)
        if known is not None and known.playouts == simulations:
            return known
        session.stop_search()
        seed = (session.seed + ply) % 2**32
        search = session.search = self.searches.submit(session.game, session.net.source, state, simulations, seed)
        try:
            found = await asyncio.wrap_future(search)
        except asyncio.CancelledError:
            if search is session.search:  # not ended by the game: the server is stopping, or the client has gone
                raise
            raise OutOfStep("the game has moved on") from None
        if ply > session.ply or session.states[ply] is not state:
            raise OutOfStep("the game has moved on")
        session.learn(ply, found)
        return found


def create_app(
    catalog: Catalog | None = None, shelf: RunShelf | None = None, limits: EngineLimits | None = None,
    sessions: SessionStore | None = None, hosts: Sequence[str] = (),
) -> FastAPI:  # fmt: skip
    """The application; its search thread lives as long as the server (ASGI lifespan)."""
    searches = SearchService(limits or EngineLimits())
    desk = Desk(catalog or Catalog(), shelf or RunShelf(), searches, sessions or SessionStore())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        desk.searches.start()
        yield
        await asyncio.to_thread(desk.searches.stop)

    app = FastAPI(
        title="azcaffe", version="1", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json"
    )
    app.add_middleware(Guard, hosts=hosts)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(AzcaffeError, _mistake)
    app.include_router(_games(desk), prefix="/api", responses=ERRORS)
    app.include_router(_runs(desk), prefix="/api", responses=ERRORS)

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")

    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def _games(desk: Desk) -> APIRouter:
    """What can be played, and games in progress."""
    router = APIRouter(tags=["games"])

    @router.get("/setup")
    async def setup() -> models.Setup:
        """What the page offers."""
        nets = desk.catalog.nets.values()
        return models.Setup(
            families=desk.catalog.families,
            games=desk.catalog.games,
            nets=[models.NetView(id=n.id, title=n.title, game=n.game, policy=n.policy) for n in nets],
            board=models.BoardLimits(least_side=LEAST_SIDE, most_side=MOST_SIDE),
            max_simulations=desk.searches.limits.max_simulations,
            runs=len(await asyncio.to_thread(desk.shelf.runs)),
        )

    @router.post("/games", status_code=201)
    async def begin(body: models.NewGame) -> models.GameView:
        """Begin a game."""
        game = desk.catalog.game(body.game)
        net = desk.catalog.net(body.net, game)
        return game_view(desk.sessions.create(game.with_history(net.history), net, body.human))

    @router.get("/games/{id}")
    async def look(id: SessionId) -> models.GameView:
        """The game as it stands."""
        return game_view(desk.sessions.get(id))

    @router.delete("/games/{id}", status_code=204)
    async def forget(id: SessionId) -> Response:
        """The player has left."""
        desk.sessions.drop(id)
        return Response(status_code=204)

    @router.post("/games/{id}/moves")
    async def move(id: SessionId, body: models.Move) -> models.GameView:
        """A person's move."""
        session = desk.sessions.get(id)
        _in_step(session, body.ply)
        session.play(body.action)
        return game_view(session)

    @router.post("/games/{id}/reply")
    async def reply(id: SessionId, body: models.Reply) -> models.ReplyView:
        """The net's move."""
        session = desk.sessions.get(id)
        _in_step(session, body.ply)
        analysis = await desk.analyse(session, body.ply, body.simulations)
        _in_step(session, body.ply)
        view = analysis_view(session.game, session.states[-1], body.ply, analysis)
        session.play(_draw(session, analysis) if body.variety else analysis.best)
        return models.ReplyView(game=game_view(session), analysis=view)

    @router.post("/games/{id}/analysis")
    async def analysis(id: SessionId, body: models.Look) -> models.AnalysisView:
        """What the net makes of a position of the game."""
        session = desk.sessions.get(id)
        found = await desk.analyse(session, body.ply, body.simulations)
        return analysis_view(session.game, session.states[body.ply], body.ply, found)

    @router.post("/games/{id}/undo")
    async def undo(id: SessionId, body: models.Undo) -> models.GameView:
        """Take moves back."""
        session = desk.sessions.get(id)
        if body.ply > session.ply:
            raise OutOfStep(f"the game has {session.ply} moves")
        session.undo_to(body.ply)
        return game_view(session)

    return router


def _runs(desk: Desk) -> APIRouter:
    """Training runs. Plain functions: FastAPI runs them in threads, since they read files."""
    router = APIRouter(tags=["runs"])

    @router.get("/runs")
    def runs() -> list[models.RunView]:
        """All runs, newest first."""
        return desk.shelf.runs()

    @router.get("/runs/{id}/curves", responses={304: {"description": "Nothing new since the ETag given."}})
    def curves(id: RunId, response: Response, if_none_match: Annotated[str | None, Header()] = None) -> Any:
        """A run's curves."""
        tag = f'"{desk.shelf.stamp(id)}"'
        if if_none_match == tag:
            return Response(status_code=304, headers={"etag": tag})
        response.headers["etag"] = tag
        return desk.shelf.curves(id)

    @router.get("/runs/{id}/games")
    def games(
        id: RunId, offset: Annotated[int, Query(ge=0, le=100_000)] = 0, limit: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> models.SavedGames:
        """Self-play games, newest first."""
        return desk.shelf.games(id, offset, limit)

    @router.get("/runs/{id}/games/{number}")
    def replay(id: RunId, number: Annotated[int, PathParameter(ge=0, le=2**53)]) -> models.Replay:
        """One self-play game, position by position."""
        return desk.shelf.replay(id, number)

    return router


def _in_step(session: Session, ply: int) -> None:
    if ply != session.ply:
        raise OutOfStep(f"the game has {session.ply} moves by now, the request was made after {ply}")
    if session.over:
        raise OutOfStep("the game is over")


def _draw(session: Session, analysis: Analysis) -> int:
    """A move in proportion to visits (to priors where there are none), for games that differ."""
    weights = analysis.visits if analysis.visits.any() else analysis.priors
    shares = np.asarray(weights, np.float64) / weights.sum()
    return int(np.random.default_rng([session.seed, session.ply]).choice(len(shares), p=shares / shares.sum()))


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """A request that does not fit its shape, told in one line."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return JSONResponse({"detail": "the body is not JSON"}, 400)
    place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return JSONResponse({"detail": f"{place}: {first['msg']}"}, 422)


async def _mistake(_: Request, error: Exception) -> JSONResponse:
    """One of our errors."""
    if isinstance(error, OutOfStep):
        return JSONResponse({"detail": str(error)}, 409)
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    headers = {"retry-after": "2"} if status == 503 else None
    return JSONResponse({"detail": str(error)}, status, headers)
