# SPDX-License-Identifier: AGPL-3.0-or-later
"""Imports go one way (games -> search, network -> selfplay -> ... -> cli), and only azcaffe/network touches Caffe."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "azcaffe"

# Each may import only from the rows above its own: siblings (search and network, say) never know each other.
STAGES = (
    {"errors"},
    {"atomic"},
    {"games"},
    {"encoding", "workers", "checkpoint"},
    {"search", "network"},
    {"selfplay"},
    {"jobs", "replay", "runlog"},
    {"trainconfig", "baselines", "cluster"},
    {"training"},
    {"players", "rating", "curves", "solve", "oracle", "doctor", "progress"},
    {"arena", "plots", "bench"},
    {"web"},
    {"cli"},
    {"__main__"},
)
STAGE = {name: number for number, names in enumerate(STAGES) for name in names}
WEB_EXTRA = ("fastapi", "pydantic", "starlette")  # what the extra `web` brings; the Docker image does without
EXTRAS = ("fastapi", "pydantic", "starlette", "uvicorn", "matplotlib")  # may be missing: setup.py, extras_require
FILES = sorted(PACKAGE.rglob("*.py"))


def stage_name(path: Path) -> str:
    """`search` for azcaffe/search/tree.py, `arena` for azcaffe/arena.py, `` for azcaffe/__init__.py."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of everything a file imports, by statement or by import_module with a literal name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: import by the full name, not relatively"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if function in ("import_module", "__import__"):
                yield str(node.args[0].value), node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_go_one_way(path: Path) -> None:
    own = stage_name(path)
    assert own == "" or own in STAGE, f"{own} is in no stage of this test: say where it belongs"
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "caffe":
            assert own == "network", f"{path}:{line}: only azcaffe/network imports caffe"
        if parts[0] != "azcaffe" or len(parts) < 2 or parts[1] in (own, "__version__"):
            continue
        assert own != "", f"{path}:{line}: azcaffe/__init__.py imports nothing of the package"
        assert STAGE[parts[1]] < STAGE[own], f"{path}:{line}: {own} imports {parts[1]}, which is not an earlier stage"


def run_python(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_loads_nothing_heavy() -> None:
    run_python("import azcaffe, sys; assert not {'numpy', 'caffe', 'google.protobuf'} & set(sys.modules)")


def test_every_module_can_be_imported_without_caffe() -> None:
    """Caffe is loaded when a net is opened, not before: importing it takes a second in every process."""
    programs = ("__main__", "network.probe_child", "network.doctor_child")
    dotted = (".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in FILES)
    names = [name.removesuffix("__init__").strip(".") for name in dotted]
    modules = [f"azcaffe.{name}" for name in names if name and name not in programs]
    run_python(
        "import importlib, sys; sys.modules['caffe'] = None\n"
        f"for name in {modules}:\n"
        "    try: importlib.import_module(name)\n"
        "    except ModuleNotFoundError as error:\n"
        f"        if not (name.startswith('azcaffe.web.') and error.name in {WEB_EXTRA}): raise"
    )


def test_no_module_is_too_long() -> None:
    long = {path.name: lines for path in FILES if (lines := len(path.read_text("utf-8").splitlines())) > 400}
    assert not long, f"split these: {long}"
