# SPDX-License-Identifier: AGPL-3.0-or-later
"""What Caffe files are, and whether they fit each other: the checks that every load makes, made on their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from azcaffe.errors import AzcaffeError
from azcaffe.network import proto
from azcaffe.network.errors import ModelError
from azcaffe.network.files import PathLike, Weights, kind_name, kind_of, load_weights, read_bytes
from azcaffe.network.model import BATCH, Mismatch, ModelInfo, compare_weights, read_model
from azcaffe.network.probe import probe_net, probe_solver
from azcaffe.network.runtime import caffe_folder
from azcaffe.network.solverfile import SolverFile, private_solver, read_solver, training_net
from azcaffe.network.solverstate import learnable_shapes, load_state, read_state


@dataclass(frozen=True)
class FileReport:
    """One file.

    Attributes:
        path, kind: what it is (`net`, `solver`, `caffemodel`, `solverstate`; else what it looks like).
        facts: lines that describe it.
        problem: why it cannot be used, None where it can.
    """

    path: str
    kind: str
    facts: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class PairReport:
    """Two files against each other; they fit when there are neither mismatches nor a problem."""

    first: str
    second: str
    mismatches: tuple[Mismatch, ...] = ()
    problem: str | None = None

    @property
    def fits(self) -> bool:
        """Whether the second may be loaded into the first."""
        return not self.mismatches and self.problem is None


@dataclass
class CheckReport:
    """Everything found; `ok` when every file can be used and all fit."""

    files: list[FileReport] = field(default_factory=list)
    pairs: list[PairReport] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(file.problem is None for file in self.files) and all(pair.fits for pair in self.pairs)


@dataclass
class _Read:
    models: list[ModelInfo] = field(default_factory=list)
    solvers: list[SolverFile] = field(default_factory=list)
    weights: list[tuple[str, Weights]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)


def check_files(
    paths: Sequence[PathLike], *, allow_missing: bool = False, allow_python_layers: bool = False
) -> CheckReport:
    """Read each of `paths` and compare every pair that could be used together.

    Nets and solvers are also opened by Caffe, in the throw-away process, where Caffe is installed.
    """
    report, read = CheckReport(), _Read()
    for path in paths:
        report.files.append(_check_file(path, read, allow_python_layers))
    for model in read.models:
        for source, weights in read.weights:
            found = compare_weights(model, weights)
            if allow_missing:
                found = [one for one in found if one.blob is not None]
            report.pairs.append(PairReport(model.path, source, tuple(found)))
    for state in read.states:
        solvers = read.solvers or [_solver_of(model) for model in read.models]
        for solver in solvers:
            report.pairs.append(_check_state(solver, state, bool(read.solvers)))
    return report


def _check_file(path: PathLike, read: _Read, allow_python_layers: bool) -> FileReport:
    source, kind = str(path), "file"
    try:
        kind = kind_of(read_bytes(path, "any"))
        reader = _READERS.get(kind)
        if reader is None:
            raise ModelError(f"{source}: looks like {kind_name(kind)}: no Caffe file that can be used here")
        return FileReport(source, kind, tuple(reader(path, read, allow_python_layers)))
    except AzcaffeError as error:
        return FileReport(source, kind, (), str(error))


def _read_net(path: PathLike, read: _Read, allow_python_layers: bool) -> list[str]:
    model = read_model(path, allow_python_layers)
    facts = describe_model(model)
    if caffe_folder() is not None:
        probe_net(model.inference_text, proto.TEST, model.path)
    else:
        facts.append("not opened by Caffe, which is not installed")
    read.models.append(model)
    return facts


def describe_model(model: ModelInfo) -> list[str]:
    """What a net fits and how large it is, line by line."""
    return [
        f"fits a board of {model.height} rows and {model.width} columns, {model.channels} input planes, "
        f"{model.num_actions} actions",
        f"{model.layers} layers, {model.parameters:,} parameters",
    ]


def _read_solver_file(path: PathLike, read: _Read, allow_python_layers: bool) -> list[str]:
    solver = read_solver(path, None, allow_python_layers)
    model = read_model(solver.model, allow_python_layers, net=solver.net)
    net, _ = training_net(solver, BATCH)
    if caffe_folder() is not None:
        probe_solver(private_solver(solver, net, "probe", 0), solver.kind, solver.path)
    read.solvers.append(solver)
    if all(model.path != other.path for other in read.models):
        read.models.append(model)
    message = solver.message
    return [
        f"{solver.kind}, learning rate {message.base_lr:g} ({message.lr_policy}), net {solver.model}",
        *describe_model(model),
    ]


def _read_weights(path: PathLike, read: _Read, allow_python_layers: bool) -> list[str]:
    weights = load_weights(path)
    read.weights.append((str(path), weights))
    count = sum(blob.size for blobs in weights.values() for blob in blobs)
    facts = [f"{len(weights)} layers with weights, {count:,} parameters"]
    first, head, output = (weights.get(name) for name in ("conv1", "Probas_conv1", "Probas_Output"))
    if first and head and output and first[0].ndim == 4 and output[0].ndim == 2:
        squares = output[0].shape[1] // head[0].shape[0]
        facts.insert(
            0,
            f"fits {squares} squares, {first[0].shape[1]} input planes, {output[0].shape[0]} actions",
        )
    return facts


def _read_solverstate(path: PathLike, read: _Read, allow_python_layers: bool) -> list[str]:
    state = load_state(path)
    read.states.append(str(path))
    return [
        f"iteration {state.iter:,}, memory of {len(state.history)} blobs, weights in {state.learned_net or 'no file'}"
    ]


_READERS: dict[str, Any] = {
    "net": _read_net,
    "solver": _read_solver_file,
    "caffemodel": _read_weights,
    "solverstate": _read_solverstate,
}


def _solver_of(model: ModelInfo) -> SolverFile:
    """A plain solver around a net that comes without one."""
    return SolverFile(model.path, model.path, "SGD", proto.make("SolverParameter"), model.net)


def _check_state(solver: SolverFile, state: str, kind_known: bool) -> PairReport:
    problem = None
    try:
        net, shapes = training_net(solver, BATCH)
        learnable = learnable_shapes(net, shapes)
        for kind in (solver.kind,) if kind_known else ("SGD", "Adam"):
            try:
                read_state(state, learnable, kind)
                problem = None
                break
            except ModelError as error:
                problem = problem or str(error)
    except AzcaffeError as error:
        problem = str(error)
    return PairReport(solver.path, state, (), problem)
