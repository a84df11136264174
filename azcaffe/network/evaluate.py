# SPDX-License-Identifier: AGPL-3.0-or-later
"""Positions in, priors and values out: one `caffe.Net` forward for a whole batch."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from azcaffe.encoding import Encoding, encode
from azcaffe.games.base import FloatArray, Game, State
from azcaffe.network import proto
from azcaffe.network.errors import ModelError
from azcaffe.network.files import PathLike, Weights, load_weights
from azcaffe.network.model import (
    BATCH,
    INPUT,
    POLICY,
    VALUE,
    ModelInfo,
    choose_encoding,
    compare_layer,
    read_model,
    require_fit,
)
from azcaffe.network.probe import probe_gpu, probe_net
from azcaffe.network.runtime import load_caffe

MAX_BATCH = 1024
MAX_BATCH_ELEMENTS = 2**28  # of all blobs together: 1 GB


def open_net(model: ModelInfo, gpu: int | None = None) -> Any:
    """The TEST-phase `caffe.Net` of `model`, weights from its fillers, opened in the throw-away process first.

    Raises:
        ModelError: Caffe refuses it.
    """
    text = model.inference_text
    probe_net(text, proto.TEST, model.path)
    caffe = start_caffe(gpu)
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return caffe.Net(file.name, caffe.TEST)


def params_of(net: Any) -> dict[str, list[Any]]:
    """The blobs of every layer of a caffe net that has any, by layer name."""
    return {name: list(layer.blobs) for name, layer in zip(net._layer_names, net.layers) if len(layer.blobs)}


def copy_weights(params: dict[str, list[Any]], weights: Weights, source: str) -> None:
    """Copy `weights` into the layers of the same names; others stay.

    Raises:
        ModelError: shapes differ; nothing has been copied.
    """
    shared = [name for name in params if name in weights]
    for name in shared:
        found = compare_layer(
            name, [tuple(blob.shape) for blob in params[name]], [blob.shape for blob in weights[name]]
        )
        if found:
            raise ModelError(f"{source}: {found[0]}")
    for name in shared:
        for blob, array in zip(params[name], weights[name]):
            blob.data[...] = array.reshape(tuple(blob.shape))


def load_fitting(model: ModelInfo, weights: PathLike | None, allow_missing: bool = False) -> tuple[Weights, list[str]]:
    """The weights in the caffemodel `weights` (none: {}) and, told on stderr, the layers that only one side has.

    Raises:
        ModelError: the file cannot be used or does not fit `model`.
    """
    if weights is None:
        return {}, []
    loaded = load_weights(weights)
    missing = require_fit(model, loaded, str(weights), allow_missing)
    for name in missing:
        print(f"azcaffe: {weights}: layer {name!r} is only in one of net and weights", file=sys.stderr)
    return loaded, missing


def start_caffe(gpu: int | None) -> Any:
    """The `caffe` module, on the CPU or on GPU number `gpu`.

    Raises:
        AzcaffeError: no Caffe, or no such GPU.
    """
    if gpu is not None:
        probe_gpu(gpu)
    caffe = load_caffe()
    if gpu is not None:
        caffe.set_device(gpu)
        caffe.set_mode_gpu()
    return caffe


class NetEvaluator:
    """Evaluates positions of one game with one net; the `evaluate(states, slots)` that the search calls.

    Attributes:
        encoding: how positions become planes.
        generation: counts :meth:`set_weights`, so that caches know when to forget.
        missing: layers that the weights lack or the net lacks, with `allow_missing`.
    """

    def __init__(
        self,
        game: Game,
        model: PathLike,
        weights: PathLike | None = None,
        encoding: Encoding | None = None,
        *,
        allow_missing: bool = False,
        allow_python_layers: bool = False,
        gpu: int | None = None,
    ) -> None:
        """Load the net in the prototxt `model`, with the caffemodel `weights` or, without one, its initial values.

        Raises:
            ModelError: a file cannot be used, or net, weights and game do not fit each other.
            AzcaffeError: no Caffe, no such GPU, or the game keeps too few past boards.
        """
        self._model = read_model(model, allow_python_layers)
        self.encoding = choose_encoding(game, self._model, encoding)
        self._game, self.num_actions = game, game.num_actions
        self.generation = 0
        loaded, self.missing = load_fitting(self._model, weights, allow_missing)
        self._net = open_net(self._model, gpu)
        self._params = params_of(self._net)
        copy_weights(self._params, loaded, str(weights))
        blobs = self._net.blobs
        self._input, self._value, self._policy = blobs[INPUT], blobs[VALUE], blobs[POLICY]
        self._last = len(self._net.layers) - 1
        self._batch = BATCH
        # On a GPU each look at a blob's `data` copies it from there, and a Python layer may reshape blobs as it likes.
        self._memory_stays = gpu is None and not allow_python_layers
        self._planes: FloatArray | None = None
        self._outputs: tuple[FloatArray, FloatArray] | None = None
        elements = sum(blob.count for blob in blobs.values()) // BATCH
        self._largest = max(1, min(MAX_BATCH, MAX_BATCH_ELEMENTS // elements))

    def __call__(self, states: State, slots: NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
        """Priors (B, A) float32, not masked, and values (B,) float32 for the mover; `slots` does not matter."""
        count = len(states)
        if count <= self._largest:
            if count == 0:
                return np.empty((0, self.num_actions), np.float32), np.empty(0, np.float32)
            self._resize(count)
            encode(self._game, states, self.encoding, out=self._input_planes())
            return self._run(count)
        parts = []
        for start in range(0, count, self._largest):
            part = states.take(np.arange(start, min(start + self._largest, count)))
            parts.append(self(part, slots))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def forward(self, planes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Priors (B, A) and values (B,) of `planes` (B, C, H, W), as copies.

        Raises:
            ModelError: planes of another shape than the net's.
        """
        planes = np.asarray(planes, np.float32)
        shape = (self._model.channels, self._model.height, self._model.width)
        if planes.ndim != 4 or planes.shape[1:] != shape:
            raise ModelError(f"planes must have the shape (batch, {', '.join(map(str, shape))}), not {planes.shape}")
        priors = np.empty((len(planes), self.num_actions), np.float32)
        values = np.empty(len(planes), np.float32)
        for start in range(0, len(planes), self._largest):
            part = planes[start : start + self._largest]
            self._resize(len(part))
            self._input_planes()[...] = part
            priors[start : start + len(part)], values[start : start + len(part)] = self._run(len(part))
        return priors, values

    def bare_forwards(self, batch: int, times: int, like: NetEvaluator | None = None) -> int:
        """Run `caffe.Net` on what the input blob holds, or `like`'s, nothing else; the positions done: a yardstick."""
        self._resize(batch)
        if like is not None:
            self._input_planes()[...] = like._input_planes()
        for _ in range(times):
            self._net._forward(0, self._last)
        return batch * times

    def _resize(self, count: int) -> None:
        if count != self._batch:
            self._input.reshape(count, self._model.channels, self._model.height, self._model.width)
            self._net.reshape()
            self._batch = count
            self._planes = self._outputs = None

    def _input_planes(self) -> FloatArray:
        """The input's memory (B, C, H, W); it moves only when the net is reshaped."""
        if self._planes is None or not self._memory_stays:
            self._planes = self._input.data
        return self._planes

    def _run(self, count: int) -> tuple[FloatArray, FloatArray]:
        # Net.forward of pycaffe builds dictionaries on the way; the raw call does not. Blobs are views: copy. They are
        # looked up again after each reshape's first forward, in which some layers still share memory with others.
        self._net._forward(0, self._last)
        if self._outputs is None or not self._memory_stays:
            self._outputs = self._policy.data.reshape(count, -1), self._value.data.reshape(count)
        priors, values = self._outputs
        return priors.copy(), values.copy()

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of every layer; layers that only training has (losses) are passed over.

        Raises:
            ModelError: a layer is missing or has another shape; nothing has been changed.
        """
        absent = [name for name in self._params if name not in weights]
        if absent:
            raise ModelError(f"{self._model.path}: the new weights lack the layers {', '.join(absent)}")
        copy_weights(self._params, weights, self._model.path)
        self.generation += 1

    def weights(self) -> Weights:
        """Copies of the weights."""
        return {name: [blob.data.copy() for blob in blobs] for name, blobs in self._params.items()}
