# SPDX-License-Identifier: AGPL-3.0-or-later
"""azcaffe train as its user meets it: real processes, Caffe's own solver, signals, kill -9."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from azcaffe.checkpoint import latest_checkpoint
from azcaffe.cli.main import main
from azcaffe.cli.parser import CommandParser
from azcaffe.cli.train import Connection, _options, add_arguments
from azcaffe.games.registry import make_game
from azcaffe.network import NetSpec, SolverSpec, load_weights, write_net, write_solver
from tests.helpers.waiting import PATIENCE, alive, wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
GAME = make_game("tictactoe", height=3, width=3, connect=3)
SMALL = (
    "--board_size=3",
    "--aligned_to_win=3",
    "--num_game=40",
    "--num_playouts=8",
    "--batch_size=8",
    "--max_size_memory=150",
    "--num_test=2",
    "--num-test-previous=2",
    "--games=8",
    "--lag=2",
    "--lockstep=4",
    "--seed=3",
    "--workers=1",
)
LONG = "--num_game=100000"
"""After SMALL, for runs to be stopped: no machine is through them before. Their first 40 games are the same."""


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A solver whose `net:` is relative to its own folder, which has a space and an umlaut."""
    folder = tmp_path_factory.mktemp("a folder fürs Netz")
    write_net(NetSpec.for_game(GAME, 3, blocks=1, channels=4, value_units=8), folder / "tiny.prototxt")
    write_solver(SolverSpec(display=20, snapshot=50), folder / "solver.prototxt", folder / "tiny.prototxt")
    return folder / "solver.prototxt"


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "azcaffe", "train", *map(str, words)]


