# SPDX-License-Identifier: AGPL-3.0-or-later
"""Draw training curves: the published four panels from logs, or Elo over training from a rating report."""

from __future__ import annotations

import argparse
from pathlib import Path

from azcaffe.curves import read_curves
from azcaffe.errors import AzcaffeError
from azcaffe.plots import plot_elo, plot_training

EXAMPLE = "azcaffe plot runs/a runs/b/log.csv --output curves.svg"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Logs, the picture, and how the runs are called."""
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG", help="log files or run folders, up to 8, overlaid")
    parser.add_argument(
        "--output", "-o", type=Path, default=Path("curves.png"), help="picture: .png, .svg or .pdf [curves.png]"
    )
    parser.add_argument("--names", nargs="+", metavar="NAME", help="what to call the runs, in the order of the logs")
    parser.add_argument("--title", help="heading of the picture")
    parser.add_argument("--elo", type=Path, metavar="FILE", help="draw Elo over training from the JSON of azcaffe rate")


def run(args: argparse.Namespace) -> int:
    """Draw and say where."""
    if args.elo is not None:
        if args.logs:
            raise AzcaffeError("--elo draws a rating report alone: leave the logs out")
        plot_elo(args.elo, args.output, args.title)
    else:
        if not args.logs:
            raise AzcaffeError("nothing to draw: give one log or more, or --elo FILE")
        names = args.names or [None] * len(args.logs)
        if len(names) != len(args.logs):
            raise AzcaffeError(f"{len(args.logs)} logs need as many names, not {len(names)}")
        runs = [read_curves(log, name) for log, name in zip(args.logs, names, strict=True)]
        plot_training(runs, args.output, args.title)
    print(args.output)
    return 0
