# SPDX-License-Identifier: AGPL-3.0-or-later
"""Set-up and doctor: the wheel cache under interruption and in parallel, machines that will not do, no Caffe at all.

The build itself is run with stand-ins for cmake, ninja and Debian's tools, so that these tests take seconds; the real
one is what made the environment they run in.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import numpy
import pytest

from azcaffe import doctor
from tests.helpers.waiting import PATIENCE, wait_for

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "docker" / "build_caffe.sh"
# Everything the scripts call that is no stand-in; a PATH of these alone is a machine without apt, sudo and compilers.
TOOLS = (
    "awk basename bash cat chmod cp cut date dirname env find flock grep head id install ln ls mkdir mktemp mv nice"
    " readlink realpath rm sed sha256sum sleep sort tail tar touch tr uname xargs"
)
NINJA = """
echo ninja >> "$CALLS"
while [ "$1" != -C ]; do shift; done
while [ -n "$NINJA_WAITS" ] && [ ! -e "$NINJA_WAITS" ]; do sleep 0.05; done
[ -z "$NINJA_FAILS" ] || { echo "fake.cpp:1: error: no such thing"; exit 1; }
mkdir -p "$2/lib"; echo library > "$2/lib/_caffe.so"; echo "[1/1] linked"
"""
needs_headers = pytest.mark.skipif(
    not (Path(sysconfig.get_path("include")) / "Python.h").exists(), reason="Python's C headers are not installed here"
)


class Machine:
    """A PATH of stand-ins and an empty cache; `run` starts a script there."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.calls = folder / "bin", folder / "calls"
        self.cache, self.source = folder / "cache", folder / "caffe source"
        self.bin.mkdir(parents=True)
        for name in TOOLS.split():
            found = shutil.which(name, path="/usr/bin:/bin")
            if found:
                (self.bin / name).symlink_to(found)
        for name, content in {
            "src/caffe/proto/caffe.proto": "",
            "src/caffe/util/io.cpp": "coded_input->SetTotalBytesLimit(kProtoReadBytesLimit, 536870912);",
            "python/caffe/__init__.py": "",
            "python/caffe/proto/caffe_pb2.py": "",
            "cmake/x": "",
            "include/x": "",
            "CMakeLists.txt": "",
            "LICENSE": "BSD",
        }.items():
            path = self.source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.environment = {
            "PATH": str(self.bin),
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(self.cache),
            "PYTHON": sys.executable,
            "CAFFE_SOURCE": str(self.source),
            "CALLS": str(self.calls),
        }

    def stand_in(self, name: str, script: str = "exit 0") -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        path.chmod(0o755)

    def builder(self) -> Machine:
        """All packages installed, a compiler that takes no time."""
        for name in ("cmake", "strip", "objdump", "ldd", "apt-get", "patch"):
            self.stand_in(name)
        self.stand_in("dpkg-query", "printf installed")
        self.stand_in("ninja", NINJA)
        return self

    def start(self, *command: object, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(word) for word in command],
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: object, **environment: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)"""
        process = self.start(*command, **environment)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def builds(self) -> int:
        return self.calls.read_text().count("ninja") if self.calls.exists() else 0

    def wheels(self) -> list[Path]:
        return list(self.cache.rglob("*.whl"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@needs_headers
def test_wheel_is_built_once_and_whole(machine: Machine) -> None:
    machine.builder()
    code, out, err = machine.run(BUILD)
    assert code == 0, err
    wheel = Path(out.strip())
    assert machine.wheels() == [wheel]
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert {"caffe/__init__.py", "caffe/_caffe.so", "caffe/proto/caffe_pb2.py"} <= set(names)
        record = archive.read(next(name for name in names if name.endswith("/RECORD"))).decode()
        assert sorted(line.split(",")[0] for line in record.splitlines()) == sorted(names)
    assert machine.run(BUILD)[:2] == (0, out)
    assert machine.builds() == 1


@needs_headers
def test_source_decides_which_wheel_and_is_not_changed(machine: Machine) -> None:
    machine.builder()
    first = machine.run(BUILD)[1]
    util = machine.source / "src/caffe/util/io.cpp"
    assert "536870912" in util.read_text()
    util.write_text(util.read_text() + "// changed\n")
    second = machine.run(BUILD)[1]
    assert first != second
    assert machine.builds() == 2


@needs_headers
def test_killed_build_leaves_nothing_that_is_used(machine: Machine) -> None:
    machine.builder()
    process = machine.start(BUILD, NINJA_WAITS="/nothing ever")
    wait_for(machine.builds)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not machine.wheels()
    assert list(machine.cache.glob("azcaffe/build-*"))
    assert machine.run(BUILD)[0] == 0
    assert machine.builds() == 2
    assert len(machine.wheels()) == 1
    assert not list(machine.cache.glob("azcaffe/build-*"))


@needs_headers
def test_two_at_once_build_once(machine: Machine) -> None:
    machine.builder()
    go_on, told = machine.cache.with_name("go on"), machine.cache.with_name("told")
    first = machine.start(BUILD, NINJA_WAITS=str(go_on))
    wait_for(machine.builds)
    second = machine.start("bash", "-c", 'exec "$0" 2> "$1"', BUILD, told)
    wait_for(lambda: "another run is busy with building Caffe" in told.read_text(), second)
    go_on.touch()
    assert first.communicate(timeout=PATIENCE)[0] == second.communicate(timeout=PATIENCE)[0]
    assert (first.returncode, second.returncode) == (0, 0)
    assert machine.builds() == 1


@needs_headers
def test_failed_build_says_why(machine: Machine) -> None:
    machine.builder()
    code, out, err = machine.run(BUILD, NINJA_FAILS="1")
    assert (code, out) == (2, "")
    assert "fake.cpp:1: error: no such thing" in err
    assert "did not compile" in err
    assert not machine.wheels()


def test_machine_without_apt(machine: Machine) -> None:
    code, _, err = machine.run(BUILD)
    assert code == 2
    assert "this machine has no apt-get: use Debian 12, or the Docker image" in err


def test_neither_root_nor_sudo(machine: Machine) -> None:
    machine.stand_in("apt-get")
    machine.stand_in("dpkg-query", "exit 1")
    machine.stand_in("id", "echo 1000")
    code, _, err = machine.run(BUILD)
    assert code == 2
    assert "neither root nor is there sudo: have an administrator run: apt-get install g++ cmake" in err


def test_packages_that_cannot_be_installed(machine: Machine) -> None:
    machine.stand_in("apt-get", 'echo "E: Unable to fetch some archives"; exit 100')
    machine.stand_in("dpkg-query", "exit 1")
    machine.stand_in("id", "echo 0")
    code, _, err = machine.run(BUILD)
    assert code == 2
    assert "E: Unable to fetch some archives" in err
    assert "check the network and the machine's package sources" in err


@needs_headers
def test_source_that_cannot_be_fetched(machine: Machine) -> None:
    machine.builder()
    mirror = 'case "$*" in *indextargets*) echo "$CODENAME main http://mirror.invalid/debian";; *) exit 100;; esac'
    machine.stand_in("apt-get", mirror)
    release = dict(line.partition("=")[::2] for line in Path("/etc/os-release").read_text().splitlines())
    code, _, err = machine.run(BUILD, CAFFE_SOURCE="", CODENAME=release.get("VERSION_CODENAME", ""))
    assert code == 2
    assert "could not be had from the machine's mirror: check the network, or set CAFFE_SOURCE" in err


def test_source_folder_that_is_none(machine: Machine, tmp_path: Path) -> None:
    code, _, err = machine.run(BUILD, CAFFE_SOURCE=str(tmp_path))
    assert code == 2
    assert f"CAFFE_SOURCE={tmp_path} holds no Caffe source tree" in err


def test_python_without_numpy_or_absent(machine: Machine) -> None:
    machine.stand_in("bare", f'exec {sys.executable} -S -E "$@"')
    assert "has no NumPy" in machine.run(BUILD, PYTHON=str(machine.bin / "bare"))[2]
    code, _, err = machine.run(BUILD, PYTHON="/nowhere/python3")
    assert code == 2
    assert "there is no Python at /nowhere/python3" in err


@needs_headers
def test_python_that_boost_is_not_for(machine: Machine) -> None:
    machine.builder()
    pretend = f'case "$*" in *"sys.version_info[:2]"*) echo 37;; *) exec {sys.executable} "$@";; esac'
    machine.stand_in("python37", pretend)
    code, _, err = machine.run(BUILD, PYTHON=str(machine.bin / "python37"))
    assert code == 2
    assert "Boost.Python on this machine is not for Python 3.7" in err


def test_cache_that_cannot_be_written(machine: Machine) -> None:
    machine.builder()
    machine.cache.write_text("a file where the folder should be")
    code, _, err = machine.run(BUILD)
    assert code == 2
    assert "set XDG_CACHE_HOME to a folder that you may write to" in err


# ---- launch/


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the scripts with a stand-in for azcaffe that prints its arguments, one a line."""
    copy = tmp_path / "check out"
    for name in ("launch", "docker"):
        shutil.copytree(ROOT / name, copy / name)
    shutil.copy(ROOT / "setup.py", copy)
    program = copy / ".venv" / "bin" / "azcaffe"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    return copy


