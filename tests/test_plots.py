# SPDX-License-Identifier: AGPL-3.0-or-later
"""Pictures: the published four panels with what the log holds, and Elo over training."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="drawing needs matplotlib (extra plots)")

from azcaffe.cli.main import main
from azcaffe.curves import Curves, read_curves
from azcaffe.plots import COLOURS, PANELS, PlotError, plot_elo, plot_training, read_ratings
from azcaffe.runlog import HEADER

PLAYERS = [
    {"name": "net_a_iter_2000", "elo": 560.0, "interval": [500.0, 620.0], "iteration": 2000},
    {"name": "net_a_iter_1000", "elo": 300.0, "interval": [240.0, 360.0], "iteration": 1000},
    {"name": "mcts:400", "elo": 420.0, "interval": [380.0, 460.0], "iteration": None},
]


def make_run(name: str, lines: int = 40, level: float = 1.0) -> Curves:
    games = np.arange(1.0, lines + 1) * 25
    return Curves(
        name, games * 10, games, level * np.exp(-games / 300), 3.58 * np.exp(-games / 900), 0.6 * np.exp(-games / 500),
        np.floor(games / 300) * 400 + 400, games * 0, games * 0, games * 0,
    )  # fmt: skip


def test_the_panels_are_the_published_ones() -> None:
    """Order and quantities of the author's picture: value loss, policy loss, KL divergence, opponent's playouts."""
    run = make_run("a")
    assert [panel.title for panel in PANELS] == ["Value loss", "Policy loss", "KL divergence", "Opponent"]
    for panel, column in zip(PANELS, ("value_loss", "policy_loss", "kl", "opponent"), strict=True):
        np.testing.assert_array_equal(panel.values(run), getattr(run, column))


def test_colours_differ_in_lightness_too() -> None:
    """Neighbours in the list can be told apart without any colour: by luminance (ITU-R BT.709)."""
    luma = [
        sum(weight * int(colour[at : at + 2], 16) for at, weight in ((1, 0.2126), (3, 0.7152), (5, 0.0722)))
        for colour in COLOURS
    ]
    assert len(set(COLOURS)) == len(COLOURS)
    assert all(abs(first - second) > 8 for first, second in pairwise(luma[:4]))


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "new" / f"curves.{suffix}"
    plot_training([make_run("first"), make_run("second", 30, 0.8)], path)
    start = path.read_bytes()[:256]
    assert {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix] in start


def test_svg_holds_names_axes_and_units_and_is_reproducible(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        plot_training([make_run("my run"), make_run("other run")], tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    for words in ("my run", "other run", "Value loss", "Policy loss", "KL divergence", "Opponent", "nats", "playouts"):
        assert words in text
    assert text.count("games played") == 4
    assert text == (tmp_path / "b.svg").read_text()


def test_one_line_and_gaps_can_be_drawn(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(f"{HEADER}\n250;25;0.5;3.5;0.6;;;;\n")
    plot_training([read_curves(tmp_path)], tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 10_000


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    run = make_run("a")
    with pytest.raises(PlotError, match="must end in one of"):
        plot_training([run], tmp_path / "x.jpg")
    with pytest.raises(PlotError, match="1 … 8 runs"):
        plot_training([run] * 9, tmp_path / "x.png")
    with pytest.raises(PlotError, match="no lines yet"):
        plot_training([make_run("empty", 0)], tmp_path / "x.png")


def test_elo_over_training(tmp_path: Path) -> None:
    report = tmp_path / "ladder.json"
    report.write_text(json.dumps({"players": PLAYERS}))
    assert [row.iteration for row in read_ratings(report)] == [2000, 1000, None]
    plot_elo(report, tmp_path / "elo.svg", "Ladder")
    text = (tmp_path / "elo.svg").read_text()
    assert all(words in text for words in ("net_a", "mcts:400", "solver steps", "Elo", "Ladder"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"players": []}', '{"players": [{"name": "a"}]}'])
def test_other_reports_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(PlotError, match="not the output of azcaffe rate"):
        read_ratings(tmp_path / "r.json")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.csv").write_text(f"{HEADER}\n250;25;0.5;3.5;0.6;400;0;0;0\n500;50;0.4;3;0.5;400;;;\n")
    picture = tmp_path / "both.svg"
    logs = [str(tmp_path / "a"), str(tmp_path / "b" / "log.csv")]
    assert main(["plot", *logs, "-o", str(picture), "--names", "x", "y"]) == 0
    assert capsys.readouterr().out == f"{picture}\n"
    assert re.search(">x<", picture.read_text())
    assert main(["plot", "--output", str(picture)]) == 2
    assert main(["plot", str(tmp_path / "a"), "--elo", str(picture)]) == 2
    assert main(["plot", str(tmp_path / "nowhere")]) == 2
    assert main(["plot", str(tmp_path / "a"), "--names", "x", "y"]) == 2
