# SPDX-License-Identifier: AGPL-3.0-or-later
# ruff: noqa: E501 (cases read best on one line)
"""Files that are not what they should be: each is refused with a message that says what is wrong, and nothing dies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from azcaffe.games.base import Game
from azcaffe.games.registry import make_game
from azcaffe.network import (
    ModelError,
    NetEvaluator,
    NetSpec,
    Solver,
    SolverSpec,
    load_weights,
    proto,
    read_model,
    save_weights,
    write_net,
    write_solver,
)
from azcaffe.network.model import require_fit
from azcaffe.network.spec import net_text

SMALL = NetSpec(3, 3, 9, blocks=1, channels=4, value_units=8)
TEXT = net_text(SMALL)


@pytest.fixture(scope="module")
def game() -> Game:
    return make_game("tictactoe", height=3, width=3, connect=3)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, game: Game) -> Path:
    """A folder with net.prototxt and net.caffemodel that fit."""
    folder = tmp_path_factory.mktemp("good")
    write_net(SMALL, folder / "net.prototxt")
    save_weights(folder / "net.caffemodel", NetEvaluator(game, folder / "net.prototxt").weights())
    return folder


def replaced(old: str, new: str, count: int = -1) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, count)


def without_layer(name: str) -> str:
    parts = TEXT.split("layer {")
    kept = [part for part in parts if f'name: "{name}"' not in part]
    assert len(kept) == len(parts) - 1
    return "layer {".join(kept)


def extra(layer: str) -> str:
    return TEXT + "layer { " + layer + " }\n"


NETS: dict[str, tuple[str, str]] = {
    # R01: a bottom that does not exist, and a type that does not.
    "unknown bottom": (replaced('bottom: "conv1"', 'bottom: "conv7"', 1), r"'conv1_relu'.*'conv7' is no blob.*known: input_data, conv1"),
    "unknown type": (replaced('"Convolution"', '"Convolutoin"'), r"unknown type 'Convolutoin', did you mean Convolution\?"),
    "no type": (replaced('  type: "Convolution"\n', "", 1), "layer 'conv1': has no type"),
    "no input_data": (TEXT.replace("input_data", "planes"), "no layer makes 'input_data'"),
    "no output_value": (TEXT.replace("output_value", "worth"), "no layer makes 'output_value'"),
    "no output_probas": (TEXT.replace('"output_probas"', '"policy"'), "no layer makes 'output_probas'"),
    "outputs without the planes": (
        replaced('bottom: "input_data"', 'bottom: "other"').replace(
            "layer {", 'layer { name: "o" type: "Input" top: "other" input_param { shape { dim: 1 dim: 3 dim: 3 dim: 3 } } }\nlayer {', 1
        ),
        "do not depend on input_data",
    ),
    "a made-up input": (
        replaced('bottom: "input_data"', 'bottom: "other"').replace(
            "layer {", 'layer { name: "o" type: "DummyData" top: "other" dummy_data_param { shape { dim: 1 dim: 3 dim: 3 dim: 3 } } }\nlayer {', 1
        ),
        "another input|do not depend on input_data",
    ),
    "two axes of planes": (replaced("      dim: 3\n      dim: 3\n      dim: 3\n", "      dim: 27\n"), "4 axes|axis|axes"),
    "value of two numbers": (replaced("num_output: 1\n", "num_output: 2\n"), "output_value.*one number a board"),
    "batch lost": (
        extra('name: "r" type: "Reduction" bottom: "output_value" top: "sum"').replace('"output_value"', '"v"').replace('"sum"', '"output_value"'),
        "first axis|the batch",
    ),
    "fields Caffe does not know": (replaced("num_output: 4", "num_outputs: 4", 1), r"no field named \"num_outputs\""),
    "wrong nesting": (TEXT[: TEXT.rindex("}")], "not a valid net"),
    "no number": (replaced("num_output: 4", "num_output: four", 1), "integer"),
    "negative kernel": (replaced("kernel_size: 3", "kernel_size: -3", 1), "-3|integer|range"),
    "kernel of 0": (replaced("kernel_size: 3", "kernel_size: 0", 1), "kernel .*must be 1 or more"),
    "kernel larger than the board": (replaced("kernel_size: 3", "kernel_size: 30", 1), "a kernel of 30 does not fit 3 squares"),
    "stride of 0": (replaced("stride: 1", "stride: 0", 1), "stride .*must be 1 or more"),
    "2^31 outputs": (replaced("num_output: 4", "num_output: 2147483648", 1), "at most 32 axes and 268,435,456 numbers"),
    "2^31 squares": (replaced("dim: 3", "dim: 2147483647", 1), "numbers can be"),
    "more than an int": (replaced("dim: 3", "dim: 99999999999999999999", 1), "range|integer|Value out of"),
    "huge padding": (replaced("pad: 1", "pad: 4000000000", 1), "numbers can be|pad"),
    "negative board": (replaced("dim: 3", "dim: -3", 1), "shape"),
    "empty board": (replaced("dim: 3", "dim: 0", 2), "empty|shape"),
    "groups that do not divide": (replaced("stride: 1", "stride: 1 group: 3", 2), "do not divide"),
    "sum of unlike shapes": (replaced("num_output: 4", "num_output: 5", 1), "'res1_sum'.*one shape"),
    "no kernel": (replaced("    kernel_size: 3\n", "", 1), "kernel_size is missing"),
    "a name for two layers with weights": (replaced('name: "res1_conv2"', 'name: "res1_conv1"'), "2 layers are called 'res1_conv1'"),
    "a blob made twice": (replaced('layer {\n  name: "Value_conv1"', 'layer { name: "again" type: "TanH" bottom: "conv1" top: "res1" }\nlayer {\n  name: "Value_conv1"'), "'again'.*'res1' is already made"),
    "mixed styles": (TEXT + 'layers { name: "x" type: RELU bottom: "conv1" top: "conv1" }\n', "mixes 1 old-style `layers {}` with"),
    "Caffe's oldest format": ('layers { layer { name: "x" type: "relu" } bottom: "a" top: "a" }\n', "layers nested in layers"),
    "Python": (extra('name: "evil" type: "Python" bottom: "conv1" top: "e" python_param { module: "os" layer: "system" }'), "'evil': Python layers run code; --allow-python-layers"),
    "a layer that writes a file": (extra('name: "w" type: "HDF5Output" bottom: "conv1" bottom: "conv1" hdf5_output_param { file_name: "/tmp/x" }'), "HDF5Output layers reach for other files"),
    "a layer that reads a file": (extra('name: "d" type: "Data" top: "d" data_param { source: "/" }'), "Data layers reach for other files"),
    "weights in the prototxt": (replaced('  type: "Convolution"\n', '  type: "Convolution"\n  blobs { data: 1 }\n', 1), "holds weights"),
    "include and exclude": (replaced('  type: "Convolution"\n', '  type: "Convolution"\n  include { phase: TEST } exclude { phase: TRAIN }\n', 1), "both include and exclude"),
    "axis outside": (replaced('type: "Softmax"\n', 'type: "Softmax"\n softmax_param { axis: 5 }\n'), "axis 5 is outside"),
    "nesting without end": ("layer { convolution_param " + "{ weight_filler " * 5000, "not a valid net"),
    "a comment and nothing else": ("# a net\n", "no layers|text file"),
    "10,000 layers": (TEXT + 'layer{name:"x" type:"ReLU" bottom:"conv1" top:"conv1"}\n' * 10_000, r"\d+ layers, 4000 is the limit"),
    "50 MB": (TEXT + "# fill\n" * 7_200_000, r"has 50,\d+,\d+ bytes, a net prototxt may have 1,000,000"),
    # What only Caffe itself finds: its own message arrives, from the throw-away process.
    "found by Caffe: filler": (replaced('type: "gaussian"', 'type: "gausian"', 1), "Caffe refuses it: .*Unknown filler"),
    "found by Caffe: slice": (
        TEXT.replace('bottom: "input_data"', 'bottom: "s1"').replace("layer {\n  name: \"conv1\"", 'layer { name: "cut" type: "Slice" bottom: "input_data" top: "s1" top: "s2" slice_param { slice_point: 9 } }\nlayer {\n  name: "conv1"'),
        "Caffe refuses it",
    ),
    "found by Caffe: shared weights": (
        replaced('  type: "Convolution"\n', '  type: "Convolution"\n  param { name: "same" }\n'),
        "Caffe refuses it: .*Cannot share param",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NETS)
def test_nets_that_cannot_be(case: str, game: Game, tmp_path: Path) -> None:
    text, message = NETS[case]
    path = tmp_path / "bad.prototxt"
    path.write_text(text, encoding="utf-8")
    started = time.monotonic()
    with pytest.raises(ModelError, match=message) as caught:
        NetEvaluator(game, path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    assert time.monotonic() - started < 5


def test_python_layers_that_the_user_allows(game: Game, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "azcaffe_test_layer.py").write_text(
        "import caffe\n"
        "class Half(caffe.Layer):\n"
        "    def setup(self, bottom, top): pass\n"
        "    def reshape(self, bottom, top): top[0].reshape(*bottom[0].shape)\n"
        "    def forward(self, bottom, top): top[0].data[...] = bottom[0].data / 2\n"
        "    def backward(self, top, propagate_down, bottom): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    layer = 'layer { name: "h" type: "Python" bottom: "raw" top: "output_value" python_param { module: "%s" layer: "Half" } }'
    text = TEXT.replace('"output_value"', '"raw"')
    path, weights = tmp_path / "net.prototxt", tmp_path / "w.caffemodel"
    for name, message in (
        ("azcaffe_no_such_module", "No module named 'azcaffe_no_such_module'"),
        ("os", "attribute 'Half'"),
    ):
        path.write_text(text + layer % name)
        with pytest.raises(ModelError, match=message):
            NetEvaluator(game, path, allow_python_layers=True)
    path.write_text(text + layer % "azcaffe_test_layer")
    with pytest.raises(ModelError, match="Python layers run code"):
        NetEvaluator(game, path)
    with_half = NetEvaluator(game, path, allow_python_layers=True)
    save_weights(weights, with_half.weights())
    path.write_text(TEXT)
    planes = np.random.default_rng(0).integers(0, 2, (4, 3, 3, 3)).astype(np.float32)
    np.testing.assert_allclose(
        2 * with_half.forward(planes)[1], NetEvaluator(game, path, weights).forward(planes)[1], rtol=1e-5
    )


def text_file(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(content) and None


OTHER_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "no such file"),
    "a folder": (lambda path: path.mkdir(), "is a folder"),
    "empty": (lambda path: path.touch(), r"is empty \(0 bytes\)"),
    "a pipe": (lambda path: os.mkfifo(path), "is not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    "a link to nowhere": (lambda path: path.symlink_to(path.with_name("gone")), "no such file"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read: .*symbolic links"),
    "html": (text_file("<!DOCTYPE html><html><body>404</body></html>"), "looks like an HTML page"),
    "prose": (text_file("Dear reader,\nhow are you?\n"), "text file of another kind|not a valid net"),
    "HDF5": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100)), "HDF5"),
    "random bytes": (lambda path: path.write_bytes(np.random.default_rng(0).bytes(10_000)), "binary file of another kind|damaged"),
    "zeros": (lambda path: path.write_bytes(bytes(1000)), "binary file of another kind|damaged"),
}  # fmt: skip


@pytest.mark.parametrize("wanted", ["net", "caffemodel"])
@pytest.mark.parametrize("case", OTHER_FILES)
def test_files_of_another_kind(case: str, wanted: str, game: Game, good: Path, tmp_path: Path) -> None:
    make, message = OTHER_FILES[case]
    path = tmp_path / "file"
    make(path)
    with pytest.raises(ModelError, match=message) as caught:
        if wanted == "net":
            NetEvaluator(game, path)
        else:
            NetEvaluator(game, good / "net.prototxt", path)
    assert str(path) in str(caught.value)


@pytest.fixture
def unreadable(tmp_path: Path) -> Iterator[Path]:
    """A file that may not be read. Root may read everything: be nobody for the test."""
    path = tmp_path / "net.prototxt"
    path.write_text("layer { }")
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield path
    if root:
        os.seteuid(0)


def test_unreadable_file(unreadable: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read_model(unreadable)
    with pytest.raises(ModelError, match="cannot be read"):
        read_model("a\0b")


def test_swapped_files(game: Game, good: Path) -> None:
    with pytest.raises(ModelError, match=r"net\.caffemodel: looks like a caffemodel .*, a net prototxt is wanted"):
        NetEvaluator(game, good / "net.caffemodel", good / "net.prototxt")
    with pytest.raises(ModelError, match=r"net\.prototxt: looks like a net prototxt, a caffemodel .* is wanted"):
        NetEvaluator(game, good / "net.prototxt", good / "net.prototxt")


def test_a_missing_file_is_told_with_its_full_path_and_the_nearest_name(
    game: Game, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(good)
    with pytest.raises(ModelError) as caught:
        NetEvaluator(game, "nett.prototxt")
    assert str(caught.value) == f"{good}/nett.prototxt: no such file; did you mean net.prototxt?"


def test_caffemodels_cut_at_every_1000th_byte(original_assets: Path, tmp_path: Path) -> None:
    # R07: a cut at a message boundary may still parse, so every learnable layer must have its blobs.
    model = read_model(write_net(NetSpec(6, 6, 36, blocks=1), tmp_path / "net.prototxt"))
    data = (original_assets / "net_tic_tac_6_4_1_res_block.caffemodel").read_bytes()
    path = tmp_path / "cut.caffemodel"
    for size in range(0, len(data), 1000):
        path.write_bytes(data[:size])
        with pytest.raises(ModelError, match=r"cut\.caffemodel"):
            require_fit(model, load_weights(path), str(path))
    half = proto.parse_binary("NetParameter", data, "")
    del half.layer[len(half.layer) // 3 :]
    path.write_bytes(proto.to_bytes(half))
    with pytest.raises(ModelError, match=r"layer '\w+': \(.*\) in the net, not in the weights"):
        require_fit(model, load_weights(path), str(path))


def changed(good: Path, path: Path, change: Callable[[dict[str, list[np.ndarray]]], object]) -> Path:
    weights = load_weights(good / "net.caffemodel")
    change(weights)
    return save_weights(path, weights)


# Every kind of layer with weights; equal counts in other shapes are wrong too (R02).
SHAPES: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "convolution outputs": ("conv1", 0, (5, 3, 3, 3)),
    "convolution, same count": ("conv1", 0, (3, 4, 3, 3)),
    "convolution bias": ("conv1", 1, (5,)),
    "inner product": ("Probas_Output", 0, (16, 18)),
    "inner product, same count": ("Probas_Output", 0, (18, 9)),
    "inner product bias": ("Value_fc1", 1, (4,)),
    "one axis more": ("Value_fc1", 1, (8, 1)),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes_that_differ(case: str, game: Game, good: Path, tmp_path: Path) -> None:
    layer, blob, shape = SHAPES[case]
    have = load_weights(good / "net.caffemodel")[layer][blob].shape
    path = changed(good, tmp_path / "w.caffemodel", lambda w: w[layer].__setitem__(blob, np.zeros(shape, np.float32)))
    for allow in (False, True):
        with pytest.raises(ModelError) as caught:
            NetEvaluator(game, good / "net.prototxt", path, allow_missing=allow)
        assert f"layer '{layer}', blob {blob}: {have} in the net, {shape} in the weights" in str(caught.value)


@pytest.mark.parametrize("layer", ["conv1_norm", "conv1_scale"])
def test_shapes_of_batch_norm_and_scale(layer: str, game: Game, tmp_path: Path) -> None:
    model = write_net(NetSpec(3, 3, 9, blocks=1, channels=4, batch_norm=True), tmp_path / "net.prototxt")
    weights = NetEvaluator(game, model).weights()
    weights[layer][0] = np.ones(5, np.float32)
    with pytest.raises(ModelError, match=rf"layer '{layer}', blob 0: \(4,\) in the net, \(5,\) in the weights"):
        NetEvaluator(game, model, save_weights(tmp_path / "w.caffemodel", weights))
    del weights[layer][0]
    with pytest.raises(ModelError, match=rf"layer '{layer}', blob \d: .* in the net, .* the weights"):
        NetEvaluator(game, model, save_weights(tmp_path / "w.caffemodel", weights))


def test_weights_of_another_board(tmp_path: Path) -> None:
    # R02: 3x3 weights in a 4x4 net; 6x7 in 7x6, both 42 squares, policy 7 against 6.
    for first, second, layer in (
        ((3, 3, 9), (4, 4, 16), "Value_fc1"),
        ((6, 7, 7), (7, 6, 6), "Probas_Output"),
    ):
        nets = [
            write_net(NetSpec(*size, blocks=1, channels=4), tmp_path / f"{size}.prototxt") for size in (first, second)
        ]
        games = [
            make_game("tictactoe", height=a, width=b, connect=3)
            if a == b
            else make_game("connectn", height=a, width=b, connect=4)
            for a, b, _ in (first, second)
        ]
        weights = save_weights(tmp_path / "w.caffemodel", NetEvaluator(games[0], nets[0]).weights())
        with pytest.raises(
            ModelError, match=rf"layer '{layer}', blob 0: \(\d+, \d+\) in the net, \(\d+, \d+\) in the weights"
        ):
            NetEvaluator(games[1], nets[1], weights)


def test_weights_with_layers_that_the_net_lacks(game: Game, good: Path, tmp_path: Path) -> None:
    path = changed(good, tmp_path / "w.caffemodel", lambda w: w.update(res2_conv1=[np.zeros((4, 4, 3, 3), np.float32)]))
    with pytest.raises(ModelError, match=r"layer 'res2_conv1': not in the net, \(4, 4, 3, 3\) in the weights"):
        NetEvaluator(game, good / "net.prototxt", path)
    assert NetEvaluator(game, good / "net.prototxt", path, allow_missing=True).missing == ["res2_conv1"]
    strange = save_weights(path, {"other": [np.zeros(3, np.float32)]})
    with pytest.raises(ModelError, match="not one layer of it is in the net"):
        NetEvaluator(game, good / "net.prototxt", strange, allow_missing=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite(bad: float, game: Game, good: Path, tmp_path: Path) -> None:
    net = proto.parse_binary("NetParameter", (good / "net.caffemodel").read_bytes(), "")
    net.layer[0].blobs[0].data[5] = bad
    path = tmp_path / "w.caffemodel"
    path.write_bytes(proto.to_bytes(net))
    with pytest.raises(ModelError, match=r"layer 'conv1', blob 0: 1 of 108 numbers are not finite"):
        NetEvaluator(game, good / "net.prototxt", path)
    with pytest.raises(ModelError, match="not finite"):
        save_weights(path, {"a": [np.float32([bad])]})


def test_a_blob_that_does_not_fill_its_shape(game: Game, good: Path, tmp_path: Path) -> None:
    net = proto.parse_binary("NetParameter", (good / "net.caffemodel").read_bytes(), "")
    del net.layer[0].blobs[0].data[100:]
    path = tmp_path / "w.caffemodel"
    path.write_bytes(proto.to_bytes(net))
    with pytest.raises(ModelError, match=r"100 numbers do not fill the shape \(4, 3, 3, 3\)"):
        NetEvaluator(game, good / "net.prototxt", path)
    net.layer[0].blobs[0].shape.dim[:] = [2**62, 2**62, 2**62, 2**62]
    path.write_bytes(proto.to_bytes(net))
    with pytest.raises(ModelError, match="do not fill the shape"):
        load_weights(path)


def test_a_loss_for_each_board_is_no_loss(game: Game, tmp_path: Path) -> None:
    # With one board its shape (1,) would pass for one number.
    path = tmp_path / "net.prototxt"
    path.write_text(
        replaced("    axis: 0\n  }\n}\n", "    axis: 1\n  }\n}\n").replace(
            "axis: 1\n    num_axes: 0", "axis: 0\n    num_axes: 0"
        )
    )
    solver = write_solver(SolverSpec(), tmp_path / "solver.prototxt", path)
    with pytest.raises(ModelError, match=r"probas_loss has the shape \(2,\), it must be one number|axis 1 is outside"):
        Solver(solver, game, batch_size=1)


def test_a_value_that_stays_behind_when_the_batch_grows(game: Game, tmp_path: Path) -> None:
    cut = 'layer { name: "cut" type: "Slice" bottom: "raw" top: "output_value" top: "rest" slice_param { axis: 0 slice_point: 1 } }'
    path = tmp_path / "net.prototxt"
    path.write_text(TEXT.replace('"output_value"', '"raw"') + cut)
    with pytest.raises(ModelError, match=r"the first axis of output_value \(1, 1\) .* must be the batch"):
        NetEvaluator(game, path)
