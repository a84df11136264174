# SPDX-License-Identifier: AGPL-3.0-or-later
"""Reading files that users name: what kind each is, and weights in and out.

Nothing here executes anything from a file: prototxts and caffemodels are parsed as protobuf and nothing else.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from azcaffe.atomic import write_atomically
from azcaffe.network import proto
from azcaffe.network.errors import ModelError

Weights = dict[str, list[NDArray[np.float32]]]
PathLike = str | os.PathLike[str]

MAX_TEXT = 1_000_000  # bytes of a prototxt: a net of 4,000 layers has less, and Python's text parser reads 0.5 MB/s
MAX_BINARY = 2**31 - 1  # protobuf's own limit

_KIND_NAMES = {
    "any": "a Caffe file",
    "net": "a net prototxt",
    "solver": "a solver prototxt",
    "caffemodel": "a caffemodel (weights)",
    "solverstate": "a solverstate (a solver's memory)",
    "hdf5": "an HDF5 file",
    "html": "an HTML page (a download that went wrong?)",
    "text": "a text file of another kind",
    "binary": "a binary file of another kind",
}
_SOLVER_FIELD = re.compile(
    r"^\s*(base_lr|lr_policy|net|train_net|net_param|train_net_param|test_iter|max_iter|snapshot_prefix|solver_mode)\s*[:{]",
    re.M,
)
_NET_FIELD = re.compile(r"^\s*(layers?\s*\{|input\s*:|input_dim\s*:|input_shape\s*\{)", re.M)


def read_bytes(path: PathLike, wanted: str, limit: int = MAX_BINARY) -> bytes:
    """The content of the regular file at `path`; `wanted` ("net", "solver" …) words the messages.

    Raises:
        ModelError: missing (the nearest name is suggested), a folder, no regular file, unreadable, empty or too large.
    """
    path = Path(path)
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise ModelError(f"{path}: is a folder, {_KIND_NAMES[wanted]} is wanted")
        if not stat.S_ISREG(info.st_mode):
            raise ModelError(f"{path}: is not a regular file, {_KIND_NAMES[wanted]} is wanted")
        if info.st_size == 0:
            raise ModelError(f"{path}: is empty (0 bytes), {_KIND_NAMES[wanted]} is wanted")
        if info.st_size > limit:
            raise ModelError(f"{path}: has {info.st_size:,} bytes, {_KIND_NAMES[wanted]} may have {limit:,} at most")
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{_full(path)}: no such file{_suggestion(path)}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ModelError(f"{path!s}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _full(path: Path) -> str:
    return str(path if path.is_absolute() else Path.cwd() / path)


def _suggestion(path: Path) -> str:
    try:
        names = [entry.name for entry in os.scandir(path.parent or Path()) if entry.is_file()]
    except OSError:
        return f" (nor is there a folder {path.parent})"
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def kind_of(data: bytes) -> str:
    """What `data` looks like: net, solver, caffemodel, solverstate, hdf5, html, text or binary."""
    if data.startswith(b"\x89HDF"):
        return "hdf5"
    if _is_text(data):
        text = data.decode("utf-8", "replace")
        if text.lstrip().lower().startswith(("<!doctype", "<html", "<?xml", "<head")):
            return "html"
        bare = re.sub(r"#.*", "", text)
        return "solver" if _SOLVER_FIELD.search(bare) else "net" if _NET_FIELD.search(bare) else "text"
    # Field 1 of a SolverState is the iteration (a varint), of a NetParameter the name (a string); 2 and 100 are layers.
    if data[0] == 0x08:
        return "solverstate"
    return "caffemodel" if data[0] in (0x0A, 0x12) or data[:2] == b"\xa2\x06" else "binary"


def _is_text(data: bytes) -> bool:
    head = data[:4096]
    return not re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", head) and bool(re.search(rb"[ -~]", head))


def kind_name(kind: str) -> str:
    """The words for what :func:`kind_of` returns."""
    return _KIND_NAMES[kind]


def expect_kind(path: PathLike, data: bytes, wanted: str) -> None:
    """Refuse `data` that is plainly something else than `wanted`.

    Raises:
        ModelError: says what the file looks like.
    """
    found = kind_of(data)
    if found == wanted or (found == "text" and wanted in ("net", "solver")):
        return
    if found == "hdf5" and wanted in ("caffemodel", "solverstate"):
        raise ModelError(
            f"{path}: HDF5 weights are not read; save them as protobuf (Caffe's `net.save(FILE.caffemodel)`)"
        )
    if found == "binary" and wanted in ("caffemodel", "solverstate"):
        raise ModelError(f"{path}: damaged, or not {_KIND_NAMES[wanted]} at all")
    raise ModelError(f"{path}: looks like {_KIND_NAMES[found]}, {_KIND_NAMES[wanted]} is wanted")


def read_text(path: PathLike, wanted: str) -> str:
    """The text of a prototxt, "net" or "solver".

    Raises:
        ModelError: as :func:`read_bytes`; or not text, or another kind of prototxt.
    """
    data = read_bytes(path, wanted, MAX_TEXT)
    expect_kind(path, data, wanted)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is not UTF-8 text (byte {error.start})") from None


def load_weights(path: PathLike) -> Weights:
    """The blobs of every layer of a caffemodel (old V1 files too) that has any, in the file's order, as copies.

    Raises:
        ModelError: unreadable, truncated, another kind of file, no weights in it, or a blob that is not finite.
    """
    data = read_bytes(path, "caffemodel")
    expect_kind(path, data, "caffemodel")
    message = proto.parse_binary("NetParameter", data, str(path))
    if not len(message.layer) and not len(message.layers):
        raise ModelError(f"{path}: no layers in it, it is no caffemodel or was cut off")
    weights: Weights = {}
    for layer in list(message.layers) + list(message.layer):
        if layer.blobs:
            if layer.name in weights:
                raise ModelError(f"{path}: two layers with weights are called {layer.name!r}")
            weights[layer.name] = [
                blob_array(blob, f"{path}: layer {layer.name!r}, blob {index}")
                for index, blob in enumerate(layer.blobs)
            ]
    check_finite(weights, str(path))
    return weights


def blob_array(blob: Any, where: str) -> NDArray[np.float32]:
    """The numbers of a BlobProto, float32 in its own shape ((1, 1, 1, n) and the like in files of old Caffe).

    Raises:
        ModelError: there are more or fewer numbers than the shape says.
    """
    values = np.array(blob.data if len(blob.data) else blob.double_data, dtype=np.float32)
    if any(blob.HasField(field) for field in ("num", "channels", "height", "width")):
        shape = (blob.num, blob.channels, blob.height, blob.width)
    else:
        shape = tuple(blob.shape.dim)  # a blob without axes is written without a shape
    if any(dim < 0 for dim in shape) or int(np.prod(shape, dtype=object)) != values.size:
        raise ModelError(f"{where}: {values.size} numbers do not fill the shape {shape}: the file is damaged")
    return values.reshape(shape)


def check_finite(weights: Weights, source: str) -> None:
    """Refuse weights that hold NaN or infinity.

    Raises:
        ModelError: names layer and blob.
    """
    for name, blobs in weights.items():
        for index, blob in enumerate(blobs):
            bad = blob.size - int(np.isfinite(blob).sum())
            if bad:
                raise ModelError(f"{source}: layer {name!r}, blob {index}: {bad} of {blob.size} numbers are not finite")


def save_weights(path: PathLike, weights: Weights, name: str = "azcaffe") -> Path:
    """Write `weights` as a caffemodel that Caffe can load, atomically.

    Raises:
        ModelError: a number is not finite.
        AzcaffeError: the folder cannot be written, the disk is full.
    """
    check_finite(weights, str(path))
    net = proto.make("NetParameter")
    net.name = name
    for layer_name, blobs in weights.items():
        layer = net.layer.add(name=layer_name)
        for blob in blobs:
            message = layer.blobs.add()
            message.shape.dim.extend(blob.shape)
            message.data.extend(np.asarray(blob, dtype=np.float32).ravel().tolist())
    return write_atomically(path, [proto.to_bytes(net)])
