# SPDX-License-Identifier: AGPL-3.0-or-later
"""`azcaffe bench`, small: every bar is measured and told, whether it holds here or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from azcaffe.cli import bench as command
from azcaffe.cli.main import main

SMALL = ["bench", "--quiet", "--repeats=1", "--games=4", "--simulations=12"]


@pytest.mark.slow
def test_every_bar_is_measured_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "STRETCH", 0.1)
    code = main([*SMALL, "--json", str(tmp_path / "bench.json"), "--against", "echo 1000"])
    report = json.loads((tmp_path / "bench.json").read_text())
    out = capsys.readouterr().out
    assert code == (0 if report["passed"] else 1)
    assert {bar["measure"] for bar in report["bars"]} == {bar.measure for bar in command.BARS} | {"memory"}
    for bar in report["bars"]:
        assert bar["value"] > 0
        assert bar["name"] in out
    assert "ours / against" in out
    for measure, against, least, most in (
        # What is left of a forward's speed by what lies around it: never more than all, whatever the machine does.
        ("one game", "bare forwards of one", 0.05, 1.05),
        ("self-play, cache off", "bare forwards", 0.05, 1.05),
    ):
        (value,) = (bar["value"] for bar in report["bars"] if (bar["measure"], bar["against"]) == (measure, against))
        assert least < value < most


@pytest.mark.parametrize(
    ("words", "text"),
    [(["--repeats=0"], "--repeats must be at least 1"), (["--json=/no/such/folder/x.json"], "does not exist")],
)
def test_what_cannot_be_measured_is_refused(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert text in capsys.readouterr().err
