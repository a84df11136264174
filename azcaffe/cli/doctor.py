# SPDX-License-Identifier: AGPL-3.0-or-later
"""Say which Python, NumPy, protobuf, Caffe and BLAS are in use, and whether each is fit (exit code 2 if one is not)."""

from __future__ import annotations

import argparse

from azcaffe.cli.main import EXIT_OK, EXIT_USER_ERROR
from azcaffe.doctor import examine

EXAMPLE = "azcaffe doctor"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(args: argparse.Namespace) -> int:
    """Print a line a part; what is unfit says what to do."""
    findings = examine()
    for finding in findings:
        print(f"{'ok' if finding.fit else 'unfit':<6} {finding.part:<9} {finding.found}")
        if not finding.fit:
            print(f"{'':<16} {finding.remedy}")
    return EXIT_OK if all(finding.fit for finding in findings) else EXIT_USER_ERROR
