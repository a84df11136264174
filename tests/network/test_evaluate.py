# SPDX-License-Identifier: AGPL-3.0-or-later
"""The net's answers: the published nets', at any batch size, and refusals of what does not fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from azcaffe.encoding import Encoding, encode
from azcaffe.errors import AzcaffeError
from azcaffe.games.base import Game, State, concatenate
from azcaffe.games.registry import make_game
from azcaffe.network import ModelError, NetEvaluator, NetSpec, model_history, save_weights, write_net

MODELS = Path(__file__).parents[2] / "models"
NETS = ["net_tic_tac_6_4_1_res_block", "net_tic_tac_6_4_2_res_block"]


def position(game: Game, moves: list[int]) -> State:
    state = game.initial(1)
    for move in moves:
        state = game.play(state, np.array([move]))
    return state


@pytest.fixture(scope="module")
def six() -> Game:
    return make_game("tictactoe", height=6, width=6, connect=4)


@pytest.mark.parametrize("net", NETS)
def test_value_and_priors_of_the_published_nets(net: str, six: Game, original_assets: Path, golden: Path) -> None:
    evaluate = NetEvaluator(six, MODELS / f"{net}.prototxt", original_assets / f"{net}.caffemodel")
    rows = [json.loads(line) for line in (golden / "ticfour_6x6.jsonl").read_text().splitlines()]
    assert len(rows) == 40
    for row in rows:
        state, expected = position(six, row["moves"]), row["nets"][net]
        priors, values = evaluate(state, np.zeros(1, int))
        masked = np.where(six.legal(state), priors, 0)[0]
        masked /= masked.sum()
        assert values[0] == pytest.approx(expected["value"], abs=1e-4)
        for action, prior in expected["priors"].items():
            assert masked[int(action)] == pytest.approx(prior, abs=1e-4)


@pytest.mark.parametrize("net", NETS)
def test_values_of_the_published_nets_in_one_batch(net: str, six: Game, original_assets: Path, golden: Path) -> None:
    evaluate = NetEvaluator(six, MODELS / f"{net}.prototxt", original_assets / f"{net}.caffemodel")
    rows = [json.loads(line) for line in (golden / "ticfour_6x6.jsonl").read_text().splitlines()]
    states = concatenate([position(six, row["moves"]) for row in rows])
    _, values = evaluate(states, np.arange(len(rows)))
    np.testing.assert_allclose(values, [row["nets"][net]["value"] for row in rows], rtol=0, atol=1e-5)


def test_alone_beside_others_and_in_chunks(six: Game) -> None:
    evaluate = NetEvaluator(six, MODELS / f"{NETS[1]}.prototxt")
    rng = np.random.default_rng(0)
    planes = rng.integers(0, 2, (1500, 3, 6, 6)).astype(np.float32)
    evaluate._largest = 400
    priors, values = evaluate.forward(planes)
    for row in (0, 399, 400, 1499):
        alone = evaluate.forward(planes[row : row + 1])
        np.testing.assert_allclose(priors[row], alone[0][0], atol=1e-5)
        np.testing.assert_allclose(values[row], alone[1][0], atol=1e-5)
    states = six.initial(900)
    by_state, _ = evaluate(states, np.arange(900))
    by_planes, _ = evaluate.forward(encode(six, states, evaluate.encoding))
    np.testing.assert_array_equal(by_state, by_planes)
    assert [array.shape for array in evaluate(six.initial(1).take(np.zeros(0, int)), np.zeros(0, int))] == [
        (0, 36),
        (0,),
    ]


def test_batches_of_many_sizes_in_turn_are_answered_as_by_a_net_that_knows_one_size(six: Game, tmp_path: Path) -> None:
    """Views of the net's memory are kept between calls; a reshape moves it."""
    model = write_net(NetSpec(6, 6, 36, blocks=1, channels=8, head_channels=2), tmp_path / "net.prototxt")
    text = model.read_text()
    flat = tmp_path / "flat.prototxt"  # outputs that are another blob's memory, handed over in the forward itself
    flat.write_text(
        text.replace('"output_probas"', '"inner_probas"').replace('"output_value"', '"inner_value"')
        + 'layer { name: "f1" type: "Flatten" bottom: "inner_probas" top: "output_probas" }\n'
        + 'layer { name: "f2" type: "Flatten" bottom: "inner_value" top: "output_value" }\n'
    )
    rng = np.random.default_rng(0)
    planes = rng.integers(0, 2, (300, 3, 6, 6)).astype(np.float32)
    for path in (model, flat):
        one, other = NetEvaluator(six, path), NetEvaluator(six, path)
        other.set_weights(one.weights())
        expected = other.forward(planes)
        for size in (1, 1, 7, 7, 300, 300, 2, 2, 64, 1, 1, 300):
            for found, wanted in zip(one.forward(planes[:size]), expected):
                np.testing.assert_allclose(found, wanted[:size], atol=1e-5)


def test_bare_forwards_repeat_the_last_forward(six: Game) -> None:
    evaluate = NetEvaluator(six, MODELS / f"{NETS[0]}.prototxt")
    priors, values = evaluate(six.initial(5), np.arange(5))
    assert evaluate.bare_forwards(5, 3) == 15
    np.testing.assert_array_equal(evaluate._policy.data.reshape(5, -1), priors)
    np.testing.assert_array_equal(evaluate._value.data.reshape(5), values)


