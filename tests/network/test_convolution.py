# SPDX-License-Identifier: AGPL-3.0-or-later
"""One convolution layer of real Caffe, forward and both gradients, against NumPy in float64.

Our changes to Caffe take other ways for small boards and for many boards at once: these tests hold them all, and what
lies between them, to the same numbers. They pass with an unchanged Caffe too, but for the one about `engine`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azcaffe.network.runtime import load_caffe
from tests.helpers import numpy_net

NET = """
force_backward: true
layer {{ name: "in" type: "Input" top: "x" input_param {{ shape {{ dim: {n} dim: {c} dim: {h} dim: {w} }} }} }}
layer {{ name: "conv" type: "Convolution" bottom: "x" top: "y"
  convolution_param {{ num_output: {o} kernel_size: {k} pad: {p} bias_term: {bias} engine: {engine} }} }}
"""


def check(
    folder: Path, n: int, c: int, o: int, h: int, w: int, k: int = 3, bias: bool = True, again: int = 0,
    engine: str = "DEFAULT",
) -> np.ndarray:  # fmt: skip
    """Forward and backward of `n` boards, and of `again` after them on the same layer; the last outputs."""
    caffe = load_caffe()
    file = folder / "layer.prototxt"
    file.write_text(NET.format(n=n, c=c, o=o, h=h, w=w, k=k, p=k // 2, bias=str(bias).lower(), engine=engine))
    net = caffe.Net(str(file), caffe.TEST)
    rng = np.random.default_rng([n, c, o, h, w, k])
    weight, add = rng.normal(size=(o, c, k, k)), rng.normal(size=o) * bias
    for blob, values in zip(net.params["conv"], (weight, add)):
        blob.data[...] = values
    for count in (n, *[again] * bool(again)):
        x, dout = rng.normal(size=(count, c, h, w)), rng.normal(size=(count, o, h, w))
        net.blobs["x"].reshape(*x.shape)
        net.blobs["x"].data[...] = x
        net.forward()
        net.blobs["y"].diff[...] = dout
        for blob in net.params["conv"]:
            blob.diff[...] = 1  # gradients are added to what is there
        net.backward()
        expected, columns = numpy_net.conv(x, weight, add)
        gradients = numpy_net.conv_back(dout, columns, weight, x.shape)
        close(net.blobs["y"].data, expected)
        close(net.blobs["x"].diff, gradients[0])
        for blob, gradient in zip(net.params["conv"], gradients[1:]):
            close(blob.diff, gradient + 1)
    return net.blobs["y"].data.copy()


def close(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert np.abs(ours - theirs).max() <= 2e-6 * np.abs(theirs).max()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 16, 37, 128])
@pytest.mark.parametrize(("h", "w"), [(3, 3), (6, 6), (6, 7)])
def test_boards_of_the_shipped_nets(n: int, h: int, w: int, tmp_path: Path) -> None:
    check(tmp_path, n, 64, 64, h, w)


@pytest.mark.parametrize(("c", "o", "k"), [(3, 64, 3), (64, 2, 1), (16, 16, 5), (15, 16, 3), (17, 33, 3)])
def test_other_kernels_and_channels(c: int, o: int, k: int, tmp_path: Path) -> None:
    check(tmp_path, 12, c, o, 6, 6, k)


@pytest.mark.parametrize("size", [1, 2, 15, 32, 33])
def test_the_smallest_and_the_largest_boards(size: int, tmp_path: Path) -> None:
    check(tmp_path, 9, 16, 16, size, size)


@pytest.mark.parametrize("n", [1, 12])
def test_caffes_own_way_is_there_for_who_asks_for_it(n: int, tmp_path: Path) -> None:
    own = check(tmp_path, n, 64, 64, 6, 6, engine="CAFFE")
    ours = check(tmp_path, n, 64, 64, 6, 6)
    assert (n == 1) == np.array_equal(own, ours)  # one board alone goes Caffe's way anyhow


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n=st.integers(1, 40), again=st.integers(1, 40), c=st.integers(1, 40), o=st.integers(1, 40), h=st.integers(1, 12),
    w=st.integers(1, 12), bias=st.booleans(),
)  # fmt: skip
def test_any_shape_and_then_another_batch(
    n: int, again: int, c: int, o: int, h: int, w: int, bias: bool, tmp_path: Path
) -> None:
    check(tmp_path, n, c, o, h, w, bias=bias, again=again)
