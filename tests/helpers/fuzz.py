# SPDX-License-Identifier: AGPL-3.0-or-later
"""The fuzz loop, in a process of its own: `python -m tests.helpers.fuzz FIRST LAST MODELS FOLDER [CAFFEMODEL]`.

Every seed is a damaged net, caffemodel, solver or solverstate that is loaded as a user would. It must load or be refused
with an AzcaffeError, within 5 seconds. The seed in work is in FOLDER/seed, so that the parent knows which one a dead
process leaves. Prints a JSON line: counts, the longest time and its seed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from azcaffe.errors import AzcaffeError
from azcaffe.games.registry import make_game
from azcaffe.network import NetEvaluator, NetSpec, Solver, SolverSpec, read_model, write_net, write_solver
from azcaffe.network.spec import net_text
from tests.helpers.mutate import mutate_bytes, mutate_text

OLD_STYLE = """
name: "old"
input: "input_data" input_dim: 1 input_dim: 3 input_dim: 3 input_dim: 3
layers { name: "c" type: CONVOLUTION bottom: "input_data" top: "c" blobs_lr: 1 blobs_lr: 2
  convolution_param { num_output: 2 kernel_size: 3 pad: 1 weight_filler { type: "gaussian" std: 0.1 } } }
layers { name: "r" type: RELU bottom: "c" top: "c" }
layers { name: "v" type: INNER_PRODUCT bottom: "c" top: "output_value" inner_product_param { num_output: 1 } }
layers { name: "p" type: INNER_PRODUCT bottom: "c" top: "p" inner_product_param { num_output: 9 } }
layers { name: "s" type: SOFTMAX bottom: "p" top: "output_probas" }
"""


def main() -> None:
    """Run the seeds."""
    first, last, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    game = make_game("tictactoe", height=3, width=3, connect=3)
    small = NetSpec(3, 3, 9, blocks=1, channels=4, value_units=8)
    texts = [net_text(small), net_text(NetSpec(3, 3, 9, blocks=1, channels=4, value_units=8, batch_norm=True)), OLD_STYLE]
    write_net(small, folder / "good.prototxt")
    write_solver(SolverSpec(), folder / "good_solver.prototxt", folder / "good.prototxt")
    solver_text = (folder / "good_solver.prototxt").read_text()
    solver = Solver(folder / "good_solver.prototxt", game, batch_size=2, seed=0)
    model, state = (path.read_bytes() for path in solver.save(folder, "good"))
    counts = {"loaded": 0, "refused": 0}
    longest = (0.0, -1)
    for seed in range(first, last):
        (folder / "seed").write_text(str(seed))
        start = time.monotonic()
        try:
            _one(seed, folder, game, texts, solver_text, model, state)
            counts["loaded"] += 1
        except AzcaffeError as error:
            counts["refused"] += 1
            assert "\n" not in str(error).strip(), f"seed {seed}: {error!r}"
        longest = max(longest, (time.monotonic() - start, seed))
    print(json.dumps({**counts, "seconds": round(longest[0], 2), "seed": longest[1]}))


def _one(seed: int, folder: Path, game, texts: list[str], solver_text: str, model: bytes, state: bytes) -> None:  # type: ignore[no-untyped-def]
    kind = ("net", "net", "train", "train", "caffemodel", "solver", "solverstate")[seed % 7]
    path = folder / f"damaged_{kind}"
    states = game.initial(2)
    if kind == "net":
        path.write_text(mutate_text(texts[seed % len(texts)], seed), encoding="utf-8")
        read_model(path)
        evaluate = NetEvaluator(game, path)
        for count in (2, 5):
            evaluate(game.initial(count), np.arange(count))
    elif kind == "train":
        path.write_text(mutate_text(texts[seed % 2], seed), encoding="utf-8")
        _step(Solver(folder / "good_solver.prototxt", game, model=path, batch_size=3, seed=0))
    elif kind == "caffemodel":
        path.write_bytes(mutate_bytes(model, seed))
        NetEvaluator(game, folder / "good.prototxt", path)(states, np.arange(2))
    elif kind == "solver":
        path.write_text(mutate_text(solver_text, seed), encoding="utf-8")
        _step(Solver(path, game, batch_size=3, seed=0))
    else:
        path.write_bytes(mutate_bytes(state, seed))
        _step(Solver(folder / "good_solver.prototxt", game, solverstate=path, weights=folder / "good.caffemodel", batch_size=3))


def _step(solver: Solver) -> None:
    rng = np.random.default_rng(0)
    planes = rng.integers(0, 2, (3, 3, 3, 3)).astype(np.float32)
    solver.step(planes, rng.dirichlet(np.ones(9), 3).astype(np.float32), np.ones(3, np.float32))


if __name__ == "__main__":
    main()
