# SPDX-License-Identifier: AGPL-3.0-or-later
"""What every answer carries and every request must satisfy, whatever it asks for: plain ASGI middleware."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 16_384

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Adds the security headers, and refuses foreign Host names, cross-site requests and large bodies.

    A page elsewhere that makes its name resolve to this machine ("DNS rebinding") still sends its own name as Host: so
    only addresses, `localhost` and the names given are answered.
    """

    def __init__(self, app: App, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self._headers, *_caching(scope, message)]
            await send(message)

        headers = {name.lower(): value for name, value in scope["headers"]}
        if not self._is_ours(headers.get(b"host", b"").decode("latin-1")):
            return await _refuse(send_guarded, 421, "this server does not answer to that name (--allow-host NAME)")
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none") and _is_api(scope):
            return await _refuse(send_guarded, 403, "requests from other sites are refused")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MAX_BODY or b"transfer-encoding" in headers:
            return await _refuse(send_guarded, 413, f"a request body has a stated length of at most {MAX_BODY} bytes")
        await self._app(scope, receive, send_guarded)

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").lower()
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _is_api(scope: Scope) -> bool:
    return str(scope["path"]).startswith("/api/")


def _caching(scope: Scope, message: Message) -> list[tuple[bytes, bytes]]:
    """The page is checked for a newer one at each visit; answers are not stored, those with an ETag are checked."""
    tagged = any(name.lower() == b"etag" for name, _ in message.get("headers", []))
    return [(b"cache-control", b"no-cache" if tagged or not _is_api(scope) else b"no-store")]


async def _refuse(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