def without_setup(checkout: Path) -> Path:
    (checkout / "launch" / "setup.sh").write_text("#!/bin/sh\n")
    return checkout


def launched(checkout: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "AZCAFFE_RUNS"}
    command = ["bash", str(checkout / "launch" / script), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd="/")


def launch(checkout: Path, script: str, *words: str) -> list[str]:
    done = launched(checkout, script, *words)
    done.check_returncode()
    return done.stdout.splitlines()


def solvers(words: list[str]) -> list[Path]:
    """The solvers of models/ that the words name; the last counts."""
    named = [word.partition("=")[2] for word in words if word.startswith("--solver_file=")]
    return [ROOT / "models" / Path(name).name for name in named]


def test_old_python_is_refused(machine: Machine, checkout: Path) -> None:
    old = 'case "$*" in *"< (3, 10)"*) exit 1;; *platform*) echo 3.9.2;; '
    machine.stand_in("python3.9", f'{old} *) exec {sys.executable} "$@";; esac')
    code, _, err = machine.run(checkout / "launch" / "setup.sh", PYTHON=str(machine.bin / "python3.9"))
    assert code == 2
    assert "is Python 3.9.2: azcaffe needs 3.10 or newer" in err


def test_unknown_set_up_option(machine: Machine, checkout: Path) -> None:
    assert machine.run(checkout / "launch" / "setup.sh", "--fast")[0] == 2


