# SPDX-License-Identifier: AGPL-3.0-or-later
"""`azcaffe test`: the published flags, every mode, what it writes, which files it takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from azcaffe.cli.test import handover
from azcaffe.cli.text import parse_moves
from azcaffe.games import make_game
from tests.cli.conftest import Run

QUICK = ("--board_size=3", "--aligned_to_win=3", "--num_playouts=8", "--num_test=6", "--workers", "1", "--quiet")


@pytest.fixture(autouse=True)
def models(nets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZCAFFE_MODELS", str(nets))


@pytest.mark.parametrize("mode", ["MCTS", "Random", "Self", "Compare"])
def test_published_command_lines(mode: str, nets: Path, tmp_path: Path, azcaffe: Run) -> None:
    published = [
        "--train=0", "--c_puct=3.0", f"--test_mode={mode}", "--display=0", "--opponent_playouts=9",
        f"--model_file={nets / 'small.prototxt'}", f"--trained_weights={nets / 'small.caffemodel'}",
        f"--model_file2={nets / 'other.prototxt'}", f"--trained_weights2={nets / 'other.caffemodel'}",
    ]  # fmt: skip
    done = azcaffe("test", *QUICK, *published, "--json", tmp_path / "result.json")
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["games"] == 6
    assert f"wins/draws/losses  {result['wins']}/{result['draws']}/{result['losses']}" in done.out
    assert "95 % interval" in done.out and "first player" in done.out and "mean length" in done.out
    other = {"MCTS": "MCTS 9", "Random": "random", "Self": "small (2)", "Compare": "other"}
    assert result["players"] == ["small", other[mode]]
    assert sum(record["first"] == "small" for record in result["records"]) == 3
    assert sum(result["moving_first"]) == sum(result["moving_second"]) == 3
    assert f"moving first       {'/'.join(map(str, result['moving_first']))}\n" in done.out
    if mode == "Self":
        assert result["score"] == 0.5


def test_the_articles_command_line(nets: Path, azcaffe: Run) -> None:
    words = ["--board-size", "3", "--simulations", "8", "--games", "4", "--workers", "1", "--test-mode", "random"]
    files = ["--model", nets / "small.prototxt", "--weights", nets / "small.caffemodel"]
    done = azcaffe("test", *words, *files)
    assert done.code == 0
    assert "games              4" in done.out
    assert "games 4/4" in done.err


def test_connect_n_by_the_published_board_flags(nets: Path, azcaffe: Run) -> None:
    words = ["--board_width=5", "--board_height=4", "--aligned_to_win=4", "--num_playouts=8", "--num_test=4"]
    done = azcaffe("test", *words, "--workers=1", "--mode=Random", "--weights", nets / "gravity.caffemodel", "--quiet")
    assert done.code == 0
    assert "connectn(height=4,width=5,connect=4)" in done.out


def test_results_do_not_depend_on_workers_and_repeat_under_a_seed(nets: Path, tmp_path: Path, azcaffe: Run) -> None:
    found = []
    for workers, seed in ((1, 3), (2, 3), (1, 4)):
        words = [*QUICK[:3], "--num_test=12", "--quiet", "--mode", "MCTS", "--opponent-playouts", "9", "--seed", seed]
        file = tmp_path / "result.json"
        assert (
            azcaffe("test", *words, "--weights", nets / "small.caffemodel", "--workers", workers, "--json", file).code
            == 0
        )
        found.append(json.loads(file.read_text())["records"])
    assert found[0] == found[1] != found[2]


def test_second_weights_mean_compare_and_share_the_net(nets: Path, tmp_path: Path, azcaffe: Run) -> None:
    renamed = tmp_path / "newer.caffemodel"
    renamed.write_bytes((nets / "other.caffemodel").read_bytes())
    words = ["--model", nets / "small.prototxt", "--weights", nets / "small.caffemodel", "--weights2", renamed]
    done = azcaffe("test", *QUICK, *words)
    assert done.code == 0
    assert done.out.startswith("small against newer\n")


def test_a_net_against_its_own_original_search(nets: Path, azcaffe: Run) -> None:
    done = azcaffe(
        "test", *QUICK, "--mode=Compare", "--weights", nets / "small.caffemodel", "--opponent-search=original"
    )
    assert done.code == 0
    assert "opponent: 8 playouts, c_puct 3, original search" in done.out


def test_raw_policy_makes_no_playouts(nets: Path, azcaffe: Run) -> None:
    words = ["--weights", nets / "small.caffemodel", "--weights2", nets / "other.caffemodel", "--raw-policy"]
    done = azcaffe("test", *QUICK, *words)
    assert done.code == 0
    assert "raw policy" in done.out
    assert "playouts/s         -" in done.out


def test_display_and_export_show_whole_games(nets: Path, tmp_path: Path, azcaffe: Run) -> None:
    file = tmp_path / "games.txt"
    words = ["--mode=Random", "--weights", nets / "small.caffemodel", "--display=1", "--export", file]
    done = azcaffe("test", *QUICK, *words)
    assert done.code == 0
    game = make_game("tictactoe", height=3, width=3, connect=3)
    lines = file.read_text().splitlines()
    assert len(lines) == 6
    for line in lines:
        assert line in done.out
        moves = parse_moves(game, line.rpartition("; ")[2])
        assert done.out.count(f"{len(moves)}. ") >= 1


def test_human_mode_counts_the_games_that_were_finished(nets: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "azcaffe",
        "test",
        *QUICK,
        "--test_mode=Human",
        "--weights",
        str(nets / "small.caffemodel"),
    ]
    typed = "".join(f"{cell}\n" for cell in range(9)) + "q\n"
    done = subprocess.run(words, input=typed, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^games +[1-4] ", done.stdout, re.MULTILINE)
    assert "small against you" in done.stdout


def test_the_net_that_is_shipped_is_found_by_the_board(
    azcaffe: Run, nets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = azcaffe("test", *QUICK, "--mode=Random", "--games=2")
    assert done.code == 0
    assert done.out.startswith("history against random")  # the largest of those that fit
    monkeypatch.setenv("AZCAFFE_MODELS", str(nets / "nothing"))
    assert azcaffe("test", *QUICK).code == 2


def test_refusals(nets: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    small = ("--weights", nets / "small.caffemodel")
    assert "MCTS, Compare" in refused("test", *QUICK, *small, "--mode", "Chess")
    assert "--weights2" in refused("test", *QUICK, *small, "--mode", "Compare")
    assert "games must be" in refused("test", *QUICK, *small, "--games", "0")
    assert "opening_plies" in refused("test", *QUICK, *small, "--opening-plies", "9")
    assert "openings must be" in refused("test", *QUICK, *small, "--openings", "some")
    assert "parallel" in refused("test", *QUICK, *small, "--parallel", "0")
    assert "workers" in refused("test", *QUICK, *small, "--workers", "0")
    assert "simulations" in refused("test", *QUICK, *small, "--opponent-playouts", "0")
    assert "does not exist" in refused("test", *QUICK, *small, "--json", tmp_path / "no" / "x.json")
    assert "give --model" in refused("test", *QUICK, "--weights", _copy(nets, tmp_path, "orphan.caffemodel"))
    assert "no weights" in refused("test", *QUICK, "--model", _copy(nets, tmp_path, "lonely.prototxt"))
    misfit = refused("test", "--board-size=6", *small)
    assert "height 3 in the net, 6 in the game" in misfit and "make-net" in misfit


def test_a_mistake_found_by_a_worker_is_one_line_too(nets: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    damaged = tmp_path / "small.caffemodel"
    damaged.write_bytes((nets / "small.caffemodel").read_bytes()[:-100])
    words = ["--model", nets / "small.prototxt", "--weights", damaged, "--workers", "2"]
    assert "small.caffemodel" in refused("test", *QUICK, "--mode=Random", *words)


def _copy(nets: Path, folder: Path, name: str) -> Path:
    target = folder / name
    target.write_bytes((nets / f"small{target.suffix}").read_bytes())
    return target


@pytest.mark.parametrize(
    "line, rest",
    [
        ("--train=1 --board_size=3", ["--board_size=3"]),
        ("--board_size=3 --train 1 --seed 2", ["--board_size=3", "--seed", "2"]),
        ("--train --seed 2", ["--seed", "2"]),
        ("-train=true", []),
    ],
)
def test_train_hands_over(line: str, rest: list[str]) -> None:
    assert handover(line.split()) == ("train", rest)


@pytest.mark.parametrize("line", ["", "--train=0", "--train 0 --seed 1", "--trained_weights=1"])
def test_test_stays(line: str) -> None:
    assert handover(line.split()) is None
