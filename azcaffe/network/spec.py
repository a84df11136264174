# SPDX-License-Identifier: AGPL-3.0-or-later
"""Writing nets and solvers: the published residual net for any board.

Layer and blob names are those of the published files (REFERENCE of the port: `conv1`, `res{k}_conv1`, `Value_fc1`,
`Probas_Output` …), because a caffemodel is matched to a net by layer name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azcaffe.errors import ConfigError
from azcaffe.games.base import Game
from azcaffe.network import proto
from azcaffe.network.netfile import load_net

FILLERS = ("gaussian", "xavier", "msra")
_LIMITS = {
    "height": (1, 64),
    "width": (1, 64),
    "num_actions": (1, 65536),
    "channels_in": (1, 1024),
    "blocks": (0, 200),
    "channels": (1, 4096),
    "value_units": (1, 65536),
}


@dataclass(frozen=True, slots=True)
class NetSpec:
    """Shape of a residual net with a value head and a policy head.

    Attributes:
        height, width: board, and size of the input planes.
        num_actions: size of the policy.
        channels_in: input planes; 3 is the published absolute encoding, 2h + 1 a history of h positions.
        blocks: residual blocks.
        channels: outputs of every 3x3 convolution.
        batch_norm: BatchNorm and Scale after each convolution, as in the published batch_norm file.
        relu_slope: negative slope of every ReLU; None takes the published one (0.02, with batch_norm 0).
        head_channels: outputs of the value head's 1x1 convolution; None takes the published one (2, with batch_norm 1).
        value_units: width of the value head's hidden layer.
        filler: how weights begin: the published gaussian (standard deviation 0.01), or xavier or msra, which scale
            with the layer and leave the first plateau of the loss sooner.
        name: what the net calls itself.

    Raises:
        ConfigError: a number outside its range.
    """

    height: int
    width: int
    num_actions: int
    channels_in: int = 3
    blocks: int = 2
    channels: int = 64
    batch_norm: bool = False
    relu_slope: float | None = None
    head_channels: int | None = None
    value_units: int = 256
    filler: str = "gaussian"
    name: str = "azcaffe"

    def __post_init__(self) -> None:
        for field, (low, high) in _LIMITS.items():
            value = getattr(self, field)
            if not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"a net's {field} must be a whole number from {low} to {high}, not {value}")
        if self.filler not in FILLERS:
            raise ConfigError(f"a net's filler must be {', '.join(FILLERS)}, not {self.filler!r}")
        if self.relu_slope is not None and not 0 <= self.relu_slope < 1:
            raise ConfigError(f"a net's relu_slope must be at least 0 and below 1, not {self.relu_slope}")
        if self.head_channels is not None and not 1 <= self.head_channels <= 4096:
            raise ConfigError(f"a net's head_channels must be from 1 to 4096, not {self.head_channels}")

    @property
    def slope(self) -> float:
        """Negative slope of the ReLUs."""
        return self.relu_slope if self.relu_slope is not None else 0.0 if self.batch_norm else 0.02

    @property
    def value_channels(self) -> int:
        """Outputs of the value head's 1x1 convolution."""
        return self.head_channels or (1 if self.batch_norm else 2)

    @classmethod
    def for_game(cls, game: Game, channels_in: int = 3, **options: Any) -> NetSpec:
        """The net that fits `game`."""
        return cls(game.shape[0], game.shape[1], game.num_actions, channels_in, **options)


@dataclass(frozen=True, slots=True)
class SolverSpec:
    """A solver file; the defaults are the published solver's (SGD, a step of the rate every 12,500 iterations)."""

    base_lr: float = 0.02
    momentum: float = 0.9
    lr_policy: str = "step"
    stepsize: int = 12500
    gamma: float = 0.25
    weight_decay: float | None = None
    display: int = 250
    snapshot: int = 1000
    snapshot_prefix: str = "net"
    type: str = "SGD"


