# SPDX-License-Identifier: AGPL-3.0-or-later
"""What a net file is: the board it fits, its layers, the shapes its weights must have."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from azcaffe.encoding import Encoding
from azcaffe.errors import AzcaffeError
from azcaffe.games.base import Game
from azcaffe.network import proto
from azcaffe.network.errors import ModelError
from azcaffe.network.files import PathLike, Weights
from azcaffe.network.netfile import check_names, load_net, phase_net, prune
from azcaffe.network.probe import probe_net
from azcaffe.network.runtime import caffe_folder
from azcaffe.network.shapes import NetShapes, Shape, infer_shapes
from azcaffe.network.spec import make_net_command

INPUT, VALUE, POLICY = "input_data", "output_value", "output_probas"
BATCH = 2  # boards that a net is checked and opened with: more than 1, so that the batch axis shows


@dataclass(frozen=True)
class ModelInfo:
    """A net prototxt that has been read and checked, as it runs in the TEST phase.

    Attributes:
        path: the file.
        height, width, channels: of the input planes.
        num_actions: size of the policy.
        layers: number of layers from the planes to value and policy.
        parameters: how many numbers those layers learn.
        params: layer name -> shapes of its learned blobs, in order; None where only Caffe knows, and it is not here.
        net: the whole file as NetParameter, all phases, in today's form.
    """

    path: str
    height: int
    width: int
    channels: int
    num_actions: int
    layers: int
    parameters: int
    params: dict[str, list[Shape] | None] = field(repr=False)
    net: Any = field(repr=False, compare=False)

    @cached_property
    def inference_text(self) -> str:
        """The prototxt that Caffe is given: only what value and policy depend on, :data:`BATCH` boards."""
        return proto.to_text(_inference_net(self.net, self.path))

    @cached_property
    def all_layers(self) -> frozenset[str]:
        """Names of the layers of every phase."""
        return frozenset(layer.name for layer in self.net.layer)


def read_model(path: PathLike, allow_python_layers: bool = False, net: Any = None) -> ModelInfo:
    """Read and check a net prototxt, without Caffe (only layers that this package does not know need it).

    `net`: what has been read from `path` already.

    Raises:
        ModelError: the file cannot be used as a net with input_data, output_value and output_probas.
    """
    source = str(path)
    if net is None:
        net = load_net(path, allow_python_layers)
    test = _inference_net(net, source)
    shapes = infer_shapes(test, source)
    if None in shapes.params.values() and caffe_folder() is not None:
        shapes = probed_shapes(probe_net(proto.to_text(test), proto.TEST, source))
    planes = shapes.blobs[INPUT]
    if planes is None or len(planes) != 4:
        raise ModelError(
            f"{source}: {INPUT} must have 4 axes (batch, planes, height, width), it has the shape {planes}"
        )
    value, policy = (_output_shape(shapes, name, source) for name in (VALUE, POLICY))
    if value[:1] != (BATCH,) or policy[:1] != (BATCH,):
        raise ModelError(f"{source}: the first axis of {VALUE} {value} and {POLICY} {policy} must be the batch")
    if prod(value[1:]) != 1:
        raise ModelError(f"{source}: {VALUE} has the shape {value}: it must be one number a board")
    check_names(test, set(shapes.params), source)
    return ModelInfo(
        source,
        planes[2],
        planes[3],
        planes[1],
        prod(policy[1:]),
        len(test.layer),
        shapes.parameters,
        shapes.params,
        net,
    )


def _inference_net(net: Any, source: str) -> Any:
    test = phase_net(net, proto.TEST)
    made = [top for layer in test.layer for top in layer.top]
    for blob in (INPUT, VALUE, POLICY):
        if blob not in made:
            raise ModelError(
                f"{source}: no layer makes {blob!r} in the TEST phase; its blobs are {', '.join(made[:12])} …"
            )
    prune(test, (VALUE, POLICY))
    sources = [layer for layer in test.layer if not layer.bottom]
    if not any(INPUT in layer.top for layer in sources):
        lost = [(layer.name, bottom) for layer in test.layer for bottom in layer.bottom if bottom not in made]
        why = f": layer {lost[0][0]!r} takes {lost[0][1]!r}, which no layer makes" if lost else ""
        raise ModelError(f"{source}: {VALUE} and {POLICY} do not depend on {INPUT}{why}")
    for layer in sources:
        if layer.type == "Input" and list(layer.top) != [INPUT]:
            prune_input(layer)
        elif layer.type != "Input":
            raise ModelError(f"{source}: layer {layer.name!r} ({layer.type}) is another input beside {INPUT}")
    for layer in test.layer:
        if layer.type == "Input":
            if list(layer.top) != [INPUT] or not len(layer.input_param.shape):
                raise ModelError(
                    f"{source}: {VALUE} and {POLICY} may depend on {INPUT} only, not on {', '.join(layer.top)}"
                )
            if len(layer.input_param.shape[0].dim):
                layer.input_param.shape[0].dim[0] = BATCH
    return test


def prune_input(layer: Any) -> None:
    """Leave only `input_data` of an Input layer that makes several blobs (an old `input:` header does)."""
    at = list(layer.top).index(INPUT) if INPUT in layer.top else -1
    shapes = [list(shape.dim) for shape in layer.input_param.shape]
    if at >= 0 and shapes:
        dims = shapes[at if len(shapes) > 1 else 0]
        del layer.top[:]
        del layer.input_param.shape[:]
        layer.top.append(INPUT)
        layer.input_param.shape.add().dim.extend(dims)


def _output_shape(shapes: NetShapes, name: str, source: str) -> Shape:
    shape = shapes.blobs[name]
    if shape is None:
        raise ModelError(f"{source}: {name} depends on layers that only Caffe can measure, and Caffe is not installed")
    return shape


def probed_shapes(report: dict[str, Any]) -> NetShapes:
    """What the throw-away process found."""
    blobs: dict[str, Shape | None] = {name: tuple(shape) for name, shape in report["blobs"].items()}
    return NetShapes(blobs, {name: [tuple(shape) for shape in shapes] for name, shapes in report["params"]})


def model_history(path: PathLike, encoding: str | None = None) -> int:
    """How many past boards a game must keep for the net in `path` (`Game.with_history`).

    Raises:
        ModelError: as :func:`read_model`.
        ConfigError: no encoding has its number of planes.
    """
    return Encoding.for_channels(read_model(path).channels, encoding).past


def choose_encoding(game: Game, model: ModelInfo, encoding: Encoding | None = None) -> Encoding:
    """The encoding in which `game` is shown to `model`, after checking that board and policy fit.

    Raises:
        ModelError: channels, height, width or the number of actions differ; gives both numbers and the make-net line
            that would fit.
        ConfigError: no encoding has that many planes, or the game keeps too few past boards.
    """
    own = encoding or Encoding.of_game(game)
    wanted = (*game.shape, game.num_actions)
    if own is None and wanted == (model.height, model.width, model.num_actions):
        own = Encoding.for_channels(model.channels)
    channels = own.channels if own is not None else model.channels
    differences = [
        f"{name} {have} in the net, {want} in the game"
        for name, have, want in (
            ("input planes", model.channels, channels),
            ("height", model.height, game.shape[0]),
            ("width", model.width, game.shape[1]),
            ("actions", model.num_actions, game.num_actions),
        )
        if have != want
    ]
    if differences:
        raise ModelError(
            f"{model.path} does not fit {game.name}: {'; '.join(differences)}. "
            f"A net that fits: {make_net_command(game, channels)}"
        )
    assert own is not None
    if own.kind != "game" and game.history < own.past:
        raise AzcaffeError(f"{model.path} sees {own.past} past boards: make the game with history={own.past}")
    return own


@dataclass(frozen=True)
class Mismatch:
    """A place where weights do not fit a net.

    Attributes:
        layer, blob: where; blob is the index in the layer, None for the whole layer.
        in_net, in_weights: shapes, None where there is none.
        remedy: what the user can do.
    """

    layer: str
    blob: int | None
    in_net: Shape | None
    in_weights: Shape | None
    remedy: str

    def __str__(self) -> str:
        place = f"layer {self.layer!r}" + (f", blob {self.blob}" if self.blob is not None else "")
        net = f"{self.in_net} in the net" if self.in_net is not None else "not in the net"
        weights = f"{self.in_weights} in the weights" if self.in_weights is not None else "not in the weights"
        return f"{place}: {net}, {weights}: {self.remedy}"


def compare_weights(model: ModelInfo, weights: Weights) -> list[Mismatch]:
    """Every place where `weights` do not fit `model`: shapes must be equal, an equal count is not enough."""
    keep, drop = "--allow-missing lets it keep its initial values", "take these weights' own net, or --allow-missing"
    found = []
    for name, shapes in model.params.items():
        if shapes is None:
            continue  # only Caffe, which is not here, knows what weights it has
        if name in weights:
            found += compare_layer(name, shapes, [blob.shape for blob in weights[name]])
        else:
            found.append(Mismatch(name, None, shapes[0], None, keep))
    for name, blobs in weights.items():
        if name not in model.all_layers:
            found.append(Mismatch(name, None, None, blobs[0].shape, drop))
    return found


def compare_layer(name: str, shapes: list[Shape], given: list[Shape]) -> list[Mismatch]:
    """The mismatches of one layer; old files pad shapes to 4 axes with leading ones."""
    found = []
    for index in range(max(len(shapes), len(given))):
        want = shapes[index] if index < len(shapes) else None
        have = given[index] if index < len(given) else None
        padded = (1,) * (4 - len(want)) + want if want is not None else None
        if have != want and have != padded:
            found.append(Mismatch(name, index, want, have, "take the prototxt these weights were trained with"))
    return found


def require_fit(model: ModelInfo, weights: Weights, source: str, allow_missing: bool = False) -> list[str]:
    """Refuse `weights` that do not fit `model`.

    Returns:
        With `allow_missing`: the layers that one side lacks; shapes must fit all the same.

    Raises:
        ModelError: tells the first mismatch and counts the others.
    """
    found = compare_weights(model, weights)
    serious = [one for one in found if one.blob is not None or not allow_missing]
    if serious:
        more = f" ({len(serious) - 1} more: azcaffe check {model.path} {source})" if len(serious) > 1 else ""
        raise ModelError(f"{source} does not fit {model.path}: {serious[0]}{more}")
    if model.params and not set(model.params) & set(weights):
        raise ModelError(f"{source} does not fit {model.path}: not one layer of it is in the net")
    return [one.layer for one in found]
