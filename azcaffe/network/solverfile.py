# SPDX-License-Identifier: AGPL-3.0-or-later
"""Solver prototxts: reading the user's, and the private copy that Caffe is given.

The copy holds the net inside, so that Caffe resolves no path; takes no snapshots (ours are atomic); runs no test nets;
and computes the logarithm of the softmax so that it cannot become -inf.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from azcaffe.network import proto
from azcaffe.network.errors import ModelError
from azcaffe.network.files import PathLike, read_bytes, read_text
from azcaffe.network.model import INPUT, POLICY, VALUE
from azcaffe.network.netfile import check_names, load_net, normalise, phase_net
from azcaffe.network.shapes import NetShapes, infer_shapes

LABEL_VALUE, LABEL_POLICY, VALUE_LOSS, POLICY_LOSS = "label_value", "label_probas", "value_loss", "probas_loss"
BATCH_SCALE = "Cross_Entropy_Scale"
SOLVER_TYPES = ("SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam")  # in the order of the old solver_type
HISTORIES = {"Adam": 2, "AdaDelta": 2}  # blobs of memory a parameter, 1 for the other types
LR_POLICIES = ("fixed", "step", "exp", "inv", "multistep", "poly", "sigmoid")
_LOG_FLOOR = 1e-30  # a probability that float32 rounds to 0 counts as this much


@dataclass(frozen=True)
class SolverFile:
    """A solver prototxt that has been read and checked.

    Attributes:
        path: the file.
        model: the net's prototxt, absolute; the solver's own path for a net inside the solver file.
        message: the SolverParameter as the user wrote it.
        net: NetParameter, all phases, in today's form.
        kind: SGD, Adam …
        initial_weights: caffemodels that its `weights:` lines name.
    """

    path: str
    model: str
    kind: str
    message: Any = field(repr=False, compare=False)
    net: Any = field(repr=False, compare=False)
    initial_weights: tuple[Path, ...] = ()


def read_solver(path: PathLike, model: PathLike | None = None, allow_python_layers: bool = False) -> SolverFile:
    """Read a solver prototxt and the net it names, a path taken from its own folder; `model` overrides the net.

    Raises:
        ModelError: the solver or its net cannot be used.
    """
    source, folder = str(path), Path(path).absolute().parent
    message = proto.parse_text("SolverParameter", read_text(path, "solver"), source)
    _check_settings(message, source)
    inside = [name for name in ("net_param", "train_net_param") if message.HasField(name)]
    outside = [name for name in ("net", "train_net") if message.HasField(name)]
    if model is not None:
        net_path = str(Path(model).absolute())
        net = load_net(model, allow_python_layers)
    elif len(inside) + len(outside) != 1:
        many = ", ".join(inside + outside)
        raise ModelError(
            f"{source}: names {'more than one net (' + many + ')' if many else 'no net'}: "
            "give it one `net:` line, or --model"
        )
    elif inside:
        net_path, net = source, type(message.net_param)()
        net.CopyFrom(getattr(message, inside[0]))
        normalise(net, source, allow_python_layers)
    else:
        net_path = str(folder / getattr(message, outside[0]))
        try:
            read_bytes(net_path, "net")
        except ModelError as error:
            raise ModelError(f"{source}: its `{outside[0]}:` line leads nowhere: {error} (or give --model)") from None
        net = load_net(net_path, allow_python_layers)
    weights = tuple(folder / name.strip() for line in message.weights for name in line.split(","))
    return SolverFile(source, net_path, _solver_type(message, source), message, net, weights)


def _solver_type(message: Any, source: str) -> str:
    kind = SOLVER_TYPES[message.solver_type] if message.HasField("solver_type") else message.type
    if kind not in SOLVER_TYPES:
        raise ModelError(f"{source}: unknown type {kind!r}, Caffe has {', '.join(SOLVER_TYPES)}")
    return kind


def _check_settings(message: Any, source: str) -> None:
    if message.lr_policy not in LR_POLICIES:
        named = f"unknown lr_policy {message.lr_policy!r}" if message.HasField("lr_policy") else "no lr_policy"
        raise ModelError(f"{source}: {named}, Caffe has {', '.join(LR_POLICIES)}")
    if not message.HasField("base_lr"):
        raise ModelError(f"{source}: no base_lr")
    if message.lr_policy in ("step", "sigmoid") and message.stepsize < 1:
        raise ModelError(
            f"{source}: lr_policy {message.lr_policy!r} needs a stepsize of 1 or more, not {message.stepsize}"
        )
    if message.gamma < 0:
        raise ModelError(f"{source}: gamma must be 0 or more, not {message.gamma:g}")
    if message.lr_policy == "poly" and message.max_iter < 1:
        raise ModelError(f"{source}: lr_policy 'poly' needs a max_iter of 1 or more")
    for name in ("display", "snapshot"):
        if getattr(message, name) < 0:
            raise ModelError(f"{source}: {name} must be 0 or more, not {getattr(message, name)}")


def training_net(solver: SolverFile, batch: int) -> tuple[Any, NetShapes]:
    """The TRAIN-phase net of `solver` at `batch` boards, its logarithms safe (:func:`stabilise`), and its shapes.

    Raises:
        ModelError: a label or loss blob is missing, or a shape does not fit.
    """
    state = solver.message.train_state if solver.message.HasField("train_state") else None
    net = phase_net(solver.net, proto.TRAIN, state)
    made = {top for layer in net.layer for top in layer.top}
    missing = [
        name for name in (INPUT, LABEL_VALUE, LABEL_POLICY, VALUE, POLICY, VALUE_LOSS, POLICY_LOSS) if name not in made
    ]
    if missing:
        raise ModelError(f"{solver.model}: no layer makes {', '.join(map(repr, missing))} in the TRAIN phase")
    for layer in net.layer:
        if layer.type == "Input":
            for shape in layer.input_param.shape:
                if len(shape.dim):
                    shape.dim[0] = batch
    infer_shapes(net, solver.model)  # the user's layers first: messages name what is in the file
    stabilise(net)
    shapes = infer_shapes(net, solver.model)
    check_names(net, set(shapes.params), solver.model)
    return net, shapes


def stabilise(net: Any) -> None:
    """Make every Log of a Softmax finite, with the right gradient, in place; blob names stay.

    A softmax that rounds to 0 gives log 0 = -inf, and -inf * 0 = NaN. With x the logits, p = softmax(x), and both p and
    l = log(p + floor) taken as constants, y = x - sum_a p_a (x_a - l_a) has the value x - logsumexp(x) = log p, since
    x_a - l_a is logsumexp(x) wherever p_a > 0, and the gradient dy - p sum(dy), the log-softmax's own, even where p is
    0. Logs of anything else get a floor, which keeps them finite.
    """
    softmax = {layer.top[0]: layer for layer in net.layer if layer.type == "Softmax"}
    layers: list[Any] = []
    for layer in net.layer:
        source = softmax.get(layer.bottom[0]) if layer.type == "Log" and layer.bottom else None
        param = layer.log_param
        plain = layer.type == "Log" and (param.base, param.scale, param.shift) == (-1, 1, 0)
        if plain and source is not None and _is_rows(source, net):
            layers += _log_softmax(layer, source.bottom[0])
        else:
            if plain:
                layer.log_param.shift = _LOG_FLOOR
            layers.append(layer)
    copies = []
    for layer in layers:
        copy = type(layer)()
        copy.CopyFrom(layer)
        copies.append(copy)
    net.ClearField("layer")
    net.layer.extend(copies)


def _is_rows(softmax: Any, net: Any) -> bool:
    """Whether the softmax runs over axis 1 of (batch, actions) logits that stay in their blob."""
    logits, probabilities = softmax.bottom[0], softmax.top[0]
    shape = infer_shapes(net, "").blobs.get(logits)
    after = list(net.layer)[list(net.layer).index(softmax) :]
    changed = any(logits in layer.top or (probabilities in layer.top and layer is not after[0]) for layer in after)
    return shape is not None and len(shape) == 2 and softmax.softmax_param.axis in (1, -1) and not changed


def _log_softmax(log: Any, logits: str) -> list[Any]:
    probabilities, name = log.bottom[0], log.name

    def add(suffix: str, kind: str, bottoms: list[str], propagate: list[bool]) -> Any:
        layer = type(log)()
        layer.name = layer.type = ""
        layer.name, layer.type = f"{name}_{suffix}", kind
        layer.bottom.extend(bottoms)
        layer.top.append(layer.name)
        layer.propagate_down.extend(propagate)
        layers.append(layer)
        return layer

    layers: list[Any] = []
    floored = add("floored", "Log", [probabilities], [False])
    floored.log_param.shift = _LOG_FLOOR
    difference = add("difference", "Eltwise", [logits, floored.name], [True, False])
    difference.eltwise_param.operation = difference.eltwise_param.SUM
    difference.eltwise_param.coeff.extend([1, -1])
    weighted = add("weighted", "Eltwise", [probabilities, difference.name], [False, True])
    weighted.eltwise_param.operation = weighted.eltwise_param.PROD
    minus_total = add("minus_total", "Reduction", [weighted.name], [True])
    minus_total.reduction_param.axis = 1
    minus_total.reduction_param.coeff = -1
    result = add("result", "Bias", [logits, minus_total.name], [True, True])
    result.bias_param.axis = 0
    result.name = name
    result.top[0] = log.top[0]
    result.loss_weight.extend(log.loss_weight)
    return layers


def private_solver(
    solver: SolverFile,
    net: Any,
    snapshot_prefix: str,
    seed: int | None = None,
    learning_rate: float | None = None,
    gpu: int | None = None,
) -> str:
    """The solver prototxt that Caffe is given."""
    copy = type(solver.message)()
    copy.CopyFrom(solver.message)
    for name in (
        "net", "train_net", "train_net_param", "test_net", "test_net_param", "test_state", "test_iter", "test_interval",
        "train_state", "weights", "snapshot", "snapshot_format", "snapshot_diff", "solver_type", "display", "iter_size",
    ):  # fmt: skip
        copy.ClearField(name)
    copy.net_param.CopyFrom(net)
    copy.type = solver.kind
    copy.snapshot_prefix = snapshot_prefix
    copy.snapshot_after_train = False
    copy.solver_mode = copy.CPU if gpu is None else copy.GPU
    if gpu is not None:
        copy.device_id = gpu
    if seed is not None:
        copy.random_seed = seed % 2**31
    if learning_rate is not None:
        copy.base_lr = learning_rate
    return proto.to_text(copy)
