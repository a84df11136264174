# SPDX-License-Identifier: AGPL-3.0-or-later
"""A person at the board: every kind of line, on a terminal and from a pipe (CASES R23)."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from azcaffe.cli.console import Leave, Session, paint
from azcaffe.games import Game, make_game
from azcaffe.search import SearchConfig, UniformEvaluator


def session(game: Game, *lines: str, human: int = 1, simulations: int = 30) -> Session:
    """A session whose person types `lines` and then leaves."""
    typed = iter(lines)
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        try:
            return next(typed)
        except StopIteration:
            raise Leave from None

    made = Session(
        game, UniformEvaluator(game), SearchConfig(simulations=simulations), human=human, ask=ask, colour=False
    )
    made.asked = asked  # type: ignore[attr-defined]
    return made


def leave(made: Session, *opening: int) -> None:
    with pytest.raises(Leave):
        made.play(opening=opening)


@pytest.fixture
def seven() -> Game:
    return make_game("connectn", height=6, width=7, connect=4)


FULL = (3, 3, 3, 3, 3, 3)


@pytest.mark.parametrize("line", ["", "abc", "-1", "7", "8", "3.0", "99999999999", "1,1", "3", "٣", "\x00", "column"])
def test_bad_lines_ask_again_and_leave_the_board_alone(
    seven: Game, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = session(seven, line)
    leave(made, *FULL)
    assert made.moves == list(FULL)
    assert len(made.asked) == 2  # type: ignore[attr-defined]
    assert "0 … 6, 0 at the left" in made.asked[0]  # type: ignore[attr-defined]
    assert "not a" in capsys.readouterr().out


def test_zero_is_the_left_column(seven: Game) -> None:
    made = session(seven, "0")
    leave(made)
    assert made.moves[0] == 0
    assert len(made.moves) == 2  # and the net has answered


def test_a_whole_game_from_a_list_of_moves(capsys: pytest.CaptureFixture[str]) -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3)
    typed = [f"{column}{row}" for column in "abc" for row in "123"]  # taken squares ask again
    winner = session(game, *typed, simulations=400).play()
    out = capsys.readouterr().out
    assert winner in (0, -1)
    assert ("A draw." in out) or ("o wins" in out)
    assert "value for o" in out and "visits:" in out and "expects" in out


def test_undo_takes_back_the_persons_last_move(seven: Game, capsys: pytest.CaptureFixture[str]) -> None:
    made = session(seven, "0", "1", "u")
    leave(made)
    assert len(made.moves) == 2 and made.moves[0] == 0
    made = session(seven, "u")
    leave(made)
    assert "no move of yours" in capsys.readouterr().out
    made = session(seven, "2", "u", human=-1)  # the net moves first
    leave(made)
    assert len(made.moves) == 1


def test_undo_where_players_pass() -> None:
    # Othello 4x4: the person's last move may lie more than two plies back.
    game = make_game("othello", size=4)
    made = session(game, "0", "1", "2", "3", "u")
    leave(made)
    assert len(made.moves) % 2 == 0


def test_swap_lets_the_net_move(seven: Game) -> None:
    made = session(seven, "s")
    leave(made)
    assert made.human == -1
    assert len(made.moves) == 1


def test_hint_changes_nothing(seven: Game, capsys: pytest.CaptureFixture[str]) -> None:
    made = session(seven, "h")
    leave(made)
    assert made.moves == []
    assert "hint: column" in capsys.readouterr().out


def test_level_sets_the_playouts(seven: Game, capsys: pytest.CaptureFixture[str]) -> None:
    made = session(seven, "level beginner", "l 25", "l 0", "l x", "0")
    leave(made)
    out = capsys.readouterr().out
    assert "10 playouts" in out and "25 playouts" in out
    assert "simulations must be 1" in out and "needs a number" in out
    assert made.playouts == 25


def test_new_game_and_help(seven: Game, capsys: pytest.CaptureFixture[str]) -> None:
    made = session(seven, "0", "n", "?")
    leave(made)
    assert made.moves == []
    assert "undo" in capsys.readouterr().out


def test_colours_mark_stones_only() -> None:
    assert paint("    a  o\n 1  x  o\n 2 [x] .").count("\x1b[31m") == 2


def run(text: str | bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "azcaffe", "play", "--no-net", "--simulations", "20", *words]
    return subprocess.run(
        command, input=text if isinstance(text, bytes) else text.encode(), capture_output=True, timeout=60
    )


def test_end_of_input_and_q_leave_cleanly() -> None:
    for text in ("", "0\n", "q\n", b"\xff\xfe\n0\n"):
        done = run(text, "--game", "connectn")
        assert done.returncode == 0
        assert done.stderr == b""
        assert b"\x1b" not in done.stdout  # no colours in a pipe


def test_a_game_to_the_end_from_a_pipe_and_another() -> None:
    cells = "".join(f"{n}\n" for n in range(9))
    done = run(cells * 2 + "s\n" + cells, "--board-size", "3")
    assert done.returncode == 0
    assert b"new game" in done.stdout
    assert b"You are x" in done.stdout


@pytest.mark.parametrize("colour", [True, False])
def test_control_c_on_a_terminal(colour: bool) -> None:
    main_end, other_end = pty.openpty()
    env = {**os.environ, "TERM": "xterm"} | ({} if colour else {"NO_COLOR": "1"})
    process = subprocess.Popen(
        [sys.executable, "-m", "azcaffe", "play", "--no-net", "--board-size", "3", "--side", "o", "--level", "easy"],
        stdin=other_end, stdout=other_end, stderr=subprocess.PIPE, env=env,
    )  # fmt: skip
    os.close(other_end)
    seen = b""
    deadline = time.monotonic() + 60
    while b"Your move" not in seen and time.monotonic() < deadline:
        if select.select([main_end], [], [], 1)[0]:
            seen += os.read(main_end, 1000)
    for _ in range(10):  # the first may fall between readline's prompt and its wait for a key
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
            break
    assert process.returncode == 130
    assert process.stderr is not None
    assert process.stderr.read() == b"\nazcaffe: stopped\n"
    assert (b"\x1b[31m" in seen) == colour
    os.close(main_end)


def test_lines_typed_into_a_stream_without_bytes(monkeypatch: pytest.MonkeyPatch, seven: Game) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("0\n"))
    made = Session(seven, UniformEvaluator(seven), SearchConfig(simulations=5))
    with pytest.raises(Leave):
        made.play()
    assert made.moves[0] == 0