def test_results_are_copies(six: Game) -> None:
    evaluate = NetEvaluator(six, MODELS / f"{NETS[0]}.prototxt")
    first = evaluate.forward(np.zeros((2, 3, 6, 6), np.float32))
    kept = [array.copy() for array in first]
    evaluate.forward(np.ones((2, 3, 6, 6), np.float32))
    for array, copy in zip(first, kept):
        np.testing.assert_array_equal(array, copy)


def test_refreshed_weights(six: Game) -> None:
    model = MODELS / f"{NETS[0]}.prototxt"
    one, other = NetEvaluator(six, model), NetEvaluator(six, model)
    planes = np.random.default_rng(0).integers(0, 2, (4, 3, 6, 6)).astype(np.float32)
    assert not np.array_equal(one.forward(planes)[0], other.forward(planes)[0])  # both start at random
    other.set_weights({**one.weights(), "Cross_Entropy_Scale": [np.float32([1])]})
    np.testing.assert_array_equal(one.forward(planes)[0], other.forward(planes)[0])
    assert (one.generation, other.generation) == (0, 1)
    before = other.weights()
    for wrong in ({}, {**before, "conv1": [np.zeros((64, 3, 3, 3), np.float32)]}):
        with pytest.raises(ModelError, match="conv1"):
            other.set_weights(wrong)
    assert other.generation == 1
    np.testing.assert_array_equal(other.weights()["conv1"][0], before["conv1"][0])


@pytest.mark.parametrize(
    ("game", "texts"),
    [
        (
            make_game("tictactoe", height=3, width=3, connect=3),
            ["height 6 in the net, 3 in the game", "actions 36 in the net, 9"],
        ),
        (make_game("connectn", height=6, width=6, connect=4), ["actions 36 in the net, 6 in the game"]),
        (make_game("tictactoe", height=6, width=7, connect=4), ["width 6 in the net, 7 in the game"]),
    ],
)
def test_another_board_is_refused_with_the_line_that_helps(game: Game, texts: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        NetEvaluator(game, MODELS / f"{NETS[0]}.prototxt")
    for text in [*texts, f'azcaffe make-net --game "{game.name}"']:
        assert text in str(caught.value)


def test_channels_say_the_encoding(six: Game, tmp_path: Path) -> None:
    model = write_net(NetSpec(6, 6, 36, channels_in=9, blocks=1, channels=8), tmp_path / "net.prototxt")
    assert model_history(model) == 3  # 9 = 2 * 4 + 1: four positions, three of them past
    with pytest.raises(AzcaffeError, match="history=3"):
        NetEvaluator(six, model)
    evaluate = NetEvaluator(six.with_history(3), model)
    assert evaluate.encoding == Encoding("relative", 4)
    with pytest.raises(ModelError, match=r"input planes 9 in the net, 3 in the game.*make-net"):
        NetEvaluator(six, model, encoding=Encoding("absolute"))


def test_weights_without_a_layer(six: Game, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A net that gained BatchNorm layers: the old weights, with --allow-missing, and what is missing is listed."""
    old = write_net(NetSpec(6, 6, 36, blocks=1, channels=8, head_channels=2), tmp_path / "old.prototxt")
    new = write_net(
        NetSpec(6, 6, 36, blocks=1, channels=8, head_channels=2, batch_norm=True), tmp_path / "new.prototxt"
    )
    weights = save_weights(tmp_path / "old.caffemodel", NetEvaluator(six, old).weights())
    with pytest.raises(ModelError, match=r"conv1_norm.*--allow-missing"):
        NetEvaluator(six, new, weights)
    evaluate = NetEvaluator(six, new, weights, allow_missing=True)
    assert "conv1_norm" in evaluate.missing and "probas_conv1_scale" in evaluate.missing
    assert "conv1_norm" in capfd.readouterr().err
    priors, values = evaluate.forward(np.zeros((1, 3, 6, 6), np.float32))
    assert np.isfinite(priors).all() and np.isfinite(values).all()


def test_no_gpu_in_a_cpu_build(six: Game) -> None:
    with pytest.raises(AzcaffeError, match=r"--gpu 0 is not possible: this Caffe is built for the CPU only"):
        NetEvaluator(six, MODELS / f"{NETS[0]}.prototxt", gpu=0)


def test_wrong_planes(six: Game) -> None:
    with pytest.raises(ModelError, match=r"\(batch, 3, 6, 6\), not \(1, 3, 6, 7\)"):
        NetEvaluator(six, MODELS / f"{NETS[0]}.prototxt").forward(np.zeros((1, 3, 6, 7), np.float32))


def test_caffe_is_quiet_unless_asked(tmp_path: Path) -> None:
    program = (
        "import numpy as np; from azcaffe.games.registry import make_game; from azcaffe.network import *; import sys;"
        "prepare_environment(verbose=len(sys.argv) > 1);"
        "game = make_game('tictactoe', height=6, width=6, connect=4);"
        f"e = NetEvaluator(game, {str(MODELS / NETS[0])!r} + '.prototxt');"
        "e.forward(np.zeros((1, 3, 6, 6), np.float32))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GLOG_")}
    for words, talks in (([], False), (["verbose"], True)):
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout == "" and ("Creating layer" in done.stderr) == talks
        assert talks or done.stderr == ""