def start(*words: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    # From `/`: nothing may depend on the working directory. A group of its own: signals can go to all of it.
    return subprocess.Popen(
        command(*words), cwd="/", env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def train(*words: object, code: int = 0) -> tuple[str, str]:
    """stdout and stderr of a training that ends by itself with exit code `code`."""
    process = start(*words)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert "Traceback" not in err
    return out, err


def weights(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "weights").iterdir()}


def snapshots(folder: Path) -> dict[str, bytes]:
    """The weights saved along the way, every 50 iterations; those at the end of a finished run left out."""
    paths = (folder / "weights").glob("*.caffemodel")  # none that is being written
    return {path.name: path.read_bytes() for path in paths if int(path.stem.rpartition("_")[2]) % 50 == 0}


def at_work(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until `process` holds the run's lock; from before that on it minds signals."""
    wait_for(lambda: (folder / "lock").read_text() == f"{process.pid}\n", process)


def goes_on_like(unbroken: Path, folder: Path, process: subprocess.Popen[str]) -> str:
    """Let the run in `folder` go on as far as the unbroken one, stop it, compare the snapshots; returns its stderr."""
    expected = snapshots(unbroken)
    assert len(expected) >= 6
    at_work(folder, process)
    wait_for(lambda: expected.keys() <= snapshots(folder).keys(), process)
    process.terminate()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    found = snapshots(folder)
    assert {name: found[name] for name in expected} == expected
    return err


def records(folder: Path, kind: str) -> list[dict]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, solver: Path) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    out, _ = train(
        *SMALL, "--train=1", "--solver_file", solver, "--output_dir", folder, "--log_file", folder / "my log.csv"
    )
    games, _, iterations = out.partition(" games, ")
    assert games == "40"
    assert (
        Path(out.strip().partition(": ")[2])
        == folder / "weights" / f"tiny_iter_{int(iterations.split()[0])}.caffemodel"
    )
    return folder


def test_what_a_run_leaves(unbroken: Path) -> None:
    assert {path.name for path in unbroken.iterdir()} == {
        "config.json", "checkpoints", "weights", "solver.prototxt", "tiny.prototxt", "metrics.jsonl", "games.jsonl",
        "my log.csv", "lock",
    }  # fmt: skip
    state = latest_checkpoint(unbroken / "checkpoints").state
    iteration = state["iteration"]
    assert state["counters"]["next_game"] == 40
    assert set(weights(unbroken)) == {f"tiny_iter_{i}.caffemodel" for i in {*range(50, iteration, 50), iteration}}
    log = (unbroken / "my log.csv").read_text().splitlines()
    assert log[0] == "Iter;Num Game played;Value loss;Probas loss;KL div;Opponent playouts;Win;Draw;Lost"
    assert [int(line.split(";")[0]) for line in log[1:]] == list(range(20, iteration + 1, 20))
    assert len(records(unbroken, "match")) == 2 * (iteration // 50) - 1
    assert [record["generation"] for record in records(unbroken, "line")][-1] >= 3
    games = [json.loads(line) for line in (unbroken / "games.jsonl").read_text().splitlines()]
    assert [game["game"] for game in games] == [0, 8, 16, 24, 32]
    assert all(game["rules"] == GAME.name and 5 <= len(game["actions"]) <= 9 for game in games)


def test_two_workers_end_in_the_same_weights(unbroken: Path, solver: Path, tmp_path: Path) -> None:
    train(*SMALL, "--workers=2", "--solver_file", solver, "--output_dir", tmp_path / "run")
    assert weights(tmp_path / "run") == weights(unbroken)


def test_stopped_and_resumed_ends_in_the_same_weights(unbroken: Path, solver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words: tuple[object, ...] = (*SMALL, LONG, "--solver_file", solver, "--output_dir", folder)
    for number, lines in ((signal.SIGINT, 1), (signal.SIGTERM, 6)):
        process = start(*words)
        wait_for(lambda lines=lines: len(records_of_a_killed_run(folder)) >= lines, process)
        os.killpg(process.pid, number)  # as a terminal does: to everyone, workers included
        begun = time.monotonic()
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert time.monotonic() - begun < 10
        assert "go on with: azcaffe train --resume" in err
        words = ("--resume", folder)
    goes_on_like(unbroken, folder, start(*words))
    log = [line.rsplit(";", 4)[0] for line in (folder / "log.csv").read_text().splitlines()]
    expected = [line.rsplit(";", 4)[0] for line in (unbroken / "my log.csv").read_text().splitlines()]
    assert len(log) > 15
    assert log[: len(expected)] == expected[: len(log)]  # it may be ahead of the other, or a line or two behind


def test_a_killed_worker_changes_nothing(unbroken: Path, solver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(*SMALL, LONG, "--solver_file", solver, "--output_dir", folder)
    wait_for(lambda: "\n" in (folder / "metrics.jsonl").read_text(), process)
    os.kill(_workers_of(process.pid)[0], signal.SIGKILL)
    assert "died, killed by signal 9; it is replaced" in goes_on_like(unbroken, folder, process)


@pytest.mark.slow
def test_ten_kills_at_random_moments(unbroken: Path, solver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    chance = random.Random(7)
    seen = last = -1
    words: tuple[object, ...] = (*SMALL, LONG, "--solver_file", solver, "--output_dir", folder, "--checkpoint-every=10")
    for _ in range(10):
        process = start(*words)
        at_work(folder, process)
        words = ("--resume", folder)
        newest = _newest(folder) + chance.choice([0, 0, 1, 2])
        wait_for(lambda newest=newest: _newest(folder) >= newest, process)
        time.sleep(chance.uniform(0, 0.5))
        workers = _workers_of(process.pid)
        process.kill()
        process.communicate()
        wait_for(lambda pids=workers: not any(alive(pid) for pid in pids))
        if _newest(folder):
            found = latest_checkpoint(folder / "checkpoints")
            assert not found.damaged
            assert found.state["iteration"] >= last  # counters never go back
            last = found.state["iteration"]
            seen = max([seen, *(record["iteration"] for record in records_of_a_killed_run(folder))])
            assert last >= seen - 10  # nor is more lost than one period
    goes_on_like(unbroken, folder, start("--resume", folder))


def _newest(folder: Path) -> int:
    """Number of the newest finished checkpoint, 0 for none."""
    return max((int(path.name[11:]) for path in (folder / "checkpoints").glob("checkpoint-*")), default=0)


def records_of_a_killed_run(folder: Path) -> list[dict]:
    """The whole lines of metrics.jsonl."""
    text = (folder / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def test_more_games_may_be_asked_for_on_resume(solver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(*SMALL, "--num-game=12", "--num-test=0", "--solver", solver, "--output-dir", folder)
    out, err = train("--resume", folder, "--num-game=20", "--seed=3")
    assert out.startswith("20 games, ")
    assert "--num-game: 12 -> 20" in err
    _, err = train("--resume", folder, "--alpha=0.5", code=2)
    assert "this run has --alpha 0.3, not 0.5" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--workers 1", (32, 2, 32)),
        ("--workers 2", (32, 2, 32)),
        ("--workers 8", (128, 2, 32)),  # 3 rounds in play are 12 chunks: none of 8 workers waits for the trainer
        ("--workers 2 --lag 0", (64, 0, 32)),
        ("--workers 2 --games 200", (200, 1, 64)),  # the article's rounds
        ("--workers 2 --games 20", (20, 1, 10)),
        ("--workers 2 --games 200 --lag 0 --lockstep 5", (200, 0, 5)),
        ("--workers 2 --quick", (128, 1, 64)),
    ],
)
def test_rounds_fit_the_workers(words: str, expected: tuple[int, int, int]) -> None:
    parser = CommandParser("train")
    add_arguments(parser)
    given = {name: value for name, value in vars(parser.parse(words.split())).items() if value is not None}
    defaults, _, quick = given.pop("defaults"), given.pop("flags"), given.pop("quick", False)
    with Connection() as connection:
        options = _options(defaults, given, quick, connection)
    assert (options["games_per_round"], options["lag"], options["lockstep"]) == expected


def test_mistakes_are_told_in_one_line(
    unbroken: Path, solver: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = ("--solver", solver, "--output-dir", tmp_path / "run")
    for words, message in (
        (("--output-dir", unbroken, "--solver", solver, "--board-size=3"), "holds a run already"),
        (("--resume", tmp_path / "nowhere"), "no run there"),
        ((*new, "--board-size=4"), "height 3 in the net, 4 in the game"),
        ((*new, "--board-size=3", "--batch-size=0"), "batch_size"),
        ((*new, "--board-size=3", "--max-size-memory=100"), "below 5 batches of 128"),
        ((*new, "--board-size=3", "--workers=0"), "--workers must be at least 1"),
        ((*new, "--board-size=3", "--epsilon=2"), "epsilon must be 0 … 1"),
        ((*new, "--board-size=3", "--model=/nowhere.prototxt"), "/nowhere.prototxt"),
        (("--quick", "--board-size=6"), "--quick is 3x3"),
        ((*new, "--board-size=3", "--log-file", solver), "exists, and its lines belong to another run"),
        (("--train=0",), "azcaffe test"),
    ):
        assert main(["train", *map(str, words)]) == 2
        err = capsys.readouterr().err
        assert message in err and len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "run" / "config.json").exists()


def test_damage_is_named_and_the_checkpoint_before_is_used(unbroken: Path, solver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(*SMALL, "--num-game=16", "--solver", solver, "--output-dir", folder, "--checkpoint-every=10")
    newest = max((folder / "checkpoints").iterdir()) / "replay.npz"
    newest.write_bytes(newest.read_bytes()[:1000])
    _, err = train("--resume", folder, "--num-game=20")
    assert "replay.npz: damaged" in err and "the one before is used" in err


def test_a_rate_that_is_too_high_stops_the_run_and_keeps_the_last_checkpoint(solver: Path, tmp_path: Path) -> None:
    wild = tmp_path / "wild.prototxt"
    wild.write_text((solver.parent / "solver.prototxt").read_text().replace("base_lr: 0.02", "base_lr: 1e30"))
    new = (*SMALL, "--solver", wild, "--model", solver.parent / "tiny.prototxt", "--output-dir", tmp_path / "run")
    _, err = train(*new, "--checkpoint-every=1", code=2)
    assert "training stopped: " in err and "at iteration " in err and "lower base_lr" in err
    found = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert not found.damaged
    blobs = load_weights(found.path / "solver.caffemodel")
    assert all(np.isfinite(blob).all() for layer in blobs.values() for blob in layer)


def test_another_run_starts_from_weights_or_a_solverstate(unbroken: Path, solver: Path, tmp_path: Path) -> None:
    newest = max((unbroken / "checkpoints").iterdir())
    iteration = latest_checkpoint(unbroken / "checkpoints").state["iteration"]
    new = (*SMALL, "--num-game=8", "--num-test=0", "--solver", solver, "--output-dir")
    out, _ = train(*new, tmp_path / "a", "--snapshot", newest / "solver.solverstate")
    assert int(out.partition(" games, ")[2].split()[0]) > iteration
    out, _ = train(*new, tmp_path / "b", "--init-weights", newest / "solver.caffemodel")
    assert 0 < int(out.partition(" games, ")[2].split()[0]) <= 80
    for name in ("a", "b"):  # the net plays from the first game on, so games differ from those of roll-outs
        first = json.loads((tmp_path / name / "games.jsonl").read_text().splitlines()[0])["actions"]
        assert first != json.loads((unbroken / "games.jsonl").read_text().splitlines()[0])["actions"]


def test_two_trainers_in_one_folder_are_refused(solver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(*SMALL, LONG, "--solver_file", solver, "--output_dir", folder)
    wait_for(lambda: (folder / "config.json").exists() and (folder / "log.csv").exists(), process)
    _, err = train("--resume", folder, code=2)
    assert "another azcaffe train is at work" in err
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def _workers_of(pid: int) -> list[int]:
    """The spawned worker processes of a trainer."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            child = entry.name.isdigit() and (entry / "stat").read_text().rpartition(")")[2].split()[1] == str(pid)
            if child and b"spawn_main" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_snapshot_that_a_kill_left_half_written_is_cleared_away(solver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(*SMALL, "--num-game=12", "--num-test=0", "--solver", solver, "--output-dir", folder)
    whole = weights(folder)
    (folder / "weights" / ".tiny_iter_150.caffemodel.kuusd3i3").write_bytes(b"half")
    train("--resume", folder, "--num-game=16")
    assert whole.items() <= weights(folder).items()
    assert not list((folder / "weights").glob(".*"))


def test_a_net_that_goes_bad_stops_the_run_and_loses_nothing(solver: Path, tmp_path: Path) -> None:
    # R01: a convolution whose bottom does not exist. One line, no abort, and what self-play made is still there.
    folder = tmp_path / "run"
    train(*SMALL, "--num-game=12", "--num-test=0", "--solver", solver, "--output-dir", folder)
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}
    net = folder / "tiny.prototxt"
    good = net.read_text()
    net.write_text(good.replace('bottom: "input_data"', 'bottom: "nothing_makes_this"', 1))
    _, err = train("--resume", folder, "--num-game=16", code=2)
    assert len(err.strip().splitlines()) == 1
    assert "nothing_makes_this" in err and "tiny.prototxt" in err
    net.write_text(good)
    assert {path: path.read_bytes() for path in kept} == kept
    train("--resume", folder, "--num-game=16")
