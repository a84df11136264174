# SPDX-License-Identifier: AGPL-3.0-or-later
"""Pack a compiled Caffe tree's Python package as a wheel: `pack_wheel.py TREE WHEEL --numpy-major N`.

The wheel holds `_caffe.so` with Caffe linked into it, so that installing it is enough where the Debian libraries are.
Standard library only; the format is PEP 427.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import zipfile
from pathlib import Path

# One date for every file (the earliest a zip can hold), so that the same build gives the same wheel.
DATE = (1980, 1, 1, 0, 0, 0)


def package_files(tree: Path) -> dict[str, bytes]:
    """Path inside the wheel -> content: the package without its tests and C++ source, and Caffe's licence."""
    package = tree / "python" / "caffe"
    kept = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and path.suffix in {".py", ".so", ".npy"} and "test" not in path.relative_to(package).parts
    }
    for needed in ("caffe/__init__.py", "caffe/_caffe.so", "caffe/proto/caffe_pb2.py"):
        if needed not in kept:
            raise SystemExit(f"pack_wheel.py: the build left no {needed}")
    return kept


def metadata_files(tree: Path, name: str, version: str, tag: str, numpy_major: int) -> dict[str, bytes]:
    """The dist-info folder without its RECORD."""
    folder = f"{name}-{version}.dist-info"
    # Built against NumPy 2 an extension also runs with 1.x; the other way round it does not.
    numpy = "numpy>=1.24" if numpy_major >= 2 else "numpy>=1.24,<2"
    requirements = [numpy, "protobuf>=4.21,<4.22", "six", "scikit-image; extra == 'images'"]
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Summary: CPU Caffe with pycaffe"]
    metadata += ["License: BSD-2-Clause", "Provides-Extra: images"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requirements]
    wheel = ["Wheel-Version: 1.0", "Generator: azcaffe pack_wheel.py", "Root-Is-Purelib: false", f"Tag: {tag}"]
    files = {f"{folder}/METADATA": "\n".join(metadata) + "\n", f"{folder}/WHEEL": "\n".join(wheel) + "\n"}
    licence = tree / "LICENSE"
    if licence.is_file():
        files[f"{folder}/LICENSE"] = licence.read_text("utf-8")
    return {path: text.encode() for path, text in files.items()}


def write_wheel(files: dict[str, bytes], record: str, out: Path) -> None:
    """Write the archive with its RECORD of sha256 digests."""
    rows = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, DATE)
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(content)}\n")
        archive.writestr(zipfile.ZipInfo(record, DATE), "".join([*rows, f"{record},,\n"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--numpy-major", type=int, required=True)
    args = parser.parse_args()
    name, version, tag = args.wheel.stem.split("-", 2)
    files = package_files(args.tree) | metadata_files(args.tree, name, version, tag, args.numpy_major)
    write_wheel(files, f"{name}-{version}.dist-info/RECORD", args.wheel)


if __name__ == "__main__":
    main()
