# SPDX-License-Identifier: AGPL-3.0-or-later
"""Is this installation fit? Which Python, NumPy, protobuf, Caffe and BLAS are in use, and whether each will do.

Needs none of them to be there: what is missing or broken is what it has to tell.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

SETUP = "run launch/setup.sh"
SECONDS = 120.0  # a Caffe that does not answer in this time is unfit
TOLERANCE = 1e-4  # relative; single precision over 576 products stays below 1e-5
# The layer types of the published nets and of those that make-net writes.
LAYERS = frozenset({"BatchNorm", "Convolution", "Eltwise", "EuclideanLoss", "InnerProduct", "Input"})
LAYERS |= {"Log", "ReLU", "Reduction", "Scale", "Softmax", "TanH"}
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked at, what is there, and what to do where that is not `fit`."""

    part: str
    found: str
    fit: bool = True
    remedy: str = ""


def examine() -> list[Finding]:
    """Look at everything. Caffe runs in a process of its own, with the BLAS threads that azcaffe would give it."""
    return [python(), numpy(), protobuf(), *caffe()]


def python() -> Finding:
    """The interpreter."""
    found = f"{platform.python_version()}, {sys.executable}"
    return Finding("Python", found, sys.version_info >= (3, 10), "azcaffe needs Python 3.10 or newer")


def numpy() -> Finding:
    """NumPy, imported."""
    return _module("NumPy", "numpy", lambda version: version >= (1, 24), "NumPy 1.24 or newer is needed")


def protobuf() -> Finding:
    """protobuf, imported, and which of its implementations."""
    finding = _module(
        "protobuf",
        "google.protobuf",
        lambda version: (4, 21) <= version < (4, 22),
        "Caffe's messages need protobuf 4.21 (the Python side of protoc 3.21)",
    )
    if not finding.fit:
        return finding
    kind = import_module("google.protobuf.internal.api_implementation").Type()
    return Finding(finding.part, f"{finding.found}, {kind} implementation")


def _module(part: str, name: str, fits: Callable[[tuple[int, ...]], bool], need: str) -> Finding:
    try:
        module = import_module(name)
    except Exception as error:  # a half-installed package raises anything
        return Finding(part, _line(error), False, SETUP)
    version = tuple(int(digits) for digits in re.findall(r"\d+", module.__version__)[:2])
    return Finding(part, module.__version__, fits(version), f"{need}: {SETUP}")


def caffe() -> list[Finding]:
    """Caffe, its BLAS, and whether a convolution comes out right; only the first where Caffe does not run."""
    report = _ask_child()
    if isinstance(report, str):
        return [Finding("Caffe", report, False, SETUP)]
    missing = sorted(LAYERS - set(report["layers"]))
    device = "CPU and GPU" if report["gpu"] else "CPU only"
    found = f"{report['version']}, {device}, {report['folder']}"
    if missing:
        found += f", without {' '.join(missing)}"
    return [
        Finding("Caffe", found, not missing, f"layer types are missing from this Caffe: {SETUP} for one that has all"),
        _blas(report["blas"]),
        Finding(
            "numbers",
            f"a 3x3 convolution of 64 channels is within {report['error']:.0e} of NumPy's, "
            f"{report['microseconds']:.0f} microseconds a 6x6 board",
            report["error"] <= TOLERANCE,
            "BLAS computes wrong results on this processor: try OPENBLAS_CORETYPE=Haswell, or another OpenBLAS",
        ),
    ]


def _blas(blas: dict[str, Any] | None) -> Finding:
    if blas is None:
        return Finding("BLAS", "of an unknown kind, linked into Caffe")
    found = blas["name"] + (f", kernel {blas['kernel']}" if blas["kernel"] else "")
    if blas["threads"] is not None:
        found += f", {blas['threads']} thread{'s' * (blas['threads'] != 1)} a process"
    chosen = next((name for name in BLAS_THREADS if os.environ.get(name)), None)
    if chosen and blas["threads"] != 1:
        found += f" ({chosen} is set: 1 is faster here, Caffe convolves board by board)"
    # OpenBLAS falls back to this kernel on processors it does not know
    slow = blas["kernel"] == "Prescott"
    remedy = "a kernel for old processors: set OPENBLAS_CORETYPE=Haswell"
    return Finding("BLAS", f"{found}, {blas['path']}", not slow, remedy)


def _ask_child() -> dict[str, Any] | str:
    """What the child found, or in one line why there is no answer."""
    environment = os.environ | {"GLOG_minloglevel": "2", "GLOG_logtostderr": "1"}
    if not any(environment.get(name) for name in BLAS_THREADS):
        environment |= dict.fromkeys(BLAS_THREADS, "1")
    child = Path(__file__).parent / "network" / "doctor_child.py"
    try:
        done = subprocess.run(
            [sys.executable, str(child)], capture_output=True, text=True, env=environment, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"does not answer in {SECONDS:.0f} s"
    if done.returncode == 0:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer
    last = (done.stderr.strip().splitlines() or [f"died of signal {-done.returncode}"])[-1]
    return "not installed" if last == "ModuleNotFoundError: No module named 'caffe'" else f"does not run ({last})"


def _line(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "not installed"
    return f"does not load ({' '.join(str(error).split())[:200]})"
