# SPDX-License-Identifier: AGPL-3.0-or-later
"""What people may play: games, boards, and the nets the server was started with. Requests name them, never files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from azcaffe.errors import AzcaffeError, GameError
from azcaffe.games.base import Game
from azcaffe.games.registry import GAMES, OPENSPIEL, parse_game
from azcaffe.search import RolloutEvaluator
from azcaffe.web.engine import Source

LEAST_SIDE, MOST_SIDE = 3, 10
MAX_PLIES = 200
"""Games on offer have at most 10 squares a side and 200 plies, which bounds memory and the size of an answer."""


@dataclass(frozen=True)
class NetOffer:
    """An opponent.

    Attributes:
        id: what requests call it.
        title: what people read.
        source: its evaluations.
        game: canonical name of the one game it plays; None: any.
        history: past boards it looks at.
        policy: it has priors worth showing.
    """

    id: str
    title: str
    source: Source
    game: str | None = None
    history: int = 0
    policy: bool = True


ROLLOUTS = NetOffer(
    "rollouts", "Roll-out MCTS (no net)", Source("rollouts", RolloutEvaluator), policy=False
)


class UnknownOffer(AzcaffeError):
    """A game or net that is not on offer."""


class Catalog:
    """The offer: the shipped board games up to 10 x 10 against roll-outs, and each net on its game.

    Attributes:
        nets: by id, in the order given; the roll-outs last.
        games: canonical names of the nets' games, in order, then other games the server was started with.
    """

    def __init__(self, nets: Sequence[NetOffer] = (), games: Sequence[str] = ()) -> None:
        self.nets = {net.id: net for net in (*nets, ROLLOUTS)}
        named = [net.game for net in nets if net.game is not None]
        self.games = list(dict.fromkeys([*named, *(parse_game(name).name for name in games)]))

    @property
    def families(self) -> list[str]:
        """Board games whose size a player may choose."""
        return sorted(GAMES)

    def game(self, text: str) -> Game:
        """The game a request asks for.

        Raises:
            UnknownOffer: not one of the offer.
            GameError: an impossible board.
        """
        if text in self.games:
            return parse_game(text)
        if text.startswith(OPENSPIEL):
            raise UnknownOffer("this server was not started with that game")
        game = parse_game(text)
        small = all(LEAST_SIDE <= side <= MOST_SIDE for side in game.shape) and game.max_plies <= MAX_PLIES
        if game.name not in self.games and not small:
            raise GameError(f"boards on this server have {LEAST_SIDE} … {MOST_SIDE} squares a side")
        return game.with_history(0)

    def net(self, id_: str, game: Game) -> NetOffer:
        """The net `id_`, which must play `game`.

        Raises:
            UnknownOffer: there is none, or it plays another game.
        """
        net = self.nets.get(id_)
        if net is None:
            raise UnknownOffer("this server has no such net")
        if net.game is not None and net.game != game.name:
            raise UnknownOffer(f"{net.title} plays {net.game}, not {game.name}")
        return net