def build_net(spec: NetSpec) -> Any:
    """The NetParameter of `spec`, with TRAIN-only labels and losses; the batch is 1, reshaped when it runs."""
    net = proto.make("NetParameter")
    net.name = spec.name
    _input(net, "Input_data", "input_data", (1, spec.channels_in, spec.height, spec.width))
    _input(net, "Input_value", "label_value", (1, 1), train_only=True)
    _input(net, "Input_probas", "label_probas", (1, spec.num_actions), train_only=True)
    _convolution(net, spec, "conv1", "input_data", "conv1", spec.channels, 3)
    _relu(net, spec, "conv1_relu", "conv1")
    trunk = "conv1"
    for block in range(1, spec.blocks + 1):
        trunk = _residual_block(net, spec, trunk, f"res{block}")
    _value_head(net, spec, trunk)
    _policy_head(net, spec, trunk)
    return net


def _residual_block(net: Any, spec: NetSpec, bottom: str, name: str) -> str:
    _convolution(net, spec, f"{name}_conv1", bottom, f"{name}_conv1", spec.channels, 3)
    _relu(net, spec, f"{name}_relu1", f"{name}_conv1")
    _convolution(net, spec, f"{name}_conv2", f"{name}_conv1", f"{name}_conv2", spec.channels, 3)
    total = _layer(net, f"{name}_sum", "Eltwise", [bottom, f"{name}_conv2"], name)
    total.eltwise_param.operation = total.eltwise_param.SUM
    _relu(net, spec, f"{name}_relu2", name)
    return name


def _value_head(net: Any, spec: NetSpec, trunk: str) -> None:
    _convolution(net, spec, "Value_conv1", trunk, "value_conv1", spec.value_channels, 1)
    _relu(net, spec, "value_relu1", "value_conv1")
    _inner_product(net, spec, "Value_fc1", "value_conv1", "value_fc1", spec.value_units)
    _relu(net, spec, "relu_value_fc1", "value_fc1")
    _inner_product(net, spec, "Value_Output", "value_fc1", "output_value", 1)
    _layer(net, "TanH_value", "TanH", ["output_value"], "output_value")
    _train_layer(net, "Value_loss", "EuclideanLoss", ["output_value", "label_value"], "value_loss")


def _policy_head(net: Any, spec: NetSpec, trunk: str) -> None:
    _convolution(net, spec, "Probas_conv1", trunk, "probas_conv1", 2, 1)
    _relu(net, spec, "probas_relu1", "probas_conv1")
    _inner_product(net, spec, "Probas_Output", "probas_conv1", "raw_output_probas", spec.num_actions)
    _layer(net, "Probas_Softmax", "Softmax", ["raw_output_probas"], "output_probas")
    # Caffe has no cross-entropy with soft labels: -log p, times the labels, summed over actions, mean of the batch.
    _train_layer(net, "Log_Probas", "Log", ["output_probas"], "log_output_probas")
    _constant_scale(net, "Minus_Log_Probas", "log_output_probas", "minus_log_probas", -1.0)
    product = _train_layer(net, "Cross_Entropy_Mult", "Eltwise", ["minus_log_probas", "label_probas"], "eltwise_prod")
    product.eltwise_param.operation = product.eltwise_param.PROD
    _sum(net, "Cross_entropy_first_sum", "eltwise_prod", "cross_entropy_summed", axis=1)
    _constant_scale(net, "Cross_Entropy_Scale", "cross_entropy_summed", "cross_entropy_scaled", 1.0)
    _sum(net, "Cross_entropy_loss", "cross_entropy_scaled", "probas_loss", axis=0).loss_weight.append(1.0)


def _layer(net: Any, name: str, kind: str, bottoms: list[str], top: str) -> Any:
    return net.layer.add(name=name, type=kind, bottom=bottoms, top=[top])


def _train_layer(net: Any, name: str, kind: str, bottoms: list[str], top: str) -> Any:
    layer = _layer(net, name, kind, bottoms, top)
    layer.include.add().phase = proto.TRAIN
    return layer


def _input(net: Any, name: str, top: str, shape: tuple[int, ...], train_only: bool = False) -> None:
    layer = (_train_layer if train_only else _layer)(net, name, "Input", [], top)
    layer.input_param.shape.add().dim.extend(shape)


