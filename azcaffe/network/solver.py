# SPDX-License-Identifier: AGPL-3.0-or-later
"""Updates by Caffe's own solver (`caffe.SGDSolver`, `caffe.AdamSolver` …), guarded against NaN, saved atomically."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from azcaffe.atomic import write_atomically
from azcaffe.encoding import Encoding
from azcaffe.errors import AzcaffeError, ConfigError
from azcaffe.games.base import FloatArray, Game
from azcaffe.network.errors import ModelError, TrainingDiverged
from azcaffe.network.evaluate import copy_weights, load_fitting, params_of, start_caffe
from azcaffe.network.files import PathLike, Weights, save_weights
from azcaffe.network.model import BATCH, INPUT, choose_encoding, probed_shapes, read_model
from azcaffe.network.probe import probe_solver
from azcaffe.network.shapes import NetShapes, Shape
from azcaffe.network.solverfile import (
    BATCH_SCALE,
    LABEL_POLICY,
    LABEL_VALUE,
    POLICY_LOSS,
    VALUE_LOSS,
    private_solver,
    read_solver,
    training_net,
)
from azcaffe.network.solverstate import (
    find_learned_net,
    learnable_shapes,
    read_state,
    with_learned_net,
    without_learned_net,
)

MAX_BATCH = 65536


@dataclass(frozen=True, slots=True)
class Losses:
    """What a step found before its update, averaged over the batch.

    Attributes:
        value: half the mean squared error of the value (Caffe's EuclideanLoss).
        policy: cross-entropy of the policy against its targets, in nats.
        kl: policy loss less the entropy of the targets.
    """

    value: float
    policy: float
    kl: float


class Solver:
    """A net in training.

    Attributes:
        encoding: how positions become planes.
        batch_size: boards a step.
        missing: layers that only one of net and weights has, with `allow_missing`.
        display, snapshot_every: iterations between log lines and between snapshots, 0 for never, as the file says.
        model: the net's prototxt.
    """

    def __init__(
        self,
        solver_file: PathLike,
        game: Game,
        *,
        encoding: Encoding | None = None,
        model: PathLike | None = None,
        batch_size: int = 128,
        output_dir: PathLike | None = None,
        seed: int | None = None,
        solverstate: PathLike | None = None,
        weights: PathLike | None = None,
        learning_rate: float | None = None,
        allow_missing: bool = False,
        allow_python_layers: bool = False,
        gpu: int | None = None,
    ) -> None:
        """Build the solver that `solver_file` describes.

        Paths inside the file are taken from its own folder; `model` overrides its `net:`. `output_dir` is made now, so
        that a folder that cannot be written shows before the work, not after. `solverstate` goes on where :meth:`save`
        was called, bit for bit; its caffemodel is found beside it unless `weights` names one. `weights` alone starts
        from them.

        Raises:
            ModelError: a file cannot be used, or files and game do not fit.
            ConfigError: batch size or learning rate outside their ranges.
            AzcaffeError: no Caffe, no such GPU, the output folder cannot be written.
        """
        if not isinstance(batch_size, int) or not 1 <= batch_size <= MAX_BATCH:
            raise ConfigError(f"batch_size must be from 1 to {MAX_BATCH:,}, not {batch_size}")
        if learning_rate is not None and not 0 <= learning_rate < float("inf"):
            raise ConfigError(f"the learning rate must be 0 or more, not {learning_rate}")
        file = read_solver(solver_file, model, allow_python_layers)
        info = read_model(file.model, allow_python_layers, net=file.net)
        self.encoding = choose_encoding(game, info, encoding)
        self.model, self.batch_size, self.num_actions = file.model, batch_size, game.num_actions
        self.display, self.snapshot_every = file.message.display, file.message.snapshot
        self._source, self._planes_shape = file.path, (info.channels, info.height, info.width)
        net, shapes = training_net(file, batch_size)
        _check_memory(shapes, batch_size)
        if output_dir is not None:
            _prepare_folder(Path(output_dir))
        small, _ = training_net(file, BATCH)
        trial = private_solver(file, small, "probe", 0, learning_rate)
        probed = probed_shapes(probe_solver(trial, file.kind, f"{file.path} ({file.model})"))
        _check_labels(probed.blobs, game.num_actions, file.model)
        state = None
        if solverstate is not None:
            state = read_state(solverstate, learnable_shapes(net, probed), file.kind)
            weights = weights or find_learned_net(state, solverstate)
        elif weights is None and file.initial_weights:
            weights = file.initial_weights[0]
        loaded, self.missing = load_fitting(info, weights, allow_missing)
        caffe = start_caffe(gpu)
        self._folder = tempfile.TemporaryDirectory(prefix="azcaffe-")
        path = Path(self._folder.name) / "solver.prototxt"
        text = private_solver(file, net, str(path.with_name("snapshot")), seed, learning_rate, gpu)
        path.write_text(text, encoding="utf-8")
        self._solver = getattr(caffe, f"{file.kind}Solver")(str(path))
        self._net = self._solver.net
        self._blobs = dict(zip(self._net._blob_names, self._net._blobs))
        self._params = params_of(self._net)
        if state is not None:
            path = path.with_name("restore.solverstate")
            path.write_bytes(without_learned_net(state))
            self._solver.restore(str(path))
        copy_weights(self._params, loaded, str(weights))
        self._reshape(batch_size)
        self._diverged = False

    @property
    def iteration(self) -> int:
        """Updates made so far."""
        return int(self._solver.iter)

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        return float(self._solver.lr)

    def step(self, planes: FloatArray, policy: FloatArray, value: FloatArray) -> Losses:
        """One update on N <= `batch_size` boards.

        `planes` (N, C, H, W), `policy` (N, A) targets that sum to 1, `value` (N,) results in [-1, 1] for the mover.

        Raises:
            ConfigError: arrays of other shapes.
            TrainingDiverged: a loss or a weight is no longer finite; the solver cannot be used any more.
        """
        count = len(planes)
        self._require_finite_past()
        if count > self.batch_size:
            raise ConfigError(f"{count} boards are more than the batch size {self.batch_size} this solver was made for")
        if planes.shape != (count, *self._planes_shape) or policy.shape != (count, self.num_actions) or not count:
            raise ConfigError(
                f"a step needs planes (N, {', '.join(map(str, self._planes_shape))}) and a policy "
                f"(N, {self.num_actions}), not {planes.shape} and {policy.shape}"
            )
        if value.shape != (count,):
            raise ConfigError(f"a step on {count} boards needs as many values, not {value.shape}")
        self._reshape(count)
        for name, array in ((INPUT, planes), (LABEL_POLICY, policy), (LABEL_VALUE, value)):
            data = self._blobs[name].data
            data[...] = array.reshape(data.shape)
        self._solver.step(1)
        losses = {name: self._blobs[name].data.item() for name in (VALUE_LOSS, POLICY_LOSS)}
        self._check_finite(losses)
        positive = np.where(policy > 0, policy, 1.0).astype(np.float64)
        entropy = float(-(positive * np.log(positive)).sum() / count)
        return Losses(losses[VALUE_LOSS], losses[POLICY_LOSS], losses[POLICY_LOSS] - entropy)

    def _reshape(self, count: int) -> None:
        if self._blobs[INPUT].shape[0] != count:
            for name in (INPUT, LABEL_VALUE, LABEL_POLICY):
                self._blobs[name].reshape(count, *list(self._blobs[name].shape)[1:])
            self._net.reshape()
        if BATCH_SCALE in self._params:
            self._params[BATCH_SCALE][0].data[...] = 1.0 / count

    def _check_finite(self, losses: dict[str, float]) -> None:
        wrong = [f"{name} is {value}" for name, value in losses.items() if not np.isfinite(value)]
        if not wrong:
            # A sum is finite only where every number is; 0.1 ms for the published nets' 200,000.
            wrong = [
                f"the weights of layer {name!r} are not finite"
                for name, blobs in self._params.items()
                if not all(np.isfinite(np.add.reduce(blob.data, axis=None)) for blob in blobs)
            ]
        if wrong:
            self._diverged = True
            self._require_finite_past(f"{wrong[0]} at iteration {self.iteration}")

    def _require_finite_past(self, reason: str = "it diverged in an earlier step") -> None:
        if self._diverged:
            raise TrainingDiverged(
                f"training stopped: {reason} ({self._source}): lower base_lr; nothing of this step was saved"
            )

    def weights(self) -> Weights:
        """Copies of all weights.

        Raises:
            TrainingDiverged: they are not finite.
        """
        self._require_finite_past()
        return {name: [blob.data.copy() for blob in blobs] for name, blobs in self._params.items()}

    def save_weights(self, path: PathLike) -> Path:
        """Write the weights alone to `path`, atomically.

        Raises:
            TrainingDiverged: they are not finite.
            AzcaffeError: the folder cannot be written, the disk is full.
        """
        return save_weights(path, self.weights())

    def save(self, directory: PathLike, stem: str) -> tuple[Path, Path]:
        """Write `stem`.caffemodel and `stem`.solverstate into `directory`, each atomically, the state last.

        Caffe writes its snapshot into memory files, because it aborts where a disk is full; the state then names its
        caffemodel by a path relative to itself, so that the pair may be moved.

        Raises:
            TrainingDiverged: the weights are not finite.
            AzcaffeError: the folder cannot be written, the disk is full.
        """
        self._require_finite_past()
        model, state = self._snapshot()
        folder = Path(directory)
        paths = folder / f"{stem}.caffemodel", folder / f"{stem}.solverstate"
        write_atomically(paths[0], [model])
        write_atomically(paths[1], [with_learned_net(state, paths[0].name)])
        return paths

    def _snapshot(self) -> tuple[bytes, bytes]:
        handles = []
        links = []
        try:
            for kind in ("caffemodel", "solverstate"):
                handles.append(os.memfd_create(f"snapshot.{kind}"))
                links.append(Path(self._folder.name) / f"snapshot_iter_{self.iteration}.{kind}")
                links[-1].symlink_to(f"/proc/self/fd/{handles[-1]}")
            self._solver.snapshot()
            model, state = (os.pread(handle, os.fstat(handle).st_size, 0) for handle in handles)
            return model, state
        except OSError as error:
            raise AzcaffeError(f"a snapshot cannot be taken: {error.strerror or error}") from None
        finally:
            for link in links:
                link.unlink(missing_ok=True)
            for handle in handles:
                os.close(handle)


def _check_labels(blobs: dict[str, Shape | None], num_actions: int, source: str) -> None:
    for name, wanted, what in (
        (LABEL_POLICY, num_actions, f"{num_actions} numbers a board"),
        (LABEL_VALUE, 1, "one number a board"),
        (VALUE_LOSS, 1, "one number"),
        (POLICY_LOSS, 1, "one number"),
    ):
        shape = blobs[name] or ()
        labels = name in (LABEL_POLICY, LABEL_VALUE)
        if prod(shape[1:] if labels else shape) != wanted or (labels and not shape):
            raise ModelError(f"{source}: {name} has the shape {shape}, it must be {what}")


def _check_memory(shapes: NetShapes, batch_size: int) -> None:
    """Caffe aborts, or the kernel kills it, where memory ends: every blob has data and gradient in float32."""
    needed = 8 * sum(prod(shape) for shape in shapes.blobs.values() if shape is not None)
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise ConfigError(
            f"batch_size {batch_size} needs {needed / 2**30:.0f} GB for this net, "
            f"the machine has {there / 2**30:.0f} GB"
        )


def _prepare_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise AzcaffeError(f"{folder}: no snapshot can be written there: {error.strerror or error}") from None
