# SPDX-License-Identifier: AGPL-3.0-or-later
"""Net prototxts brought into one form: today's layers, `input:` headers as Input layers, filtered by phase.

Caffe itself upgrades old files and filters layers; doing it here lets every check see one form, and Caffe is only ever
given that form.
"""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path
from typing import Any

from azcaffe.network import proto
from azcaffe.network.errors import ModelError
from azcaffe.network.files import PathLike, read_text

MAX_LAYERS = 4000

# V1 layer types whose modern name is not its words in camel case.
_V1_TYPES = {
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "IM2COL": "Im2col",
    "LRN": "LRN",
    "MVN": "MVN",
    "RELU": "ReLU",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}
_V1_OWN = {"bottom", "top", "name", "type", "blobs", "param", "blob_share_mode", "blobs_lr", "weight_decay", "layer"}
# Layers that read or write files of their own, or run code.
FILE_LAYERS = {"Data", "HDF5Data", "HDF5Output", "ImageData", "MemoryData", "WindowData"}
LAYER_TYPES = FILE_LAYERS | {
    "AbsVal", "Accuracy", "ArgMax", "BNLL", "BatchNorm", "BatchReindex", "Bias", "Clip", "Concat",
    "ContrastiveLoss", "Convolution", "Crop", "Deconvolution", "Dropout", "DummyData", "ELU", "Eltwise",
    "Embed", "EuclideanLoss", "Exp", "Filter", "Flatten", "HingeLoss", "Im2col", "InfogainLoss", "InnerProduct",
    "Input", "LRN", "LSTM", "LSTMUnit", "Log", "MVN", "MultinomialLogisticLoss", "PReLU", "Parameter",
    "Pooling", "Power", "Python", "RNN", "ReLU", "Reduction", "Reshape", "SPP", "Scale", "Sigmoid",
    "SigmoidCrossEntropyLoss", "Silence", "Slice", "Softmax", "SoftmaxWithLoss", "Split", "Swish", "TanH",
    "Threshold", "Tile",
}  # fmt: skip


def load_net(path: PathLike, allow_python_layers: bool = False) -> Any:
    """The NetParameter in a prototxt, in today's form, all phases.

    Raises:
        ModelError: the file or what it says cannot be used.
    """
    path = Path(path)
    net = proto.parse_text("NetParameter", read_text(path, "net"), str(path))
    return normalise(net, str(path), allow_python_layers)


def normalise(net: Any, source: str, allow_python_layers: bool = False) -> Any:
    """`net` in today's form, in place; `source` words the messages.

    Raises:
        ModelError: mixed old and new layers, a layer without a type or of an unknown or refused one, name clashes.
    """
    if len(net.layers) and len(net.layer):
        raise ModelError(
            f"{source}: mixes {len(net.layers)} old-style `layers {{}}` with {len(net.layer)} `layer {{}}`: "
            "write all of them in one style"
        )
    if len(net.layers) + len(net.layer) > MAX_LAYERS:
        raise ModelError(f"{source}: {len(net.layers) + len(net.layer)} layers, {MAX_LAYERS} is the limit")
    _upgrade_v1(net, source)
    _upgrade_header(net, source)
    if not len(net.layer):
        raise ModelError(f"{source}: there are no layers in it")
    for layer in net.layer:
        _check_layer(layer, source, allow_python_layers)
    return net


def _upgrade_v1(net: Any, source: str) -> None:
    for old in net.layers:
        if old.HasField("layer"):
            raise ModelError(
                f"{source}: layers nested in layers (Caffe's oldest format); upgrade it with upgrade_net_proto_text"
            )
        new = net.layer.add(name=old.name, bottom=old.bottom, top=old.top)
        type_name = old.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number[old.type].name
        if type_name != "NONE":
            new.type = _V1_TYPES.get(type_name) or "".join(word.capitalize() for word in type_name.split("_"))
        for index in range(max(len(old.param), len(old.blobs_lr), len(old.weight_decay))):
            param = new.param.add()
            if index < len(old.param) and old.param[index]:
                param.name = old.param[index]
            if index < len(old.blobs_lr):
                param.lr_mult = old.blobs_lr[index]
            if index < len(old.weight_decay):
                param.decay_mult = old.weight_decay[index]
        for field, value in old.ListFields():
            if field.name not in _V1_OWN:
                target = getattr(new, field.name)
                target.extend(value) if hasattr(value, "extend") else target.CopyFrom(value)
    net.ClearField("layers")


