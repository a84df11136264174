# SPDX-License-Identifier: AGPL-3.0-or-later
"""The fuzz loop, in a process of its own: `python -m tests.helpers.fuzz EXAMPLES SEED FOLDER`.

Hypothesis draws a kind of file and a number; the number decides how a good file of that kind is damaged, and the file
is loaded as a user would. It must load or be refused with an AzcaffeError of one line, within 5 seconds. What is in
work is in FOLDER/case, so that the parent knows what a dead process leaves. Prints a JSON line: counts, longest time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

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


KINDS = ("net", "net", "train", "train", "caffemodel", "solver", "solverstate")
SECONDS = 5.0


class Fuzz:
    """Good files and what came of the damaged ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.game = make_game("tictactoe", height=3, width=3, connect=3)
        small = NetSpec(3, 3, 9, blocks=1, channels=4, value_units=8)
        with_norm = NetSpec(3, 3, 9, blocks=1, channels=4, value_units=8, batch_norm=True)
        self.texts = [net_text(small), net_text(with_norm), OLD_STYLE]
        write_net(small, folder / "good.prototxt")
        self.good_solver = write_solver(SolverSpec(), folder / "good_solver.prototxt", folder / "good.prototxt")
        self.solver_text = self.good_solver.read_text()
        saved = Solver(self.good_solver, self.game, batch_size=2, seed=0).save(folder, "good")
        self.model, self.state = (path.read_bytes() for path in saved)
        self.counts = {"loaded": 0, "refused": 0, "refused by Caffe": 0}
        self.longest = 0.0

    def one(self, kind: str, number: int) -> None:
        """Damage a file, load it, count."""
        (self.folder / "case").write_text(f"{kind} {number}")
        start = time.monotonic()
        try:
            getattr(self, kind)(number, self.folder / f"damaged_{kind}")
            self.counts["loaded"] += 1
        except AzcaffeError as error:
            self.counts["refused by Caffe" if "Caffe " in str(error) else "refused"] += 1
            assert "\n" not in str(error) and len(str(error)) < 1500, str(error)
        seconds = time.monotonic() - start
        self.longest = max(self.longest, seconds)
        assert seconds < SECONDS + 2, f"{seconds:.1f} s"  # 5 s of Caffe and what surrounds it

    def net(self, number: int, path: Path) -> None:
        """A net that is played with."""
        path.write_text(mutate_text(self.texts[number % 3], number), encoding="utf-8")
        read_model(path)
        evaluate = NetEvaluator(self.game, path)
        for count in (2, 5):
            evaluate(self.game.initial(count), np.arange(count))

    def train(self, number: int, path: Path) -> None:
        """A net that is trained."""
        path.write_text(mutate_text(self.texts[number % 2], number), encoding="utf-8")
        _step(Solver(self.good_solver, self.game, model=path, batch_size=3, seed=0))

    def caffemodel(self, number: int, path: Path) -> None:
        """Weights."""
        path.write_bytes(mutate_bytes(self.model, number))
        NetEvaluator(self.game, self.folder / "good.prototxt", path)(self.game.initial(2), np.arange(2))

    def solver(self, number: int, path: Path) -> None:
        """A solver file."""
        path.write_text(mutate_text(self.solver_text, number), encoding="utf-8")
        _step(Solver(path, self.game, batch_size=3, seed=0))

    def solverstate(self, number: int, path: Path) -> None:
        """A solver's memory."""
        path.write_bytes(mutate_bytes(self.state, number))
        weights = self.folder / "good.caffemodel"
        _step(Solver(self.good_solver, self.game, solverstate=path, weights=weights, batch_size=3))


def _step(solver: Solver) -> None:
    rng = np.random.default_rng(0)
    planes = rng.integers(0, 2, (3, 3, 3, 3)).astype(np.float32)
    solver.step(planes, rng.dirichlet(np.ones(9), 3).astype(np.float32), np.ones(3, np.float32))


def main() -> None:
    """Run the examples."""
    examples, first = int(sys.argv[1]), int(sys.argv[2])
    fuzz = Fuzz(Path(sys.argv[3]))

    @seed(first)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(KINDS), st.integers(0, 2**40))
    def run(kind: str, number: int) -> None:
        fuzz.one(kind, number)

    run()
    print(json.dumps({**fuzz.counts, "longest": round(fuzz.longest, 2)}))


if __name__ == "__main__":
    main()
