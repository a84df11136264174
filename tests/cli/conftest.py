# SPDX-License-Identifier: AGPL-3.0-or-later
"""A folder of small nets, and a way to run a command line as a user does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from azcaffe.cli.main import main
from azcaffe.network import NetSpec, read_model, save_weights, write_net


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def azcaffe(capsys: pytest.CaptureFixture[str]) -> Run:
    """`azcaffe("show", "--moves", "a1")` runs the command in this process."""

    def run(*words: object) -> Outcome:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def refused(azcaffe: Run) -> Callable[..., str]:
    """Runs a command that must fail as a user's mistake does, and returns its one line."""

    def run(*words: object) -> str:
        outcome = azcaffe(*words)
        assert outcome.code == 2
        assert outcome.out == ""
        assert outcome.err.startswith("azcaffe: ")
        assert outcome.err.count("\n") == 1
        return outcome.err

    return run


def random_net(folder: Path, name: str, spec: NetSpec, seed: int) -> None:
    """NAME.prototxt and NAME.caffemodel with random weights."""
    write_net(spec, folder / f"{name}.prototxt")
    rng = np.random.default_rng(seed)
    weights = {
        layer: [rng.normal(0, 0.3, shape).astype(np.float32) for shape in shapes or []]
        for layer, shapes in read_model(folder / f"{name}.prototxt").params.items()
    }
    save_weights(folder / f"{name}.caffemodel", weights)


@pytest.fixture(scope="session")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models: `small`, `other` and (with 2 positions) `history` for 3x3 tic-tac-toe, `gravity` for Connect 4x5."""
    folder = tmp_path_factory.mktemp("models")
    small = {"blocks": 1, "channels": 4}
    random_net(folder, "small", NetSpec(3, 3, 9, **small), 1)
    random_net(folder, "other", NetSpec(3, 3, 9, **small), 2)
    random_net(folder, "gravity", NetSpec(4, 5, 5, **small), 3)
    random_net(folder, "history", NetSpec(3, 3, 9, channels_in=5, **small), 4)
    return folder
