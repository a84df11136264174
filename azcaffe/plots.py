# SPDX-License-Identifier: AGPL-3.0-or-later
"""Pictures of training: the published program's four panels, and Elo over training. Needs matplotlib (extra `plots`).

Colours are Okabe and Ito's, which people with any common colour blindness can tell apart; runs differ in dash and
marker too, so that a black-and-white print still reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from azcaffe.curves import Curves
from azcaffe.errors import AzcaffeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
MAX_RUNS = 8

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
DASHES = ("-", "--", "-.", ":", "-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
INK, GRID = "#333333", "#E3E3E3"


class PlotError(AzcaffeError):
    """A picture that cannot be drawn: matplotlib is missing, or the file's format or content is none we know."""


@dataclass(frozen=True)
class Panel:
    """One of the published panels.

    Attributes:
        title: above it.
        unit: the vertical axis' label.
        values: what is drawn of a run.
        steps: drawn as a staircase: the value holds until the next line of the log.
    """

    title: str
    unit: str
    values: Callable[[Curves], NDArray[np.float64]]
    steps: bool = False


PANELS = (
    Panel("Value loss", "half mean squared error", lambda run: run.value_loss),
    Panel("Policy loss", "cross-entropy (nats)", lambda run: run.policy_loss),
    Panel("KL divergence", "to the search's policy (nats)", lambda run: run.kl),
    Panel("Opponent", "playouts a move", lambda run: run.opponent, steps=True),
)
"""Order and place as in the published picture: two rows of two, over games played."""


def plot_training(runs: Sequence[Curves], output: Path, title: str | None = None) -> None:
    """Write the four panels of `runs`, overlaid, to `output` (.png, .svg or .pdf).

    Raises:
        PlotError: matplotlib is not installed, no or too many runs, an unknown format.
    """
    if not 1 <= len(runs) <= MAX_RUNS:
        raise PlotError(f"one picture takes 1 … {MAX_RUNS} runs, not {len(runs)}")
    if not any(len(run) for run in runs):
        raise PlotError("the log holds no lines yet: nothing to draw")
    figure = _figure((10, 6.6), output)
    for at, panel in enumerate(PANELS):
        axes = figure.add_subplot(2, 2, at + 1)
        _dress(axes, panel.title, "games played", panel.unit)
        for number, run in enumerate(runs):
            _draw(axes, run.games, panel.values(run), number, run.name, panel.steps, len(runs) > 1)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
    _legend(figure, [run.name for run in runs], title)
    _save(figure, output)


def plot_elo(report: Path, output: Path, title: str | None = None) -> None:
    """Write Elo over training, from the JSON of `azcaffe rate --json`, to `output`.

    Snapshots of one run (`NAME_iter_N`) make a curve with 95 % bars; players that do not train are level lines.

    Raises:
        PlotError: matplotlib is not installed, an unknown format, or a report without ratings.
    """
    rows = read_ratings(report)
    curves: dict[str, list[tuple[int, Rated]]] = {}
    for row in rows:
        if row.iteration is not None:
            curves.setdefault(_SNAPSHOT.sub("", row.name), []).append((row.iteration, row))
    fixed = [row for row in rows if row.iteration is None]
    if len(curves) + len(fixed) > MAX_RUNS:
        raise PlotError(f"one picture takes {MAX_RUNS} runs and baselines, not {len(curves) + len(fixed)}")
    figure = _figure((8, 4.8), output)
    axes = figure.add_subplot()
    _dress(axes, title or "", "solver steps", "Elo (bars: 95 %)")
    for number, (name, points) in enumerate(curves.items()):
        points.sort(key=lambda point: point[0])
        elo = np.array([row.elo for _, row in points])
        ends = np.array([(row.elo - row.low, row.high - row.elo) for _, row in points]).T.clip(0)
        axes.errorbar(
            [at for at, _ in points], elo, yerr=ends, color=COLOURS[number], linestyle=DASHES[number],
            marker=MARKERS[number], markersize=5, linewidth=1.5, capsize=3, elinewidth=1, label=name,
        )  # fmt: skip
    for number, row in enumerate(fixed, len(curves)):
        axes.axhline(row.elo, color=COLOURS[number], linestyle=DASHES[number], linewidth=1.3, label=row.name)
    figure.legend(**_outside("right upper"), frameon=False, fontsize=9)
    _save(figure, output)