def _convolution(net: Any, spec: NetSpec, name: str, bottom: str, top: str, outputs: int, size: int) -> None:
    layer = _layer(net, name, "Convolution", [bottom], top)
    param = layer.convolution_param
    param.num_output = outputs
    param.kernel_size.append(size)
    param.stride.append(1)
    param.pad.append(size // 2)
    _fill(param, spec)
    if spec.batch_norm:
        _batch_norm(net, top)


def _batch_norm(net: Any, blob: str) -> None:
    norm = _layer(net, f"{blob}_norm", "BatchNorm", [blob], blob)
    for _ in range(3):  # mean, variance and their weight are counted up by the forward pass, never by the solver
        norm.param.add(lr_mult=0, decay_mult=0)
    scale = _layer(net, f"{blob}_scale", "Scale", [blob], blob)
    scale.scale_param.bias_term = True


def _inner_product(net: Any, spec: NetSpec, name: str, bottom: str, top: str, outputs: int) -> None:
    param = _layer(net, name, "InnerProduct", [bottom], top).inner_product_param
    param.num_output = outputs
    _fill(param, spec)


def _fill(param: Any, spec: NetSpec) -> None:
    param.weight_filler.type = spec.filler
    if spec.filler == "gaussian":
        param.weight_filler.std = 0.01
    param.bias_filler.type, param.bias_filler.value = "constant", 0


def _relu(net: Any, spec: NetSpec, name: str, blob: str) -> None:
    layer = _layer(net, name, "ReLU", [blob], blob)
    if spec.slope:
        layer.relu_param.negative_slope = spec.slope


def _constant_scale(net: Any, name: str, bottom: str, top: str, value: float) -> None:
    layer = _train_layer(net, name, "Scale", [bottom], top)
    layer.param.add(lr_mult=0, decay_mult=0)
    layer.scale_param.axis = layer.scale_param.num_axes = 0
    layer.scale_param.filler.type, layer.scale_param.filler.value = "constant", value


def _sum(net: Any, name: str, bottom: str, top: str, axis: int) -> Any:
    layer = _train_layer(net, name, "Reduction", [bottom], top)
    layer.reduction_param.operation = layer.reduction_param.SUM
    layer.reduction_param.axis = axis
    return layer


def net_text(spec: NetSpec) -> str:
    """The prototxt of `spec`, a comment with its shape on top."""
    head = (
        f"# {spec.height}x{spec.width} board, {spec.channels_in} input planes, {spec.num_actions} actions, "
        f"{spec.blocks} residual blocks of {spec.channels} channels{', batch norm' if spec.batch_norm else ''}.\n"
        "# Written by `azcaffe make-net`.\n"
    )
    return head + proto.to_text(build_net(spec))


def solver_text(spec: SolverSpec, net_file: str) -> str:
    """The prototxt of `spec` for the net in `net_file`, a path relative to the solver's own folder."""
    solver = proto.make("SolverParameter")
    solver.net = net_file
    for field in SolverSpec.__slots__:
        value = getattr(spec, field)
        if value is not None:
            setattr(solver, field, value)
    solver.solver_mode = solver.CPU
    head = "# The path in `net` is taken from this file's own folder. Written by `azcaffe make-net`.\n"
    return head + proto.to_text(solver)


def write_net(spec: NetSpec, path: str | os.PathLike[str]) -> Path:
    """Write the prototxt of `spec` to `path`."""
    return _write(Path(path), net_text(spec))


def write_net_with_caffe_convolution(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> Path:
    """Write the net in the prototxt `source` to `path` with `engine: CAFFE`: convolved in Caffe's own way, not in ours.

    Raises:
        ModelError: `source` cannot be used.
    """
    net = load_net(source)
    for layer in net.layer:
        if layer.type == "Convolution":
            layer.convolution_param.engine = layer.convolution_param.CAFFE
    return _write(Path(path), proto.to_text(net))


def write_solver(spec: SolverSpec, path: str | os.PathLike[str], net_path: str | os.PathLike[str]) -> Path:
    """Write a solver file to `path` whose `net:` names `net_path` relative to that file's folder."""
    return _write(Path(path), solver_text(spec, os.path.relpath(net_path, Path(path).parent or ".")))


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def make_net_command(game: Game, channels_in: int = 3) -> str:
    """The command line that writes a net for `game` with `channels_in` input planes (for messages)."""
    history = f" --history {(channels_in - 1) // 2}" if channels_in != 3 and channels_in % 2 else ""
    return f'azcaffe make-net --game "{game.name}"{history} --output net.prototxt'
