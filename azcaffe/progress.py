# SPDX-License-Identifier: AGPL-3.0-or-later
"""Progress on stderr: a bar on a terminal, a plain line now and then elsewhere, nothing when told to be quiet."""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType
from typing import Self, TextIO

BAR_SECONDS = 0.1
LINE_SECONDS = 10.0
BAR_WIDTH = 24
ESTIMATE_FROM = 0.01
"""No estimate before this share is done: games played side by side end together, so the first says little."""


class Progress:
    """`with Progress("games", total=100) as progress: progress.update(3, "win 2")`.

    On a terminal one line is redrawn at most ten times a second; otherwise a line is printed at most every ten
    seconds, and one at the end. Nothing is ever written to stdout.
    """

    def __init__(
        self, label: str, total: int, *, quiet: bool = False, stream: TextIO | None = None, start: int = 0
    ) -> None:
        """`start`: how much was done before now (a resumed run), left out of the estimate of the time to go."""
        self._label = label
        self._total = max(total, 1)
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._terminal = not quiet and self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._start = self._done = start
        self._note = ""
        self._began = time.monotonic()
        self._shown = self._began if not self._terminal else 0.0
        self._drawn = self._updated = False
        self._printed: tuple[int, str] | None = None

    def update(self, done: int, note: str = "") -> None:
        """`done` of the total are done; `note` is shown beside it."""
        self._done, self._note, self._updated = done, note, True
        now = time.monotonic()
        if not self._quiet and now - self._shown >= (BAR_SECONDS if self._terminal else LINE_SECONDS):
            self._shown = now
            self._show(now)

    def message(self, text: str) -> None:
        """Print a line without breaking the bar; quiet keeps it back."""
        if self._quiet:
            return
        self._erase()
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Show the last state, if there was one, and end the line."""
        if self._quiet or not self._updated:
            return
        if self._printed != (self._done, self._note):
            self._show(time.monotonic())
        if self._terminal and self._drawn:
            print(file=self._stream, flush=True)
            self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _show(self, now: float) -> None:
        share = min(self._done / self._total, 1.0)
        made = self._done - self._start
        if made > 0 and made >= ESTIMATE_FROM * (self._total - self._start) and share < 1:
            eta = f" {clock((now - self._began) / made * (self._total - self._done))} left"
        else:
            eta = f" {clock(now - self._began)}"
        count = f"{self._label} {self._done}/{self._total}{eta}" + (f"  {self._note}" if self._note else "")
        self._printed = (self._done, self._note)
        if not self._terminal:
            print(count, file=self._stream, flush=True)
            return
        filled = round(share * BAR_WIDTH)
        text = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {count}"
        self._erase()
        self._stream.write(text[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._drawn = False


def clock(seconds: float) -> str:
    """`4s`, `2m05s`, `3h07m`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def colours(stream: TextIO) -> bool:
    """Whether `stream` is a terminal that shows colours, and the user has not set NO_COLOR (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
