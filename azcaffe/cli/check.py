# SPDX-License-Identifier: AGPL-3.0-or-later
"""Say what Caffe files hold and whether they fit each other; exit code 0 when they do, 2 when not."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from azcaffe.cli.parser import CommandParser
from azcaffe.network.check import PairReport, check_files

EXAMPLE = "azcaffe check net.prototxt net.caffemodel solver.prototxt run.solverstate"


def add_arguments(parser: CommandParser) -> None:
    """The files."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="nets, solvers, caffemodels, solverstates, any of them"
    )
    parser.add_argument("--allow-missing", action="store_true", help="layers that only one side has are no mismatch")
    parser.add_argument("--allow-python-layers", action="store_true", help="let a net run Python code")


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    report = check_files(args.files, allow_missing=args.allow_missing, allow_python_layers=args.allow_python_layers)
    for file in report.files:
        print(f"{file.path}: {file.kind}")
        for fact in file.facts:
            print(f"    {fact}")
        if file.problem is not None:
            print(f"    WRONG: {' '.join(file.problem.split())}")
    for pair in report.pairs:
        print(f"{pair.first} + {pair.second}: {'fit' if pair.fits else 'DO NOT FIT'}")
        if pair.problem is not None:
            print(f"    {pair.problem}")
        print("".join(f"    {line}\n" for line in mismatch_table(pair)), end="")
    return 0 if report.ok else 2


def mismatch_table(pair: PairReport) -> Iterable[str]:
    """The lines of a table: layer, blob, shape in the net, shape in the weights, remedy."""
    if not pair.mismatches:
        return []
    rows = [("layer", "blob", "in the net", "in the weights", "remedy")] + [
        (
            one.layer,
            "all" if one.blob is None else str(one.blob),
            "-" if one.in_net is None else _shape(one.in_net),
            "-" if one.in_weights is None else _shape(one.in_weights),
            one.remedy,
        )
        for one in pair.mismatches
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
