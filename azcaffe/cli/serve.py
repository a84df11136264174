# SPDX-License-Identifier: AGPL-3.0-or-later
"""Play against nets and watch training in the browser; one page, served to this machine only unless told otherwise."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from azcaffe.cli.common import models_folder, net_files
from azcaffe.cli.parser import CommandParser, UsageError, ranged
from azcaffe.errors import AzcaffeError
from azcaffe.games.registry import make_game

if TYPE_CHECKING:
    from azcaffe.web.catalog import NetOffer

EXAMPLE = "azcaffe serve --net models/net_tic_tac_3_3_2_res_block.caffemodel --runs runs"


def add_arguments(parser: CommandParser) -> None:
    """What is offered, and where."""
    group = parser.add_argument_group("what to offer")
    group.add_argument(
        "--net", nargs="+", action="append", metavar="FILE", default=[],
        help="WEIGHTS [MODEL] [GAME]; may be repeated [every trained net in models/]",
    )  # fmt: skip
    group.add_argument("--runs", nargs="+", type=Path, metavar="DIR", default=[], help="training runs, or their folder")
    group.add_argument(
        "--game", action="append", metavar="NAME", default=[], help="another game, e.g. openspiel:hex(board_size=5)"
    )
    place = parser.add_argument_group("where")
    place.add_argument("--host", default="127.0.0.1", help="address to listen on [127.0.0.1]")
    place.add_argument("--port", type=ranged(0, 65535), default=8000, metavar="N", help="0: any free one [8000]")
    place.add_argument(
        "--allow-host", action="append", metavar="NAME", default=[], help="a name that people call this machine by"
    )
    limits = parser.advanced("limits")
    for option, most, default, text in (
        ("--max-simulations", 100_000, 1600, "playouts a move"),
        ("--max-seconds", 600, 10, "longest search"),
        ("--max-games", 100_000, 1000, "games in memory"),
        ("--expiry", 10_000, 60, "minutes an idle game is kept"),
    ):
        limits.add_argument(option, type=ranged(1, most), default=default, metavar="N", help=f"{text} [{default}]")


def run(args: argparse.Namespace) -> int:
    """Open the nets, listen, and serve until interrupted."""
    try:
        import uvicorn

        from azcaffe.web.app import create_app
    except ImportError as error:
        missing = f"serving needs FastAPI and uvicorn ({error.name} is missing)"
        raise AzcaffeError(f"{missing}: pip install 'azcaffe[web]'") from None
    from azcaffe.web.catalog import Catalog
    from azcaffe.web.engine import EngineLimits
    from azcaffe.web.runs import RunShelf
    from azcaffe.web.sessions import SessionStore

    for folder in args.runs:
        if not folder.is_dir():
            raise AzcaffeError(f"--runs {folder}: no such folder")
    app = create_app(
        Catalog(_offers(args.net), args.game),
        RunShelf(args.runs),
        EngineLimits(max_simulations=args.max_simulations, max_seconds=args.max_seconds),
        SessionStore(args.max_games, args.expiry * 60.0),
        [*args.allow_host, args.host],
    )
    listener = _listen(args.host, args.port)
    logging.basicConfig(format="azcaffe: %(message)s", level=logging.INFO if args.verbose else logging.WARNING)
    print(f"http://{_url_host(args.host)}:{listener.getsockname()[1]}/", flush=True)
    if not args.quiet:
        print("azcaffe: Ctrl-C ends the server", file=sys.stderr)
    config = uvicorn.Config(
        app, log_config=None, access_log=args.verbose, timeout_keep_alive=30, limit_concurrency=1000,
        h11_max_incomplete_event_size=32_768, server_header=False, timeout_graceful_shutdown=3,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def _offers(given: Sequence[Sequence[str]]) -> list[NetOffer]:
    """The nets asked for; without any, every trained net in models/ (which may be none)."""
    from azcaffe.web.nets import offer_net

    if given:
        triples = [_named_net(words) for words in given]
    else:
        triples = [(model, weights, None) for model, weights in _shipped()]
    return [offer_net(str(number), *triple) for number, triple in enumerate(triples)]


def _named_net(words: Sequence[str]) -> tuple[Path, Path, str | None]:
    """One --net: files are told apart by their names' endings, what is no file is the game."""
    models = [word for word in words if word.endswith(".prototxt")]
    weights = [word for word in words if word.endswith((".caffemodel", ".h5"))]
    games = [word for word in words if word not in models and word not in weights]
    if max(len(models), len(weights), len(games)) > 1 or not (models or weights):
        raise UsageError(f"--net {' '.join(words)}: give FILE.caffemodel, and where needed FILE.prototxt and the game")
    files = net_files(make_game("tictactoe"), *(group[0] if group else None for group in (models, weights)))
    return files.model, files.weights, games[0] if games else None


def _shipped() -> Iterator[tuple[Path, Path]]:
    """Trained nets in models/ and the published ones, where they were fetched."""
    folder = models_folder()
    for weights in sorted([*folder.glob("*.caffemodel"), *folder.glob("original/*.caffemodel")]):
        for model in (weights.with_suffix(".prototxt"), folder / f"{weights.stem}.prototxt"):
            if model.is_file():
                yield model, weights
                break


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that a taken port is one line and not a server half started."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)  # who opens the printed address at once waits, and is not refused
    except OSError as error:
        raise AzcaffeError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    listener.set_inheritable(False)
    return listener


def _url_host(host: str) -> str:
    """What to type into the browser for that address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1"
    return f"[{host}]" if address.version == 6 else host
