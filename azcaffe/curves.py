# SPDX-License-Identifier: AGPL-3.0-or-later
"""Reading training curves back: the published CSV, as this package, the original program or a spreadsheet writes it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from azcaffe.errors import AzcaffeError

COLUMNS = {
    "iteration": "Iter",
    "games": "Num Game played",
    "value_loss": "Value loss",
    "policy_loss": "Probas loss",
    "kl": "KL div",
    "opponent": "Opponent playouts",
    "wins": "Win",
    "draws": "Draw",
    "losses": "Lost",
}
"""Field of :class:`Curves` -> its column in the published log."""

LOG_NAME = "log.csv"
MAX_BYTES = 64_000_000


class LogError(AzcaffeError):
    """A log that cannot be read as one."""


@dataclass(frozen=True)
class Curves:
    """One run's log, n lines; every array is (n,) float64 and NaN where the log has nothing.

    Attributes:
        name: what to call the run in a legend.
        iteration: solver steps made.
        games: self-play games played.
        value_loss: half the mean squared error of the value (Caffe's EuclideanLoss).
        policy_loss: cross-entropy of the policy, nats.
        kl: policy_loss - entropy of the targets, nats.
        opponent: playouts of the roll-out opponent.
        wins, draws, losses: of the last match against it.
    """

    name: str
    iteration: NDArray[np.float64]
    games: NDArray[np.float64]
    value_loss: NDArray[np.float64]
    policy_loss: NDArray[np.float64]
    kl: NDArray[np.float64]
    opponent: NDArray[np.float64]
    wins: NDArray[np.float64]
    draws: NDArray[np.float64]
    losses: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.games)


def log_path(path: Path) -> Path:
    """The log meant by `path`: a file, or a run folder that holds log.csv."""
    return path / LOG_NAME if path.is_dir() else path


def read_curves(path: Path, name: str | None = None) -> Curves:
    """Read a log file or a run folder; `name` defaults to the folder's or file's own.

    Empty fields are NaN, a decimal comma is accepted, a repeated header (two runs in one file) is skipped, and so is a
    last line cut short: the run may be writing it now.

    Raises:
        LogError: no such file, another format, or a line that is none of the above.
    """
    file = log_path(path)
    if name is None:
        name = (file.parent.resolve().name if file.name == LOG_NAME else file.stem) or str(file)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise LogError(f"{file}: larger than {MAX_BYTES // 1_000_000} MB, which no training log is")
        text = file.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise LogError(f"{file}: {problem.strerror or problem}") from problem
    except UnicodeDecodeError as problem:
        raise LogError(f"{file}: not a text file") from problem
    return Curves(name, **_columns(file, text))


def _columns(file: Path, text: str) -> dict[str, NDArray[np.float64]]:
    lines = text.splitlines()
    rows = list(csv.reader(lines, delimiter=";"))
    header = [word.strip() for word in rows[0]] if rows else []
    missing = [title for title in COLUMNS.values() if title not in header]
    if missing:
        wanted = ";".join(COLUMNS.values())
        raise LogError(f"{file}: not a training log: its first line has no {missing[0]!r} (wanted: {wanted})")
    places = [header.index(title) for title in COLUMNS.values()]
    values: list[list[float]] = []
    for number, row in enumerate(rows[1:], 2):
        if not any(row) or [word.strip() for word in row] == header:
            continue
        try:
            if len(row) != len(header):
                raise ValueError
            values.append([_number(row[place]) for place in places])
        except ValueError:
            if number == len(rows):
                break
            raise LogError(f"{file}: line {number} is not {len(header)} numbers: {lines[number - 1][:60]!r}") from None
    table = np.array(values, np.float64).reshape(-1, len(places))
    return {field: table[:, at] for at, field in enumerate(COLUMNS)}


def _number(word: str) -> float:
    word = word.strip().replace(",", ".")
    return float(word) if word else float("nan")
