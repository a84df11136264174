# SPDX-License-Identifier: AGPL-3.0-or-later
"""Solverstates: a solver's iteration and the memory of each parameter (momentum and the like)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from azcaffe.network import proto
from azcaffe.network.errors import ModelError
from azcaffe.network.files import PathLike, blob_array, check_finite, expect_kind, read_bytes
from azcaffe.network.shapes import NetShapes, Shape
from azcaffe.network.solverfile import HISTORIES


def load_state(path: PathLike) -> Any:
    """The SolverState in `path`, checked by itself.

    Raises:
        ModelError: unreadable, truncated, another kind of file, or numbers that are not finite.
    """
    data = read_bytes(path, "solverstate")
    expect_kind(path, data, "solverstate")
    state = proto.parse_binary("SolverState", data, str(path))
    if not len(state.history) or state.iter < 0:
        raise ModelError(f"{path}: holds no history of a solver, it is no solverstate or was cut off")
    history = [blob_array(blob, f"{path}: history {index}") for index, blob in enumerate(state.history)]
    check_finite({"history": history}, str(path))
    return state


def learnable_shapes(net: Any, shapes: NetShapes) -> list[Shape] | None:
    """Shapes of what a solver remembers of the training net `net`, in its order; None where only Caffe knows.

    Blobs that share one name are one parameter.
    """
    if None in shapes.params.values():
        return None
    found, shared = [], set()
    for layer in net.layer:
        for index, shape in enumerate(shapes.params.get(layer.name) or []):
            name = layer.param[index].name if index < len(layer.param) else ""
            if not name or name not in shared:
                found.append(shape)
            shared.add(name)
    return found


def read_state(path: PathLike, learnable: list[Shape] | None, kind: str) -> Any:
    """The SolverState in `path`, checked against the :func:`learnable_shapes` of a net and a solver of type `kind`.

    Raises:
        ModelError: as :func:`load_state`; or of another net or another type of solver.
    """
    state = load_state(path)
    if learnable is None:
        return state
    expected = learnable * HISTORIES.get(kind, 1)
    given = [tuple(blob.shape.dim) for blob in state.history]
    if len(given) != len(expected):
        raise ModelError(
            f"{path}: remembers {len(given)} parameter blobs, this net with {kind} has {len(expected)}: "
            "it is of another net or another type of solver"
        )
    for index, (have, want) in enumerate(zip(given, expected)):
        if have != want:
            raise ModelError(
                f"{path}: history {index} has the shape {have}, this net's has {want}: it is of another net"
            )
    return state


def find_learned_net(state: Any, path: PathLike | None) -> Path:
    """The caffemodel that belongs to the solverstate at `path`: where it says, else beside it.

    Raises:
        ModelError: it is in none of these places.
    """
    assert path is not None
    place = Path(path).absolute()
    tried = []
    if state.learned_net:
        tried += [place.parent / state.learned_net, Path(state.learned_net).absolute()]
        tried += [place.parent / Path(state.learned_net).name]
    tried.append(place.with_suffix(".caffemodel"))
    for candidate in tried:
        if candidate.is_file():
            return candidate
    raise ModelError(
        f"{path}: its caffemodel is not there: tried {', '.join(map(str, dict.fromkeys(tried)))}; give --weights"
    )


def without_learned_net(state: Any) -> bytes:
    """The state for Caffe to restore, which then loads no weights by itself."""
    copy = type(state)()
    copy.CopyFrom(state)
    copy.ClearField("learned_net")
    return proto.to_bytes(copy)


def with_learned_net(data: bytes, name: str) -> bytes:
    """The state in `data`, its caffemodel called `name`."""
    state = proto.parse_binary("SolverState", data, "Caffe's snapshot")
    state.learned_net = name
    return proto.to_bytes(state)
