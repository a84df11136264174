# SPDX-License-Identifier: AGPL-3.0-or-later
"""What holds for every command: help on a screen, one-line errors, exit codes, the reader going away."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from azcaffe.cli.main import COMMANDS, HELP_END, help_text
from tests.cli.conftest import Run

PRESENT = [name for name, (module, _) in COMMANDS.items() if importlib.util.find_spec(module)]


def fits_a_screen(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) <= 40 and max(map(len, lines)) <= 100


def test_help_fits_a_screen_and_shows_an_example_and_the_exit_codes(azcaffe: Run) -> None:
    for words in ([], ["--help"], ["-h"], ["help"]):
        outcome = azcaffe(*words)
        assert outcome.code == 0
        assert outcome.out == help_text() + "\n"
    assert fits_a_screen(help_text())
    assert "Example" in help_text() and "Exit codes" in HELP_END
    assert all(name in help_text() for name in COMMANDS)


@pytest.mark.parametrize("name", PRESENT)
def test_help_of_every_command(name: str, azcaffe: Run) -> None:
    outcome = azcaffe(name, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage: azcaffe {name} ")
    assert "Example:  azcaffe " in outcome.out
    assert fits_a_screen(outcome.out), (len(outcome.out.splitlines()), max(map(len, outcome.out.splitlines())))
    assert azcaffe("help", name).out == outcome.out


@pytest.mark.parametrize("name", PRESENT)
def test_an_unknown_option_is_told_with_the_nearest(name: str, refused: Callable[..., str]) -> None:
    assert "did you mean --quiet?" in refused(name, "--quite")
    assert "--zzzzzzzz" in refused(name, "--zzzzzzzz")


def test_options_are_never_abbreviated(refused: Callable[..., str]) -> None:
    assert "did you mean --simulations?" in refused("test", "--simul", "3")


def test_unknown_command(refused: Callable[..., str]) -> None:
    assert "did you mean train?" in refused("trian")
    assert "azcaffe --help" in refused("xyzzy")


def test_version(azcaffe: Run) -> None:
    assert azcaffe("--version").out.startswith("azcaffe ")


@pytest.mark.parametrize(
    "words, message",
    [
        (["--simulations", "0"], "1 … 10,000,000"),
        (["--simulations", "-5"], "1 … 10,000,000"),
        (["--simulations", "many"], "whole number"),
        (["--simulations"], "expected one argument"),
        (["--c-puct", "nan"], "c_puct"),
        (["--c-puct", "-1"], "c_puct"),
        (["--time-ms", "0"], "time_ms"),
        (["--search", "wrong"], "corrected or original"),
        (["--board-size", "0"], "3 to 26"),
        (["--board-size", "1"], "3 to 26"),
        (["--board-size", "2"], "3 to 26"),
        (["--board-size", "64"], "3 to 26"),
        (["--board-size", "3", "--connect", "4"], "from 3 to 3"),
        (["--board-size", "6", "--board-width", "7"], "not both"),
        (["--game", "chess"], "unknown game"),
        (["--game", "tictactoe(height=3", "--connect", "3"], "leave out"),
        (["--seed", "-1"], "seed"),
        (["--cache", "-1"], "--cache"),
        (["--weights", "/nowhere/x.caffemodel"], "does not exist"),
        (["--weights", "/"], "is a folder"),
        (["surplus"], "not expected"),
    ],
)
@pytest.mark.parametrize("command", ["test", "show", "play", "verify"])
def test_bad_values_are_refused_before_any_work(
    command: str, words: list[str], message: str, refused: Callable[..., str]
) -> None:
    assert message in refused(command, *words)


@pytest.mark.parametrize("command", ["test", "verify", "rate"])
def test_where_results_cannot_be_written_nothing_is_begun(
    command: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    players = ["random", "mcts:9"] if command == "rate" else []
    assert "is a folder" in refused(command, *players, "--json", tmp_path)
    assert "does not exist" in refused(command, *players, "--json", tmp_path / "no" / "x.json")


def test_an_error_of_the_system_is_one_line(azcaffe: Run) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    words = ["rate", "random", "mcts:2", "--board-size", "3", "--games", "2", "--workers", "1", "--quiet"]
    done = azcaffe(*words, "--json", "/dev/full")
    assert done.code == 2
    assert done.err == "azcaffe: No space left on device\n"


def python(*words: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "azcaffe", *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )  # type: ignore[call-overload]


def test_the_reader_goes_away() -> None:
    with python("rate", "random", "mcts:5", "--board-size", "3", "--games", "2", "--workers", "1") as process:
        process.stdout.close()
        assert process.wait(60) == 141
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_control_c_in_a_match_reports_the_games_so_far(workers: str, nets: Path) -> None:
    words = ["test", "--mode", "Random", "--board-size", "3", "--weights", str(nets / "small.caffemodel")]
    words += ["--games", "100000", "--parallel", "8", "--simulations", "5", "--workers", workers, "--display"]
    with python(*words) as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:  # until a game has ended
            if line.startswith("game "):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "stopped after" in err
    assert "wins/draws/losses" in out
