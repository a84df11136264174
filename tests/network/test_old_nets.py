# SPDX-License-Identifier: AGPL-3.0-or-later
# ruff: noqa: E501 (cases read best on one line)
"""Net files of other times and hands: V1 layers, `input:` headers, phase rules, duplicate names, unmarked training layers."""

from __future__ import annotations

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
    proto,
    read_model,
    save_weights,
    write_solver,
)
from azcaffe.network.spec import net_text

PLANES = np.random.default_rng(0).integers(0, 2, (3, 3, 3, 3)).astype(np.float32)
SHAPE = "{ dim: 1 dim: 3 dim: 3 dim: 3 }"

# One net, four ways to write it (R05 a, c, d; b mixes).
NEW_BODY = """
layer { name: "c" type: "Convolution" bottom: "input_data" top: "c" param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 2 kernel_size: 3 pad: 1 weight_filler { type: "gaussian" std: 0.5 } } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" relu_param { negative_slope: 0.1 } }
layer { name: "v" type: "InnerProduct" bottom: "c" top: "output_value"
  inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "p" type: "InnerProduct" bottom: "c" top: "p" inner_product_param { num_output: 9 weight_filler { type: "xavier" } } }
layer { name: "s" type: "Softmax" bottom: "p" top: "output_probas" }
"""
OLD_BODY = """
layers { name: "c" type: CONVOLUTION bottom: "input_data" top: "c" blobs_lr: 1 blobs_lr: 2
  convolution_param { num_output: 2 kernel_size: 3 pad: 1 weight_filler { type: "gaussian" std: 0.5 } } }
layers { name: "r" type: RELU bottom: "c" top: "c" relu_param { negative_slope: 0.1 } }
layers { name: "v" type: INNER_PRODUCT bottom: "c" top: "output_value"
  inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layers { name: "p" type: INNER_PRODUCT bottom: "c" top: "p" inner_product_param { num_output: 9 weight_filler { type: "xavier" } } }
layers { name: "s" type: SOFTMAX bottom: "p" top: "output_probas" }
"""
INPUT_LAYER = f'layer {{ name: "in" type: "Input" top: "input_data" input_param {{ shape {SHAPE} }} }}\n'
DIMS = 'input: "input_data"\ninput_dim: 1\ninput_dim: 3\ninput_dim: 3\ninput_dim: 3\n'
STYLES = {
    "old layers, input_dim": DIMS + OLD_BODY,
    "new layers, Input": INPUT_LAYER + NEW_BODY,
    "new layers, input_dim": DIMS + NEW_BODY,
    "new layers, input_shape": f'input: "input_data" input_shape {SHAPE}\n' + NEW_BODY,
    "labels in the header": f'input: "label_value" input_shape {{ dim: 1 dim: 1 }} input: "input_data" input_shape {SHAPE}\n'
    + NEW_BODY,
}


@pytest.fixture(scope="module")
def game() -> Game:
    return make_game("tictactoe", height=3, width=3, connect=3)


def test_every_style_is_the_same_net(game: Game, tmp_path: Path) -> None:
    weights = None
    answers = []
    for name, text in STYLES.items():
        path = tmp_path / f"{name}.prototxt"
        path.write_text(text)
        if weights is None:
            weights = save_weights(tmp_path / "w.caffemodel", NetEvaluator(game, path).weights())
        info = read_model(path)
        assert (info.height, info.width, info.channels, info.num_actions, info.parameters) == (
            3,
            3,
            3,
            9,
            56 + 19 + 171,
        )
        answers.append(NetEvaluator(game, path, weights).forward(PLANES))
    for priors, values in answers[1:]:
        np.testing.assert_array_equal(priors, answers[0][0])
        np.testing.assert_array_equal(values, answers[0][1])


def test_caffes_own_upgrade_agrees(game: Game, tmp_path: Path) -> None:
    import caffe

    path = tmp_path / "old.prototxt"
    path.write_text(STYLES["old layers, input_dim"])
    evaluate = NetEvaluator(game, path)
    net = caffe.Net(str(path), caffe.TEST)
    for name, blobs in evaluate.weights().items():
        for blob, array in zip(net.params[name], blobs):
            blob.data[...] = array
    net.blobs["input_data"].reshape(3, 3, 3, 3)
    net.blobs["input_data"].data[...] = PLANES
    net.forward()
    np.testing.assert_allclose(evaluate.forward(PLANES)[0], net.blobs["output_probas"].data, rtol=1e-5)


def test_mixed_styles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mixed.prototxt"
    path.write_text(DIMS + OLD_BODY.replace('layers { name: "r" type: RELU', 'layer { name: "r" type: "ReLU"'))
    with pytest.raises(ModelError, match=r"mixes 4 old-style `layers \{\}` with 1 `layer \{\}`"):
        read_model(path)


def test_every_old_type_has_its_modern_name() -> None:
    from azcaffe.network.netfile import LAYER_TYPES, normalise

    enum = proto.make("NetParameter").layers.add().DESCRIPTOR.fields_by_name["type"].enum_type
    for value in enum.values:
        net = proto.make("NetParameter")
        net.layers.add(name="x", type=value.number, top=["y"])
        try:
            assert normalise(net, "").layer[0].type in LAYER_TYPES
        except ModelError as error:
            assert "has no type" in str(error) if value.name == "NONE" else "reach for other files" in str(error)


