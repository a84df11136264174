# SPDX-License-Identifier: AGPL-3.0-or-later
# ruff: noqa: E501 (cases read best on one line)
"""azcaffe check: what each file is, every pair compared, the mismatches as a table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from azcaffe.cli.main import main
from azcaffe.games.registry import make_game
from azcaffe.network import (
    NetEvaluator,
    NetSpec,
    Solver,
    SolverSpec,
    check_files,
    save_weights,
    write_net,
    write_solver,
)

MODELS = Path(__file__).parents[2] / "models"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """net, solver, snapshot.caffemodel, snapshot.solverstate that fit."""
    folder = tmp_path_factory.mktemp("run")
    write_net(NetSpec(3, 3, 9, blocks=1, channels=4), folder / "net.prototxt")
    solver_file = write_solver(SolverSpec(), folder / "solver.prototxt", folder / "net.prototxt")
    Solver(solver_file, make_game("tictactoe", height=3, width=3, connect=3), seed=0).save(folder, "snapshot")
    return folder


def test_files_that_fit(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        run_folder / name for name in ("net.prototxt", "snapshot.caffemodel", "solver.prototxt", "snapshot.solverstate")
    ]
    assert main(["check", *map(str, files)]) == 0
    out = capsys.readouterr().out
    for text in (
        "net.prototxt: net\n    fits a board of 3 rows and 3 columns, 3 input planes, 9 actions\n    18 layers, ",
        "snapshot.caffemodel: caffemodel\n    fits 9 squares, 3 input planes, 9 actions",
        "solver.prototxt: solver\n    SGD, learning rate 0.02 (step), net ",
        "snapshot.solverstate: solverstate\n    iteration 0, memory of 18 blobs, weights in snapshot.caffemodel",
        "net.prototxt + " + str(run_folder / "snapshot.caffemodel") + ": fit",
        "solver.prototxt + " + str(run_folder / "snapshot.solverstate") + ": fit",
    ):
        assert text in out
    assert "WRONG" not in out and "NOT FIT" not in out


def test_the_published_weights(original_assets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = str(original_assets / "net_tic_tac_6_4_2_res_block.caffemodel")
    assert main(["check", str(MODELS / "net_tic_tac_6_4_2_res_block.prototxt"), weights]) == 0
    assert "fits 36 squares, 3 input planes, 36 actions" in capsys.readouterr().out
    assert main(["check", str(MODELS / "net_tic_tac_6_4_1_res_block.prototxt"), weights]) == 2
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["res2_conv1", "all", "-", "64x64x3x3"] in [words[:4] for words in lines]


def test_a_table_of_mismatches(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = write_net(NetSpec(4, 4, 16, blocks=2, channels=4), tmp_path / "other.prototxt")
    assert main(["check", str(other), str(run_folder / "snapshot.caffemodel")]) == 2
    _, _, below = capsys.readouterr().out.partition("DO NOT FIT\n")
    head, *rows = (line.split(maxsplit=4) for line in below.splitlines())
    assert head[:2] == ["layer", "blob"]
    table = {(row[0], row[1]): row[2:4] for row in rows}
    assert table[("res2_conv1", "all")] == ["4x4x3x3", "-"]
    assert table[("Value_fc1", "0")] == ["256x32", "256x18"]
    assert table[("Probas_Output", "0")] == ["16x32", "9x18"]
    assert table[("Probas_Output", "1")] == ["16", "9"]
    assert ("conv1", "0") not in table


def test_missing_layers_may_be_allowed(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deeper = write_net(NetSpec(3, 3, 9, blocks=2, channels=4), tmp_path / "deeper.prototxt")
    assert main(["check", str(deeper), str(run_folder / "snapshot.caffemodel")]) == 2
    assert main(["check", "--allow-missing", str(deeper), str(run_folder / "snapshot.caffemodel")]) == 0


def test_states_of_another_net(run_folder: Path, tmp_path: Path) -> None:
    deeper = write_net(NetSpec(3, 3, 9, blocks=2, channels=4), tmp_path / "deeper.prototxt")
    report = check_files([deeper, run_folder / "snapshot.solverstate"])
    (pair,) = report.pairs
    assert (
        not report.ok
        and pair.problem is not None
        and "remembers 18 parameter blobs, this net with SGD has 22" in pair.problem
    )
    assert check_files([run_folder / "net.prototxt", run_folder / "snapshot.solverstate"]).ok


def test_every_wrong_file_is_told_and_the_others_are_still_looked_at(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "half.caffemodel").write_bytes((run_folder / "snapshot.caffemodel").read_bytes()[:3000])
    (tmp_path / "page.caffemodel").write_text("<html>not found</html>")
    names = [
        tmp_path / "half.caffemodel",
        tmp_path / "page.caffemodel",
        tmp_path / "none",
        run_folder / "net.prototxt",
        tmp_path,
    ]
    assert main(["check", *map(str, names)]) == 2
    out = capsys.readouterr().out
    for text in ("damaged or cut off", "HTML page", "no such file", "fits a board of 3 rows", "is a folder"):
        assert text in out
    assert out.count("WRONG: ") == 4


def test_without_caffe(run_folder: Path) -> None:
    """The same checks where Caffe cannot be imported: nothing is opened, everything else is told."""
    program = (
        "import sys, importlib.util; find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'caffe' else find(name, *a)\n"
        "sys.modules['caffe'] = None\n"
        "from azcaffe.cli.main import main; sys.exit(main(['check', *sys.argv[1:]]))"
    )
    files = [
        str(run_folder / name)
        for name in ("net.prototxt", "snapshot.caffemodel", "solver.prototxt", "snapshot.solverstate")
    ]
    done = subprocess.run([sys.executable, "-c", program, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "not opened by Caffe, which is not installed" in done.stdout and ": fit" in done.stdout
    done = subprocess.run(
        [sys.executable, "-c", program, str(MODELS / "net_connect_6_7_4_2_res_block.prototxt"), files[1]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "DO NOT FIT" in done.stdout


@pytest.mark.parametrize("kind", ["missing bottom", "weights of another board", "text as weights"])
@pytest.mark.parametrize("command", ["test", "show", "train"])
def test_no_command_dies_of_bad_files(command: str, kind: str, run_folder: Path, tmp_path: Path) -> None:
    # R01: exit code 2 and one line; never -6 or 134, which is what Caffe's abort() would leave.
    model, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    text = (run_folder / "net.prototxt").read_text()
    model.write_text(text.replace('bottom: "conv1"', 'bottom: "conv9"', 1) if kind == "missing bottom" else text)
    if kind == "weights of another board":
        game = make_game("tictactoe", height=4, width=4, connect=3)
        other = write_net(NetSpec(4, 4, 16, blocks=1, channels=4), tmp_path / "other.prototxt")
        save_weights(weights, NetEvaluator(game, other).weights())
    elif kind == "text as weights":
        weights.write_text("these are no weights")
    else:
        weights.write_bytes((run_folder / "snapshot.caffemodel").read_bytes())
    words = {
        "test": ["--test-mode", "Random", "--games", "2", "--model", model, "--weights", weights],
        "show": ["--model", model, "--weights", weights],
        "train": ["--solver", run_folder / "solver.prototxt", "--model", model, "--init-weights", weights, "--num_game", "2",
                  "--output_dir", tmp_path / "out"],
    }[command]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "azcaffe", command, "--game", "tictactoe", "--board_size", "3", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr and "core dumped" not in done.stderr
    named = model if kind == "missing bottom" else weights
    assert str(named) in done.stderr