def test_without_pypi(machine: Machine, checkout: Path) -> None:
    """pip's own words and what to do instead; the half-made environment does not count as set up."""
    shutil.rmtree(checkout / ".venv")
    venv = 'case "$*" in *"-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python";; '
    pip = '*"-m pip"*) echo "ERROR: No matching distribution"; exit 1;; '
    machine.stand_in("python3", venv + pip + f'*) exec {sys.executable} "$@";; esac')
    for _ in range(2):
        code, _, err = machine.run(checkout / "launch" / "setup.sh", PYTHON=str(machine.bin / "python3"))
        assert code == 2
        assert "ERROR: No matching distribution" in err
        assert "check the network, or take Debian's packages with launch/setup.sh --system-packages" in err


def test_second_set_up_takes_no_time() -> None:
    stamp = ROOT / ".venv" / "azcaffe-setup"
    if not stamp.exists():
        pytest.skip("this checkout was not set up by launch/setup.sh")
    recipe = [ROOT / "setup.py", ROOT / "launch" / "setup.sh", *(ROOT / "docker").rglob("*")]
    if any(path.stat().st_mtime > stamp.stat().st_mtime for path in recipe):
        pytest.skip("the recipe has changed since this checkout was set up: this would be a first set-up")
    began = time.monotonic()
    done = subprocess.run([ROOT / "launch" / "setup.sh"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - began < 3


def test_published_test_settings_can_be_overridden(checkout: Path) -> None:
    mine = ["--trained_weights=a b.caffemodel", "--test_mode=Random"]
    words = launch(without_setup(checkout), "test_tictactoe.sh", *mine)
    assert words[:3] == ["test", "--game=tictactoe", "--board_size=6"]
    assert words[-2:] == mine


@pytest.mark.parametrize("script", ["train_tictactoe.sh", "train_connect4.sh"])
def test_training_goes_on_where_it_was_stopped(checkout: Path, script: str) -> None:
    fresh = launch(without_setup(checkout), script, "--workers=1")
    folder = Path(fresh[fresh.index("--output_dir") + 1])
    assert folder.parent == checkout / "runs"
    assert fresh[-1] == "--workers=1"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert launch(checkout, script, "--workers=1") == ["train", "--resume", str(folder), "--workers=1"]
    assert launch(checkout, script, "--resume", "x") == ["train", "--resume", "x"]
    elsewhere = launch(checkout, script, "--output-dir=x")
    assert elsewhere[-1] == "--output-dir=x"
    assert "--resume" not in elsewhere and "--output_dir" not in elsewhere


@pytest.mark.parametrize(
    ("net", "file"),
    [
        ("tictactoe", "net_tic_tac_6_4_2_res_block"),
        ("tictactoe-fast", "net_tic_tac_6_4_2_res_block"),
        ("1-block", "net_tic_tac_6_4_1_res_block"),
        ("batch-norm", "net_tic_tac_6_4_batch_norm"),
        ("connect4", "net_connect_6_7_4_2_res_block"),
    ],
)
def test_a_shipped_net_is_trained_under_its_own_name(checkout: Path, net: str, file: str) -> None:
    words = launch(without_setup(checkout), "train_shipped.sh", net, "--workers=1")
    assert f"--model={checkout}/runs/nets/{file}.prototxt" in words
    assert words[words.index("--output_dir") + 1] == f"{checkout}/runs/shipped_{net}"
    assert words[-1] == "--workers=1"
    assert solvers(words)
    assert all(solver.is_file() for solver in solvers(words))


@pytest.mark.parametrize(
    ("net", "file"),
    [("tictactoe", "net_tic_tac_6_4_2_res_block"), ("connect4", "net_connect_6_7_4_2_res_block")],
)
def test_more_training_begins_with_the_last_weights_of_the_first(checkout: Path, net: str, file: str) -> None:
    done = launched(without_setup(checkout), "train_shipped.sh", f"{net}-more")
    assert done.returncode == 2
    assert done.stderr.endswith(f"first: bash launch/train_shipped.sh {net}\n")
    assert len(done.stderr.splitlines()) == 1
    weights = checkout / "runs" / f"shipped_{net}" / "weights"
    weights.mkdir(parents=True)
    for iteration in (500, 1000, 11844):
        (weights / f"{file}_iter_{iteration}.caffemodel").touch()
    words = launch(checkout, "train_shipped.sh", f"{net}-more", "--workers=1")
    assert f"--init_weights={weights}/{file}_iter_11844.caffemodel" in words
    assert words[words.index("--output_dir") + 1] == f"{checkout}/runs/shipped_{net}-more"
    assert solvers(words)[-1].is_file()


def test_no_such_shipped_net(checkout: Path) -> None:
    done = launched(checkout, "train_shipped.sh", "chess")
    assert done.returncode == 2
    assert "tictactoe|1-block|batch-norm|connect4|tictactoe-fast|tictactoe-more|connect4-more" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_quick_training_has_a_folder_of_its_own(checkout: Path) -> None:
    words = launch(without_setup(checkout), "train_tictactoe.sh", "--quick")
    assert words == ["train", "--output_dir", str(checkout / "runs" / "tictactoe_3x3_quick"), "--quick"]


# ---- doctor


def test_this_installation_is_fit() -> None:
    findings = doctor.examine()
    assert [finding.part for finding in findings] == ["Python", "NumPy", "protobuf", "Caffe", "BLAS", "numbers"]
    assert all(finding.fit for finding in findings), findings


def caffe_that(monkeypatch: pytest.MonkeyPatch, folder: Path, does: str) -> list[doctor.Finding]:
    (folder / "caffe").mkdir()
    (folder / "caffe" / "__init__.py").write_text(does)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return doctor.caffe()


def test_caffe_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = caffe_that(monkeypatch, tmp_path, "raise ImportError('libglog.so.1: cannot open shared object file')")
    assert [(finding.fit, finding.remedy) for finding in found] == [(False, "run launch/setup.sh")]
    assert "libglog.so.1: cannot open shared object file" in found[0].found


def test_caffe_that_kills_its_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = caffe_that(monkeypatch, tmp_path, "import os; os.abort()")
    assert [(finding.fit, finding.found) for finding in found] == [(False, "does not run (died of signal 6)")]


REPORT = {
    "version": "1.0.0",
    "folder": "/x/caffe",
    "layers": sorted(doctor.LAYERS),
    "gpu": False,
    "blas": {"path": "/x/libopenblas.so.0", "name": "OpenBLAS 0.3.21", "kernel": "Haswell", "threads": 1},
    "error": 4e-7,
    "microseconds": 31.0,
}


@pytest.mark.parametrize(
    ("change", "unfit"),
    [
        ({}, []),
        ({"error": 0.3}, ["numbers"]),
        ({"error": float("nan")}, ["numbers"]),
        ({"layers": sorted(doctor.LAYERS - {"Scale"})}, ["Caffe"]),
        ({"blas": REPORT["blas"] | {"kernel": "Prescott"}}, ["BLAS"]),  # type: ignore[operator]
        ({"blas": None}, []),
    ],
)
def test_what_is_unfit(monkeypatch: pytest.MonkeyPatch, change: dict[str, object], unfit: list[str]) -> None:
    monkeypatch.setattr(doctor, "_ask_child", lambda: REPORT | change)
    findings = doctor.caffe()
    assert [finding.part for finding in findings if not finding.fit] == unfit
    assert all(finding.remedy for finding in findings if not finding.fit)


# ---- an environment without Caffe


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a fresh environment that has nothing."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def run_bare(bare: Path, *words: str, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{path}"}
    return subprocess.run([bare, *words], capture_output=True, text=True, env=environment, cwd="/", check=False)


def test_doctor_where_nothing_is_installed(bare: Path) -> None:
    done = run_bare(bare, "-m", "azcaffe", "doctor")
    assert done.returncode == 2
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines if not line.startswith(" ")] == [
        ["ok", "Python"],
        ["unfit", "NumPy"],
        ["unfit", "protobuf"],
        ["unfit", "Caffe"],
    ]
    assert "not installed" in lines[-2]
    assert lines[-1].strip() == "run launch/setup.sh"


def test_rules_search_and_rating_without_caffe(bare: Path, tmp_path: Path) -> None:
    """NumPy is all they need."""
    for place in Path(numpy.__file__).parents[1].glob("numpy*"):
        (tmp_path / place.name).symlink_to(place)
    code = """
import importlib.util
import numpy as np
import azcaffe
from azcaffe.games.registry import make_game
from azcaffe.rating import elo_difference
from azcaffe.search import RolloutEvaluator, Search, SearchConfig
assert importlib.util.find_spec("caffe") is None
game = make_game("tictactoe", height=3, width=3, connect=3)
state = game.initial(1)
for move in (0, 3, 1, 4):                       # x holds 0 and 1, and wins at 2
    state = game.play(state, np.array([move]))
search = Search(game, RolloutEvaluator(game), SearchConfig(simulations=100), 1)
search.reset(np.array([0]), state, [np.random.default_rng(1)])
assert search.run(np.array([0])).selected.tolist() == [2]
assert game.play(state, np.array([2])).winner.tolist() == [1]
assert elo_difference(0.5) == 0
"""
    done = run_bare(bare, "-c", code, path=tmp_path)
    assert done.returncode == 0, done.stderr
