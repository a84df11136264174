# SPDX-License-Identifier: AGPL-3.0-or-later
"""Nets written by azcaffe: the published ones, and any other board."""

from __future__ import annotations

from pathlib import Path

import pytest

from azcaffe.cli.main import main
from azcaffe.errors import ConfigError
from azcaffe.games.registry import make_game
from azcaffe.network import NetSpec, build_net, make_net_command, proto, read_model
from azcaffe.network.netfile import phase_net
from azcaffe.network.shipped import shipped_files
from azcaffe.network.solverfile import read_solver
from azcaffe.network.spec import SolverSpec, solver_text

MODELS = Path(__file__).parents[2] / "models"


def test_models_holds_exactly_what_make_net_writes(tmp_path: Path) -> None:
    assert main(["make-net", "--shipped", str(tmp_path)]) == 0
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == shipped_files()
    assert written == {path.name: path.read_text() for path in MODELS.glob("*.prototxt") if path.name in written}


@pytest.mark.parametrize("blocks", [1, 2])
def test_the_published_caffemodels_hold_the_same_net(blocks: int, original_assets: Path) -> None:
    # Caffe stores the net it trained inside the caffemodel: it must be ours, Split layers and weights apart.
    path = original_assets / f"net_tic_tac_6_4_{blocks}_res_block.caffemodel"
    theirs = [
        layer for layer in proto.parse_binary("NetParameter", path.read_bytes(), "").layer if layer.type != "Split"
    ]
    ours = phase_net(build_net(NetSpec(6, 6, 36, blocks=blocks)), proto.TRAIN).layer
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        for field in ("blobs", "phase", "include", "bottom"):
            other.ClearField(field)
        mine.ClearField("bottom")
        if other.type == "Input":
            other.input_param.shape[0].dim[0] = 1  # they were saved at the batch size they trained with
        if other.name == "Cross_Entropy_Scale":
            other.scale_param.filler.value = 1  # 1/512 in one of them: it is set to 1/batch at run time
        other.scale_param.ClearField("bias_term")  # written out there, the default here
        if not other.scale_param.ListFields():
            other.ClearField("scale_param")
        if not mine.loss_weight:
            other.ClearField("loss_weight")  # 1 is the default of a loss layer
        assert proto.to_text(mine).replace("res2_relu1", "res1_relu1") == proto.to_text(other)


def test_the_published_solver_settings() -> None:
    solver = read_solver(MODELS / "solver_tic_tac_6_4.prototxt")
    message = solver.message
    assert (message.base_lr, message.momentum, message.gamma) == (pytest.approx(0.02), pytest.approx(0.9), 0.25)
    assert (message.lr_policy, message.stepsize, message.display, message.snapshot) == ("step", 12500, 250, 1000)
    assert (solver.kind, message.snapshot_prefix) == ("SGD", "net_tic_tac_6_4_2_res_block")
    assert solver.model == str(MODELS / "net_tic_tac_6_4_2_res_block.prototxt")


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("net_tic_tac_6_4_1_res_block", (6, 6, 3, 36, 97_481)),
        ("net_tic_tac_6_4_2_res_block", (6, 6, 3, 36, 171_337)),
        ("net_tic_tac_3_3_2_res_block", (3, 3, 3, 9, 39_472)),
        ("net_connect_6_7_4_2_res_block", (6, 7, 3, 7, 172_376)),
    ],
)
def test_shape_and_size_of_the_shipped_nets(name: str, shape: tuple[int, ...]) -> None:
    # By hand, 6x6, one block: 64*28 + 2*64*577 + (2*65 + 256*73 + 257) + (2*65 + 36*73) = 97,481;
    # 3x3, two of 32 channels: 32*28 + 4*32*289 + (2*33 + 64*19 + 65) + (2*33 + 9*19) = 39,472;
    # Connect 6x7, two: 64*28 + 4*64*577 + (2*65 + 256*85 + 257) + (2*65 + 7*85) = 172,376.
    info = read_model(MODELS / f"{name}.prototxt")
    assert (info.height, info.width, info.channels, info.num_actions, info.parameters) == shape


def test_batch_norm_file_follows_the_published_one() -> None:
    net = build_net(NetSpec(6, 6, 36, blocks=1, batch_norm=True))
    norms = [layer.name for layer in net.layer if layer.type == "BatchNorm"]
    assert norms == ["conv1_norm", "res1_conv1_norm", "res1_conv2_norm", "value_conv1_norm", "probas_conv1_norm"]
    scales = [layer.name for layer in net.layer if layer.type == "Scale" and layer.scale_param.bias_term]
    assert scales == [name.replace("_norm", "_scale") for name in norms]
    assert all(list(layer.bottom) == list(layer.top) for layer in net.layer if layer.type == "BatchNorm")
    assert all(layer.relu_param.negative_slope == 0 for layer in net.layer if layer.type == "ReLU")
    outputs = {layer.name: layer.convolution_param.num_output for layer in net.layer if layer.type == "Convolution"}
    assert (outputs["Value_conv1"], outputs["Probas_conv1"]) == (1, 2)


def test_make_net_writes_a_net_that_fits_and_its_solver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = tmp_path / "a folder" / "net_mine.prototxt"
    command = [
        "make-net",
        "--game",
        "connectn",
        "--board_width=5",
        "--board-height",
        "4",
        "--connect",
        "3",
        "--history",
        "4",
    ]
    assert main([*command, "--blocks", "3", "--channels", "16", "--batch-norm", "--output", str(net)]) == 0
    info = read_model(net)
    assert (info.height, info.width, info.channels, info.num_actions) == (4, 5, 9, 5)
    solver = read_solver(net.with_name("solver_mine.prototxt"))
    assert solver.model == str(net)
    assert capsys.readouterr().out.split("\n")[:2] == [str(net), str(net.with_name("solver_mine.prototxt"))]
    assert main([*command, "--output", str(net)]) == 2  # nothing is overwritten unasked
    assert "--force" in capsys.readouterr().err


def test_the_line_in_messages_writes_a_net_that_fits(tmp_path: Path) -> None:
    import shlex

    game = make_game("connectn", height=5, width=6, connect=4)
    for channels in (3, 17):
        words = shlex.split(make_net_command(game, channels))
        assert words[0] == "azcaffe"
        assert main([*words[1:-1], str(tmp_path / f"{channels}.prototxt")]) == 0
        info = read_model(tmp_path / f"{channels}.prototxt")
        assert (info.height, info.width, info.channels, info.num_actions) == (5, 6, channels, 6)


@pytest.mark.parametrize(
    ("field", "value"),
    [("blocks", -1), ("channels", 0), ("height", 65), ("num_actions", 0), ("channels_in", 0), ("relu_slope", 1.0)],
)
def test_sizes_outside_their_range(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=field):
        NetSpec(**{"height": 3, "width": 3, "num_actions": 9, field: value})  # type: ignore[arg-type]


def test_a_solver_of_another_type() -> None:
    text = solver_text(SolverSpec(type="Adam", momentum=0.9, weight_decay=1e-4), "x.prototxt")
    solver = proto.parse_text("SolverParameter", text, "")
    assert (solver.type, solver.net, solver.weight_decay) == ("Adam", "x.prototxt", pytest.approx(1e-4))
