# SPDX-License-Identifier: AGPL-3.0-or-later
"""azcaffe fetch-models against a file server of our own."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from azcaffe.cli.fetch_models import FILES, URL
from azcaffe.cli.main import main


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and its URL."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def fetch(url: str, folder: Path) -> int:
    return main(["fetch-models", "--url", url, "--output", str(folder)])


def test_the_published_files_arrive(
    served: tuple[Path, str], original_assets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, url = served
    for name in FILES:
        (folder / name).write_bytes((original_assets / name).read_bytes())
    target = tmp_path / "models" / "original"
    assert fetch(url, target) == 0
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        n: (original_assets / n).read_bytes() for n in FILES
    }
    assert capsys.readouterr().out.split() == [str(target / name) for name in FILES]
    for name in FILES:
        (folder / name).unlink()
    assert fetch(url, target) == 0  # they are there: nothing is asked for
    assert capsys.readouterr().out.count("(was there)") == 2


def test_another_file_leaves_nothing(
    served: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, url = served
    for name in FILES:
        (folder / name).write_bytes(b"something else")
    assert fetch(url, tmp_path / "target") == 2
    error = capsys.readouterr().err
    assert "not the published file" in error and error.count("\n") == 1
    assert list((tmp_path / "target").iterdir()) == []


def test_a_file_that_is_wrong_already_is_replaced(
    served: tuple[Path, str], original_assets: Path, tmp_path: Path
) -> None:
    folder, url = served
    for name in FILES:
        (folder / name).write_bytes((original_assets / name).read_bytes())
        (tmp_path / name).write_bytes(b"half")
    assert fetch(url, tmp_path) == 0
    assert all((tmp_path / name).read_bytes() == (original_assets / name).read_bytes() for name in FILES)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/none", "http://nowhere.invalid/x", "nonsense", "ftp2://x/y"])
def test_a_dead_network_is_one_line(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch(url, tmp_path / "target") == 2
    error = capsys.readouterr().err
    assert "cannot be fetched" in error and error.count("\n") == 1
    assert list((tmp_path / "target").iterdir()) == []


def test_a_missing_page(served: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch(served[1], tmp_path / "target") == 2
    assert "net_tic_tac_6_4_1_res_block.caffemodel: cannot be fetched" in capsys.readouterr().err


def test_the_source_is_pinned_to_a_commit() -> None:
    assert "/8f34c41e3be4ca0484fb98159182827aa4e22d6/" in URL