def test_old_weights_files(game: Game, tmp_path: Path) -> None:
    """V1 caffemodels hold `layers` whose blobs have four axes: a bias is (1, 1, 1, n)."""
    path = tmp_path / "net.prototxt"
    path.write_text(STYLES["new layers, Input"])
    evaluate = NetEvaluator(game, path)
    net = proto.make("NetParameter")
    for name, blobs in evaluate.weights().items():
        layer = net.layers.add(name=name)
        for array in blobs:
            blob = layer.blobs.add()
            blob.num, blob.channels, blob.height, blob.width = (1,) * (4 - array.ndim) + array.shape
            blob.data.extend(array.ravel().tolist())
    (tmp_path / "old.caffemodel").write_bytes(proto.to_bytes(net))
    again = NetEvaluator(game, path, tmp_path / "old.caffemodel")
    np.testing.assert_array_equal(again.forward(PLANES)[0], evaluate.forward(PLANES)[0])


def test_a_duplicate_name_without_weights_is_fine(game: Game, tmp_path: Path) -> None:
    # The published 2-block file calls two ReLU layers res1_relu1.
    spec = NetSpec(3, 3, 9, blocks=2, channels=4)
    path = tmp_path / "net.prototxt"
    path.write_text(net_text(spec))
    weights = save_weights(tmp_path / "w.caffemodel", NetEvaluator(game, path).weights())
    expected = NetEvaluator(game, path, weights).forward(PLANES)
    path.write_text(net_text(spec).replace('"res2_relu1"', '"res1_relu1"'))
    np.testing.assert_array_equal(NetEvaluator(game, path, weights).forward(PLANES)[0], expected[0])
    solver = Solver(write_solver(SolverSpec(), tmp_path / "solver.prototxt", path), game, batch_size=3, weights=weights)
    solver.step(PLANES, np.full((3, 9), 1 / 9, np.float32), np.zeros(3, np.float32))


def test_training_layers_without_a_phase_rule_are_left_out(game: Game, tmp_path: Path) -> None:
    text = net_text(NetSpec(3, 3, 9, blocks=1, channels=4))
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    layers = read_model(path).layers
    path.write_text(text.replace("  include {\n    phase: TRAIN\n  }\n", ""))
    assert read_model(path).layers == layers
    assert NetEvaluator(game, path).forward(PLANES)[1].shape == (3,)
    solver = Solver(write_solver(SolverSpec(), tmp_path / "solver.prototxt", path), game, batch_size=3, seed=0)
    solver.step(PLANES, np.full((3, 9), 1 / 9, np.float32), np.zeros(3, np.float32))


def test_phase_and_stage_rules() -> None:
    from azcaffe.network.netfile import phase_net

    net = proto.parse_text(
        "NetParameter",
        'layer { name: "always" type: "ReLU" } '
        'layer { name: "train" type: "ReLU" include { phase: TRAIN } } '
        'layer { name: "test" type: "ReLU" exclude { phase: TRAIN } } '
        'layer { name: "deep" type: "ReLU" include { min_level: 2 max_level: 3 } } '
        'layer { name: "staged" type: "ReLU" include { phase: TRAIN stage: "a" not_stage: "b" } }',
        "",
    )

    def names(phase: int, **state: object) -> list[str]:
        own = proto.make("NetParameter").state
        for field, value in state.items():
            own.stage.extend(value) if field == "stage" else setattr(own, field, value)  # type: ignore[arg-type]
        return [layer.name for layer in phase_net(net, phase, own).layer]

    assert names(proto.TEST) == ["always", "test"]
    assert names(proto.TRAIN) == ["always", "train"]
    assert names(proto.TRAIN, level=2) == ["always", "train", "deep"]
    assert names(proto.TRAIN, stage=["a"]) == ["always", "train", "staged"]
    assert names(proto.TRAIN, stage=["a", "b"]) == ["always", "train"]


def test_layers_only_caffe_knows_are_measured_by_caffe(
    game: Game, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from azcaffe.network import model

    # Pooling is not in our own table of shapes; the throw-away process says what comes out.
    text = net_text(NetSpec(3, 3, 9, blocks=1, channels=4))
    pool = (
        'layer { name: "pool" type: "Pooling" bottom: "res1" top: "pool" pooling_param { kernel_size: 2 stride: 1 } }\n'
        'layer {\n  name: "Value_conv1"'
    )
    text = text.replace('layer {\n  name: "Value_conv1"', pool).replace(
        'bottom: "res1"\n  top: "value', 'bottom: "pool"\n  top: "value'
    )
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    assert read_model(path).params["Value_fc1"] == [(256, 8), (256,)]
    evaluate = NetEvaluator(game, path)
    assert evaluate.weights()["Value_fc1"][0].shape == (256, 2 * 2 * 2)
    weights = evaluate.weights()
    weights["Value_fc1"][0] = np.zeros((256, 18), np.float32)
    with pytest.raises(
        ModelError, match=r"layer 'Value_fc1', blob 0: \(256, 8\) in the net, \(256, 18\) in the weights"
    ):
        NetEvaluator(game, path, save_weights(tmp_path / "w.caffemodel", weights))
    monkeypatch.setattr(model, "caffe_folder", lambda: None)
    with pytest.raises(ModelError, match="output_value depends on layers that only Caffe can measure"):
        read_model(path)
