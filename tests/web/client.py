# SPDX-License-Identifier: AGPL-3.0-or-later
"""A small JSON client on one kept-alive connection, so that tests need no more than the standard library."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

from tests.helpers.waiting import PATIENCE


@dataclass(frozen=True)
class Answer:
    """Status, headers with lower-case names, and the body as JSON where it is JSON."""

    status: int
    headers: dict[str, str]
    body: Any


class Client:
    """Talks to the server on 127.0.0.1 at `port`."""

    def __init__(self, port: int, timeout: float = PATIENCE) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request; `body` is sent as JSON, bytes as they are."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = ({"content-type": "application/json"} if data is not None else {}) | (headers or {})
        self._connection.request(method, path, data, sent)
        response = self._connection.getresponse()
        raw = response.read()
        fields = {name.lower(): value for name, value in response.getheaders()}
        is_json = fields.get("content-type", "").startswith("application/json")
        return Answer(response.status, fields, json.loads(raw) if is_json else raw)

    def get(self, path: str, **headers: str) -> Answer:
        """GET with headers given as keywords, `_` for `-`."""
        return self.call("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, **body: Any) -> Answer:
        """POST a JSON object."""
        return self.call("POST", path, body)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()
