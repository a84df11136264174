# SPDX-License-Identifier: AGPL-3.0-or-later
"""Download the two published caffemodels from their author's repository, checked by hash."""

from __future__ import annotations

import argparse
import hashlib
import http.client
import urllib.request
from pathlib import Path

from azcaffe.atomic import write_atomically
from azcaffe.cli.common import models_folder
from azcaffe.cli.parser import CommandParser
from azcaffe.errors import AzcaffeError

EXAMPLE = "azcaffe fetch-models"

# github.com/adepierre/Caffe_AlphaZero, AGPLv3, at the commit whose nets REFERENCE describes.
URL = "https://raw.githubusercontent.com/adepierre/Caffe_AlphaZero/8f34c41e3be4ca0484fb98159182827aa4e22d6/launch_files"
FILES = {
    "net_tic_tac_6_4_1_res_block.caffemodel": "5901ad191ca16cd02323c131a16e193a9ffbd5ef33ce7a4219722a123e7b5ccf",
    "net_tic_tac_6_4_2_res_block.caffemodel": "1d31a826fdfb27810e50d2f7e3d64ef7383d665e48de9d175a6f65aedef6f1dd",
}
SECONDS = 30  # without an answer
LARGEST = 10_000_000  # bytes; the files have less than 1 MB


def add_arguments(parser: CommandParser) -> None:
    """Where from and where to."""
    parser.add_argument("--url", default=URL, metavar="URL", help="folder to download from [the author's repository]")
    parser.add_argument("--output", "-o", type=Path, metavar="FOLDER", help="where the files go [models/original]")


def run(args: argparse.Namespace) -> int:
    """Fetch what is not there yet."""
    folder = args.output or models_folder() / "original"
    for name, digest in FILES.items():
        path = folder / name
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
            print(f"{path} (was there)")
            continue
        print(fetch(f"{args.url.rstrip('/')}/{name}", path, digest))
    return 0


def fetch(url: str, path: Path, digest: str) -> Path:
    """Download `url` to `path`; there is no file of any name unless its sha256 is `digest`.

    Raises:
        AzcaffeError: no network, no such file, another hash.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            data = answer.read(LARGEST)
        found = hashlib.sha256(data).hexdigest()
        if found != digest:
            raise AzcaffeError(
                f"{url}: not the published file, nothing was kept: sha256 {found[:12]}…, expected {digest[:12]}…"
            )
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise AzcaffeError(f"{url}: cannot be fetched: {getattr(error, 'reason', None) or error}") from None
    return write_atomically(path, [data])
