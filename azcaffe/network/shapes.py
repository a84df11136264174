# SPDX-License-Identifier: AGPL-3.0-or-later
"""The shape of every blob and parameter of a net, worked out without Caffe.

Covers the layers that nets of board games are made of. A layer outside that list gets unknown shapes (None) and so do
those that depend on it; Caffe itself, in the throw-away process, is the judge of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from azcaffe.network.errors import ModelError

Shape = tuple[int, ...]

MAX_ELEMENTS = 2**28  # of one blob or of all parameters: 1 GB of float32, and Caffe counts in 32-bit integers
MAX_AXES = 32  # Caffe's kMaxBlobAxes
_SHAPE_KEEPING = {
    "AbsVal", "BNLL", "BatchNorm", "Clip", "Dropout", "ELU", "Exp", "LRN", "Log", "MVN", "PReLU", "Power", "ReLU",
    "Sigmoid", "Softmax", "Swish", "TanH", "Threshold",
}  # fmt: skip
_LOSSES = {"EuclideanLoss": 2, "SigmoidCrossEntropyLoss": 2, "SoftmaxWithLoss": 2, "HingeLoss": 2}


@dataclass(slots=True)
class NetShapes:
    """Shapes at the batch size that the file gives.

    Attributes:
        blobs: shape of every blob, None where unknown.
        params: shapes of the learned blobs of every layer that has any, None where unknown.
    """

    blobs: dict[str, Shape | None] = field(default_factory=dict)
    params: dict[str, list[Shape] | None] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """How many numbers are learned, of the layers whose shapes are known."""
        return sum(prod(shape) for shapes in self.params.values() for shape in shapes or [])


class _Fault(Exception):
    pass


def infer_shapes(net: Any, source: str) -> NetShapes:
    """Shapes of a net in today's form whose layers all run (one phase).

    Raises:
        ModelError: a bottom that no layer makes, a shape that cannot be; names the layer.
    """
    shapes = NetShapes()
    for layer in net.layer:
        try:
            _add_layer(layer, shapes)
        except _Fault as fault:
            raise ModelError(f"{source}: layer {layer.name!r} ({layer.type}): {fault}") from None
    if shapes.parameters > MAX_ELEMENTS:
        raise ModelError(f"{source}: {shapes.parameters:,} parameters, {MAX_ELEMENTS:,} is the limit")
    return shapes


def _add_layer(layer: Any, shapes: NetShapes) -> None:
    bottoms: list[Shape | None] = []
    for bottom in layer.bottom:
        if bottom not in shapes.blobs:
            raise _Fault(f"its bottom {bottom!r} is no blob that a layer above makes (known: {_names(shapes.blobs)})")
        bottoms.append(shapes.blobs[bottom])
    for top in layer.top:
        if top in shapes.blobs and top not in layer.bottom:
            raise _Fault(f"its top {top!r} is already made by a layer above")
    rule = _RULES.get(layer.type)
    if layer.type in _SHAPE_KEEPING:
        _counts(layer, 1, 1)
        rule = _same
    elif layer.type in _LOSSES:
        _counts(layer, _LOSSES[layer.type], 1)
        rule = _loss
    if rule is None or (None in bottoms and layer.type != "Silence"):
        tops: list[Shape | None] = [None] * len(layer.top)
        params: list[Shape] | None = None
    else:
        known = [bottom for bottom in bottoms if bottom is not None]
        known_tops, params = rule(layer, known)
        tops = list(known_tops)
        if len(tops) != len(layer.top):
            raise _Fault(f"has {len(layer.top)} tops, it makes {len(tops)}")
    for top, shape in zip(layer.top, tops):
        if shape is not None:
            _check(shape, f"top {top!r}")
        shapes.blobs[top] = shape
    if params is None or params:
        shapes.params[layer.name] = params
    for shape in params or []:
        _check(shape, "a parameter blob")


def _names(blobs: dict[str, Shape | None]) -> str:
    names = list(blobs)
    return ", ".join(names[:8]) + (" …" if len(names) > 8 else "") if names else "none"


def _check(shape: Shape, what: str) -> None:
    if len(shape) > MAX_AXES or any(dim < 0 for dim in shape) or prod(shape) > MAX_ELEMENTS:
        raise _Fault(
            f"{what} would have the shape {shape}: at most {MAX_AXES} axes and {MAX_ELEMENTS:,} numbers can be"
        )
    if any(dim == 0 for dim in shape):
        raise _Fault(f"{what} would be empty, shape {shape}")


def _counts(layer: Any, bottoms: int, tops: int) -> None:
    if len(layer.bottom) != bottoms or len(layer.top) != tops:
        raise _Fault(f"takes {bottoms} bottoms and {tops} tops, it has {len(layer.bottom)} and {len(layer.top)}")


def _axis(axis: int, shape: Shape, extra: int = 0) -> int:
    if not -len(shape) - extra <= axis < len(shape) + extra:
        raise _Fault(f"axis {axis} is outside its bottom of shape {shape}")
    return axis + len(shape) + extra if axis < 0 else axis


_Made = tuple[list[Shape], list[Shape]]


def _same(layer: Any, bottoms: list[Shape]) -> _Made:
    shape = bottoms[0]
    channels = shape[1] if len(shape) > 1 else 1
    if layer.type == "BatchNorm":
        return [shape], [(channels,), (channels,), (1,)]
    if layer.type == "PReLU":
        return [shape], [() if layer.prelu_param.channel_shared else (channels,)]
    if layer.type == "Softmax":
        _axis(layer.softmax_param.axis, shape)
    return [shape], []


def _loss(layer: Any, bottoms: list[Shape]) -> _Made:
    if layer.type == "EuclideanLoss" and (
        bottoms[0][:1] != bottoms[1][:1] or prod(bottoms[0][1:]) != prod(bottoms[1][1:])
    ):
        raise _Fault(f"its bottoms have the shapes {bottoms[0]} and {bottoms[1]}, they must have the same size")
    return [()], []


def _input(layer: Any, bottoms: list[Shape]) -> _Made:
    given = [tuple(shape.dim) for shape in layer.input_param.shape]
    if len(given) == 1:
        given *= len(layer.top)
    if len(given) != len(layer.top):
        raise _Fault(f"{len(layer.top)} tops need one shape or as many, not {len(given)}")
    return given, []


def _spatial(param: Any, name: str, short: str, axes: int, default: int | None) -> Shape:
    """`kernel_size`, `kernel_h` and the like: one value an axis."""
    flat = getattr(param, name)
    values = list(flat) if hasattr(flat, "__len__") else [flat] if param.HasField(name) else []
    high, wide = f"{short}_h", f"{short}_w"
    if hasattr(param, high) and (param.HasField(high) or param.HasField(wide)):
        if values or axes != 2:
            raise _Fault(f"gives {name} and {high}/{wide} at once, or not on 2 axes")
        return (getattr(param, high), getattr(param, wide))
    if not values:
        if default is None:
            raise _Fault(f"{name} is missing")
        values = [default]
    if len(values) not in (1, axes):
        raise _Fault(f"{name} has {len(values)} values for {axes} axes")
    return tuple(values * axes if len(values) == 1 else values)


def _convolution(layer: Any, bottoms: list[Shape]) -> _Made:
    param, shape = layer.convolution_param, bottoms[0]
    if any(other != shape for other in bottoms[1:]):
        raise _Fault(f"its bottoms have different shapes, {bottoms}")
    axis = _axis(param.axis, shape)
    axes = len(shape) - axis - 1
    kernel = _spatial(param, "kernel_size", "kernel", axes, None)
    stride = _spatial(param, "stride", "stride", axes, 1)
    pad = _spatial(param, "pad", "pad", axes, 0)
    dilation = _spatial(param, "dilation", "dilation", axes, 1)
    channels, outputs, group = shape[axis], param.num_output, param.group
    if not outputs or not group or channels % group or outputs % group:
        raise _Fault(f"{channels} channels to {outputs} outputs (num_output) in {group} groups do not divide")
    if min((*kernel, *stride, *dilation), default=1) < 1:
        raise _Fault(f"kernel {kernel}, stride {stride} and dilation {dilation} must be 1 or more")
    size: list[int] = []
    for dim, k, s, p, d in zip(shape[axis + 1 :], kernel, stride, pad, dilation):
        extent = d * (k - 1) + 1
        if layer.type == "Deconvolution":
            size.append(s * (dim - 1) + extent - 2 * p)
        else:
            size.append((dim + 2 * p - extent) // s + 1)
            if dim + 2 * p < extent:
                raise _Fault(f"a kernel of {extent} does not fit {dim} squares padded by {p}")
    first, second = (channels, outputs) if layer.type == "Deconvolution" else (outputs, channels)
    params: list[Shape] = [(first, second // group, *kernel)]
    columns = channels * prod(kernel) * prod(size)  # Caffe's im2col buffer, of one image
    _check((max(columns, 1),), "its column buffer")
    if param.bias_term:
        params.append((outputs,))
    return [(*shape[:axis], outputs, *size)] * len(bottoms), params


def _inner_product(layer: Any, bottoms: list[Shape]) -> _Made:
    _counts(layer, 1, 1)
    param, shape = layer.inner_product_param, bottoms[0]
    axis = _axis(param.axis, shape)
    inputs, outputs = prod(shape[axis:]), param.num_output
    if not outputs:
        raise _Fault("num_output is missing or 0")
    params: list[Shape] = [(inputs, outputs) if param.transpose else (outputs, inputs)]
    if param.bias_term:
        params.append((outputs,))
    return [(*shape[:axis], outputs)], params


def _eltwise(layer: Any, bottoms: list[Shape]) -> _Made:
    if len(bottoms) < 2 or any(shape != bottoms[0] for shape in bottoms):
        raise _Fault(f"its bottoms must be two or more of one shape, they are {bottoms}")
    return [bottoms[0]], []


def _scale(layer: Any, bottoms: list[Shape]) -> _Made:
    param = layer.scale_param if layer.type == "Scale" else layer.bias_param
    if not 1 <= len(bottoms) <= 2:
        raise _Fault(f"takes 1 or 2 bottoms, it has {len(bottoms)}")
    shape = bottoms[0]
    axis = 0 if len(bottoms) == 2 and not bottoms[1] else _axis(param.axis, shape)
    if len(bottoms) == 2:
        factor = bottoms[1]
    elif param.num_axes < -1:
        raise _Fault(f"num_axes must be -1 or more, not {param.num_axes}")
    else:
        factor = shape[axis:] if param.num_axes == -1 else shape[axis : axis + param.num_axes]
        if param.num_axes > len(shape) - axis:
            raise _Fault(f"num_axes {param.num_axes} reaches beyond its bottom of shape {shape}")
    if factor != shape[axis : axis + len(factor)]:
        raise _Fault(f"the shape {factor} does not fit {shape} from axis {axis}")
    params = [factor] if len(bottoms) == 1 else []
    if layer.type == "Scale" and param.bias_term:
        params.append(factor)
    return [shape], params


def _reduction(layer: Any, bottoms: list[Shape]) -> _Made:
    _counts(layer, 1, 1)
    return [bottoms[0][: _axis(layer.reduction_param.axis, bottoms[0])]], []


def _flatten(layer: Any, bottoms: list[Shape]) -> _Made:
    shape, param = bottoms[0], layer.flatten_param
    start, end = _axis(param.axis, shape), _axis(param.end_axis, shape)
    if end < start:
        raise _Fault(f"end_axis {param.end_axis} comes before axis {param.axis}")
    return [(*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])], []


def _concat(layer: Any, bottoms: list[Shape]) -> _Made:
    if not bottoms:
        raise _Fault("has no bottom")
    param, shape = layer.concat_param, bottoms[0]
    axis = _axis(param.concat_dim if param.HasField("concat_dim") else param.axis, shape)
    for other in bottoms[1:]:
        if len(other) != len(shape) or other[:axis] != shape[:axis] or other[axis + 1 :] != shape[axis + 1 :]:
            raise _Fault(f"its bottoms {bottoms} differ on more than axis {axis}")
    return [(*shape[:axis], sum(other[axis] for other in bottoms), *shape[axis + 1 :])], []


def _split(layer: Any, bottoms: list[Shape]) -> _Made:
    return [bottoms[0]] * len(layer.top), []


def _silence(layer: Any, bottoms: list[Shape]) -> _Made:
    return [], []


_RULES: dict[str, Callable[[Any, list[Shape]], _Made]] = {
    "Input": _input,
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "InnerProduct": _inner_product,
    "Eltwise": _eltwise,
    "Scale": _scale,
    "Bias": _scale,
    "Reduction": _reduction,
    "Flatten": _flatten,
    "Concat": _concat,
    "Split": _split,
    "Silence": _silence,
}
