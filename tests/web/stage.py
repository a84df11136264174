# SPDX-License-Identifier: AGPL-3.0-or-later
"""What the tests serve: a stub net for 3x3 tic-tac-toe and roll-outs, on a free port of this machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from azcaffe.web.app import create_app
from azcaffe.web.catalog import Catalog, NetOffer
from azcaffe.web.engine import EngineLimits, Source
from azcaffe.web.runs import RunShelf
from tests.helpers.stub_net import StubNet
from tests.helpers.waiting import PATIENCE

SMALL = "tictactoe(height=3,width=3,connect=3)"
STUB = NetOffer("stub", "A stub net", Source("stub", StubNet), SMALL)
LIMITS = EngineLimits(max_simulations=400)


def make_app(run_folder: Path) -> Any:
    """The application with the stub net and the runs in `run_folder`."""
    return create_app(Catalog([STUB]), RunShelf([run_folder]), LIMITS, hosts=["play.example"])


@contextmanager
def served(app: Any) -> Iterator[int]:
    """Run `app` in a thread; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + PATIENCE
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the server did not stop"