def _upgrade_header(net: Any, source: str) -> None:
    if not len(net.input):
        return
    shapes = [tuple(shape.dim) for shape in net.input_shape]
    if not shapes:
        shapes = [tuple(net.input_dim[at : at + 4]) for at in range(0, len(net.input_dim), 4)]
    if len(shapes) != len(net.input) or (len(net.input_dim) and any(len(shape) != 4 for shape in shapes)):
        raise ModelError(f"{source}: {len(net.input)} `input:` lines need as many shapes (four `input_dim` each)")
    layers = list(net.layer)
    header = type(layers[0])() if layers else proto.make("LayerParameter")
    header.name, header.type = "input", "Input"
    header.top.extend(net.input)
    for shape in shapes:
        header.input_param.shape.add().dim.extend(shape)
    for field in ("input", "input_dim", "input_shape", "layer"):
        net.ClearField(field)
    net.layer.extend([header, *layers])


def _check_layer(layer: Any, source: str, allow_python_layers: bool) -> None:
    where = f"{source}: layer {layer.name!r}"
    if not layer.type:
        raise ModelError(f"{where}: has no type")
    if layer.type == "Python" and not allow_python_layers:
        raise ModelError(f"{where}: Python layers run code; --allow-python-layers lets them, for a file that you trust")
    if layer.type in FILE_LAYERS:
        raise ModelError(
            f"{where}: {layer.type} layers reach for other files; take the planes from `input_data` (type Input)"
        )
    if layer.type not in LAYER_TYPES and proto.is_stock():
        near = difflib.get_close_matches(layer.type, LAYER_TYPES, n=1)
        raise ModelError(f"{where}: unknown type {layer.type!r}{f', did you mean {near[0]}?' if near else ''}")
    if len(layer.include) and len(layer.exclude):
        raise ModelError(f"{where}: gives both include and exclude rules, Caffe allows one kind")
    if len(layer.blobs):
        raise ModelError(f"{where}: holds weights; a net prototxt has none, they belong into a caffemodel")


def phase_net(net: Any, phase: int, state: Any = None) -> Any:
    """A copy of `net`, only the layers of `phase`; `state` (a NetState) adds the solver's level and stages."""
    own = type(net.state)()
    own.phase = phase
    own.MergeFrom(net.state)
    if state is not None:
        own.MergeFrom(state)
    own.phase = phase
    copy = type(net)()
    copy.CopyFrom(net)
    copy.ClearField("layer")
    copy.layer.extend(layer for layer in net.layer if _runs(layer, own))
    for layer in copy.layer:
        layer.ClearField("include")
        layer.ClearField("exclude")
    copy.ClearField("state")
    copy.state.phase = phase
    return copy


def _runs(layer: Any, state: Any) -> bool:
    if len(layer.include):
        return any(_meets(rule, state) for rule in layer.include)
    return not any(_meets(rule, state) for rule in layer.exclude)


def _meets(rule: Any, state: Any) -> bool:
    return (
        (not rule.HasField("phase") or rule.phase == state.phase)
        and (not rule.HasField("min_level") or state.level >= rule.min_level)
        and (not rule.HasField("max_level") or state.level <= rule.max_level)
        and all(stage in state.stage for stage in rule.stage)
        and not any(stage in state.stage for stage in rule.not_stage)
    )


def prune(net: Any, outputs: tuple[str, ...]) -> Any:
    """`net` with only the layers that `outputs` depend on, in place: labels and losses without a phase rule go."""
    needed, kept = set(outputs), []
    for layer in reversed(net.layer):
        if needed.intersection(layer.top):
            kept.append(layer)
            needed.update(layer.bottom)
    layers = list(reversed(kept))
    copies = [type(layer)() for layer in layers]
    for copy, layer in zip(copies, layers):
        copy.CopyFrom(layer)
    net.ClearField("layer")
    net.layer.extend(copies)
    return net


def check_names(net: Any, with_params: set[str], source: str) -> None:
    """Refuse two layers of one name where a caffemodel could not tell them apart.

    The published 2-block net has two ReLU of one name: layers without weights may share one.

    Raises:
        ModelError: names them.
    """
    counts = Counter(layer.name for layer in net.layer)
    for name in sorted(with_params):
        if counts[name] > 1:
            raise ModelError(
                f"{source}: {counts[name]} layers are called {name!r}, and weights are matched by name: rename them"
            )
