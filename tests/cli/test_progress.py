# SPDX-License-Identifier: AGPL-3.0-or-later
"""Progress: a bar on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import io

import pytest

from azcaffe.progress import Progress, clock, colours


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_when_not_a_terminal() -> None:
    stream = io.StringIO()
    with Progress("games", 10, stream=stream) as progress:
        for done in range(11):
            progress.update(done)
    assert stream.getvalue() == "games 10/10 0s\n"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Progress("games", 10, stream=stream) as progress:
        progress.update(5, "score 0.5")
        progress.message("worker 1 died")
    text = stream.getvalue()
    assert "[############............] games 5/10" in text
    assert "score 0.5" in text
    assert "worker 1 died\n" in text
    assert text.endswith("\n")


def test_quiet_writes_nothing() -> None:
    stream = Terminal()
    with Progress("games", 10, stream=stream, quiet=True) as progress:
        progress.update(5)
        progress.message("something")
    assert stream.getvalue() == ""


def test_what_was_done_before_does_not_shorten_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 20.0, 20.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    stream = io.StringIO()
    Progress("games", 100, stream=stream, start=80).update(90)
    assert "games 90/100 20s left" in stream.getvalue()  # ten took 20 s, ten are left


def test_the_first_of_many_gives_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 48.0, 60.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    stream = io.StringIO()
    progress = Progress("games", 1000, stream=stream)
    progress.update(1)
    progress.update(20)
    assert stream.getvalue() == "games 1/1000 48s\ngames 20/1000 49m00s left\n"


def test_clock() -> None:
    assert [clock(s) for s in (4, 125, 11220)] == ["4s", "2m05s", "3h07m"]


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colours(Terminal())
    assert not colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours(Terminal())
