# SPDX-License-Identifier: AGPL-3.0-or-later
"""Games in progress, in memory: a bounded number of them, each forgotten some time after its last request."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from azcaffe.errors import AzcaffeError
from azcaffe.games.base import Game, State
from azcaffe.web.catalog import NetOffer
from azcaffe.web.engine import Analysis
from azcaffe.web.models import Human

NO_SESSION = "this game is no longer on the server: start a new one"


class UnknownSession(AzcaffeError):
    """No such game: never begun, deleted, expired, or pushed out by newer ones."""


@dataclass
class Session:
    """One game: its positions, one more than its moves, and what was found out about them.

    Attributes:
        human: who is played by people: `first`, `second`, `both` or `none`.
        states: positions with B = 1, the start first.
        actions: the moves between them.
        analyses: by ply, the search with the most playouts so far.
        search: the one in progress; a player has one at a time.
        seed: of its searches and of varied openings.
    """

    id: str
    game: Game
    net: NetOffer
    human: Human
    states: list[State]
    actions: list[int] = field(default_factory=list)
    analyses: dict[int, Analysis] = field(default_factory=dict)
    search: Future[Analysis] | None = None
    seed: int = field(default_factory=lambda: secrets.randbits(32))

    @property
    def ply(self) -> int:
        """Moves played."""
        return len(self.actions)

    @property
    def over(self) -> bool:
        """The game has ended."""
        return bool(self.states[-1].over[0])

    def play(self, action: int) -> None:
        """Make a move.

        Raises:
            GameError: it is not legal.
        """
        self.stop_search()
        self.states.append(self.game.play(self.states[-1], np.array([action])))
        self.actions.append(action)

    def undo_to(self, ply: int) -> None:
        """Take back all moves after `ply` of them."""
        self.stop_search()
        del self.states[ply + 1 :], self.actions[ply:]
        for known in [known for known in self.analyses if known > ply]:
            del self.analyses[known]

    def stop_search(self) -> None:
        """End the search in progress, if there is one: the player is no longer interested."""
        if self.search is not None:
            self.search.cancel()
            self.search = None

    def learn(self, ply: int, analysis: Analysis) -> None:
        """Keep an analysis, unless a longer one of the same position is known."""
        known = self.analyses.get(ply)
        if known is None or known.playouts <= analysis.playouts:
            self.analyses[ply] = analysis


class SessionStore:
    """At most `capacity` sessions, each for `lifetime` seconds after its last use; the longest unused goes first."""

    def __init__(
        self, capacity: int = 1000, lifetime: float = 3600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capacity = capacity
        self._lifetime = lifetime
        self._clock = clock
        self._sessions: OrderedDict[str, tuple[float, Session]] = OrderedDict()  # oldest use first

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, game: Game, net: NetOffer, human: Human) -> Session:
        """A new game, at its start."""
        self._expire()
        while len(self._sessions) >= self._capacity:
            self._sessions.popitem(last=False)[1][1].stop_search()
        session = Session(secrets.token_urlsafe(16), game, net, human, [game.initial(1)])
        self._sessions[session.id] = (self._clock(), session)
        return session

    def get(self, id_: str) -> Session:
        """The session `id_`, which counts as used now.

        Raises:
            UnknownSession: there is none.
        """
        self._expire()
        try:
            _, session = self._sessions.pop(id_)
        except KeyError:
            raise UnknownSession(NO_SESSION) from None
        self._sessions[id_] = (self._clock(), session)
        return session

    def drop(self, id_: str) -> None:
        """Forget a session.

        Raises:
            UnknownSession: there is none.
        """
        self._expire()
        _, session = self._sessions.pop(id_, (0.0, None))
        if session is None:
            raise UnknownSession(NO_SESSION)
        session.stop_search()

    def _expire(self) -> None:
        oldest_allowed = self._clock() - self._lifetime
        while self._sessions:
            id_, (used, _) = next(iter(self._sessions.items()))
            if used >= oldest_allowed:
                break
            del self._sessions[id_]