_SNAPSHOT = re.compile(r"_iter_\d+")


@dataclass(frozen=True)
class Rated:
    """A player of a rating report: Elo, the ends of its 95 % interval, solver steps (None for what does not train)."""

    name: str
    elo: float
    low: float
    high: float
    iteration: int | None


def read_ratings(report: Path) -> list[Rated]:
    """The ratings in the JSON of `azcaffe rate --json`, at least one.

    Raises:
        PlotError: no such file, or another format.
    """
    try:
        players = json.loads(report.read_text(encoding="utf-8"))["players"]
        rows = [_rated(row) for row in players]
        if not rows:
            raise ValueError
    except OSError as problem:
        raise PlotError(f"{report}: {problem.strerror or problem}") from problem
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise PlotError(f"{report}: not the output of azcaffe rate --json") from problem
    return rows


def _rated(row: dict[str, Any]) -> Rated:
    low, high = row["interval"]
    return Rated(str(row["name"]), float(row["elo"]), float(low), float(high), row.get("iteration"))


def _figure(inches: tuple[float, float], output: Path) -> Figure:
    if output.suffix.lower() not in FORMATS:
        raise PlotError(f"{output}: the name must end in one of {' '.join(FORMATS)}")
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise PlotError("drawing needs matplotlib: pip install 'azcaffe[plots]'") from None
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08)  # inches
    return Figure(figsize=inches, dpi=110, layout=layout, facecolor="white")


def _dress(axes: Axes, title: str, across: str, up: str) -> None:
    """Title, labels with units, a quiet grid, no box."""
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(across, color=INK)
    axes.set_ylabel(up, color=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#999999")


def _draw(
    axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], number: int, name: str, steps: bool, marked: bool
) -> None:  # fmt: skip
    """One run as a line; `marked`: with a few markers, at places that differ from run to run."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    every = max(1, len(x) // 10)
    marker = MARKERS[number] if marked or len(x) == 1 else ""
    axes.plot(
        x, y, color=COLOURS[number], linestyle=DASHES[number], linewidth=1.6, marker=marker, markersize=4.5,
        markevery=((number * every) // MAX_RUNS, every), drawstyle="steps-post" if steps else "default", label=name,
        clip_on=False,
    )  # fmt: skip


def _legend(figure: Figure, names: Sequence[str], title: str | None) -> None:
    """The runs' names once for all panels, above them; one run alone goes into the title."""
    if len(names) == 1:
        figure.suptitle(title or names[0], fontsize=12, color=INK)
        return
    handles = figure.axes[0].get_legend_handles_labels()[0]
    place: dict[str, Any] = _outside("upper center") | {"title": title, "title_fontsize": 12}
    figure.legend(handles, names, **place, ncols=min(4, len(names)), frameon=False, fontsize=10)


def _outside(side: str) -> dict[str, Any]:
    """Where a legend beside the panels goes: Matplotlib 3.7 makes room for it, before that it lies beyond the edge."""
    if _matplotlib_version() >= (3, 7):
        return {"loc": f"outside {side}"}
    if side == "right upper":
        return {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    return {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}


def _matplotlib_version() -> tuple[int, ...]:
    import matplotlib

    return tuple(int(part) for part in matplotlib.__version__.split(".")[:2])


def _save(figure: Figure, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(output.suffix.lower())
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "azcaffe", "svg.fonttype": "none"}):
        figure.savefig(output, metadata=metadata, bbox_inches=None if _matplotlib_version() >= (3, 7) else "tight")
