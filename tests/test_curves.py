# SPDX-License-Identifier: AGPL-3.0-or-later
"""Reading the published CSV: from this package's writer, from spreadsheets, and while a run is writing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from azcaffe.curves import LogError, read_curves
from azcaffe.runlog import HEADER, LogRow


def write(folder: Path, text: str, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_what_the_run_log_writes_is_read_back(tmp_path: Path) -> None:
    rows = [LogRow(250, 25, 0.5, 3.58, 0.6, 400, 0, 0, 0), LogRow(500, 50, 0.25, 3.5, 0.55, 800, 20, 1, 4)]
    write(tmp_path, "\n".join([HEADER, *(row.line() for row in rows)]) + "\n")
    curves = read_curves(tmp_path)  # the folder: its log.csv is meant
    assert curves.name == tmp_path.name
    assert len(curves) == 2
    np.testing.assert_array_equal(curves.games, [25, 50])
    np.testing.assert_array_equal(curves.policy_loss, [3.58, 3.5])
    np.testing.assert_array_equal(curves.opponent, [400, 800])
    np.testing.assert_array_equal(curves.losses, [0, 4])


def test_decimal_comma_byte_order_mark_and_empty_fields(tmp_path: Path) -> None:
    path = write(tmp_path, f"\ufeff{HEADER}\r\n10;1;0,5;3,25;0,1;;;;\r\n", "author.csv")
    curves = read_curves(path)
    assert curves.name == "author"
    assert curves.value_loss[0] == 0.5
    assert curves.policy_loss[0] == 3.25
    assert np.isnan(curves.opponent[0])


def test_two_runs_in_one_file_and_columns_in_another_order(tmp_path: Path) -> None:
    swapped = ";".join(reversed(HEADER.split(";")))
    path = write(tmp_path, f"{swapped}\n1;2;3;400;0.1;3.5;0.5;7;70\n{swapped}\n\n1;2;3;400;0.1;3.4;0.4;8;80\n")
    curves = read_curves(path, "named")
    assert curves.name == "named"
    np.testing.assert_array_equal(curves.iteration, [70, 80])
    np.testing.assert_array_equal(curves.games, [7, 8])


def test_a_last_line_cut_short_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, f"{HEADER}\n250;25;0.5;3.5;0.6;400;0;0;0\n500;50;0.4;3")
    assert len(read_curves(path)) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no 'Iter'"),
        ("Iter,Num Game played\n1,2\n", "no 'Iter'"),
        (f"{HEADER}\nnot;a;row\n1;1;1;1;1;1;1;1;1\n", "line 2"),
        (f"{HEADER}\n1;1;x;1;1;1;1;1;1\n1;1;1;1;1;1;1;1;1\n", "line 2"),
    ],
)
def test_other_files_are_refused_with_a_reason(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(LogError, match=says):
        read_curves(write(tmp_path, text))


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="No such file"):
        read_curves(tmp_path)
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(LogError, match="not a text file"):
        read_curves(tmp_path / "x.csv")
