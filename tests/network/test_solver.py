# SPDX-License-Identifier: AGPL-3.0-or-later
"""Training steps: no NaN from a softmax of 0, divergence stops before harm, snapshots go on bit for bit."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from azcaffe.errors import AzcaffeError, ConfigError
from azcaffe.games.base import Game
from azcaffe.games.registry import make_game
from azcaffe.network import (
    ModelError,
    NetEvaluator,
    NetSpec,
    Solver,
    SolverSpec,
    TrainingDiverged,
    load_weights,
    proto,
    save_weights,
    write_net,
    write_solver,
)

SMALL = NetSpec(3, 3, 9, blocks=1, channels=4, value_units=8)
Batch = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def game() -> Game:
    return make_game("tictactoe", height=3, width=3, connect=3)


def solver_in(folder: Path, spec: NetSpec = SMALL, **settings: object) -> Path:
    write_net(spec, folder / "net.prototxt")
    return write_solver(SolverSpec(**settings), folder / "solver.prototxt", folder / "net.prototxt")  # type: ignore[arg-type]


def batch(count: int = 4, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    planes = rng.integers(0, 2, (count, 3, 3, 3)).astype(np.float32)
    return planes, rng.dirichlet(np.ones(9), count).astype(np.float32), rng.integers(-1, 2, count).astype(np.float32)


def same(one: Solver, other: Solver) -> bool:
    mine, theirs = one.weights(), other.weights()
    return all(np.array_equal(a, b) for name in mine for a, b in zip(mine[name], theirs[name]))


def with_logits(game: Game, folder: Path, logits: list[float]) -> Solver:
    """A solver whose net gives these logits on every board."""
    path = solver_in(folder, lr_policy="fixed", base_lr=1.0, momentum=0.0)
    weights = Solver(path, game, batch_size=2, seed=0).weights()
    weights["Probas_Output"] = [np.zeros_like(weights["Probas_Output"][0]), np.float32(logits)]
    return Solver(path, game, batch_size=2, weights=save_weights(folder / "logits.caffemodel", weights))


def test_a_softmax_of_exactly_0_trains_on(game: Game, tmp_path: Path) -> None:
    # R09: e^-200 is 0 in float32. Right: loss 200 (= log-sum-exp 0 less -200), gradient p - t = +1, -1, 0 …
    logits = [0.0, -200.0] + [-300.0] * 7
    solver = with_logits(game, tmp_path, logits)
    target = np.zeros((2, 9), np.float32)
    target[:, 1] = 1
    losses = solver.step(batch(2)[0], target, np.zeros(2, np.float32))
    assert losses.policy == pytest.approx(200, rel=1e-6)
    assert losses.kl == pytest.approx(200, rel=1e-6)
    change = solver.weights()["Probas_Output"][1] - np.float32(logits)
    np.testing.assert_allclose(change, [-1, 1, 0, 0, 0, 0, 0, 0, 0], atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e6])
def test_loss_and_gradient_are_those_of_log_softmax(game: Game, tmp_path: Path, scale: float) -> None:
    rng = np.random.default_rng(3)
    logits = np.float32(rng.normal(0, scale, 9))
    _, policy, value = batch(2)
    solver = with_logits(game, tmp_path, logits.tolist())
    losses = solver.step(batch(2)[0], policy, value)
    x = logits.astype(np.float64)
    log_sum = x.max() + np.log(np.exp(x - x.max()).sum())
    assert losses.policy == pytest.approx((policy * (log_sum - x)).sum() / 2, rel=1e-5)
    gradient = np.exp(x - log_sum) - policy.mean(axis=0)
    change = solver.weights()["Probas_Output"][1].astype(np.float64) - x
    np.testing.assert_allclose(-change, gradient, rtol=1e-4, atol=float(np.spacing(np.float32(scale * 3))))


def test_divergence_stops_within_the_step_and_harms_nothing(game: Game, tmp_path: Path) -> None:
    solver = Solver(solver_in(tmp_path, base_lr=1e6, lr_policy="fixed"), game, batch_size=4, seed=0)
    good = solver.save(tmp_path, "last")
    contents = [path.read_bytes() for path in good]
    with pytest.raises(TrainingDiverged) as caught:
        for _ in range(50):
            solver.step(*batch())
    assert re.search(r"(value_loss|probas_loss) is (nan|inf)|weights of layer '\w+'", str(caught.value))
    assert f"at iteration {solver.iteration}" in str(caught.value)
    for action in (lambda: solver.save(tmp_path, "last"), solver.weights, lambda: solver.save_weights(tmp_path / "w")):
        with pytest.raises(TrainingDiverged):
            action()
    assert [path.read_bytes() for path in good] == contents
    assert not (tmp_path / "w").exists()


def test_nan_in_the_batch_is_told_at_once(game: Game, tmp_path: Path) -> None:
    solver = Solver(solver_in(tmp_path), game, batch_size=4, seed=0)
    planes, policy, value = batch()
    value[0] = np.nan
    with pytest.raises(TrainingDiverged, match="value_loss is nan at iteration 1"):
        solver.step(planes, policy, value)


@pytest.mark.parametrize("kind", ["SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"])
def test_every_solver_type_trains_and_goes_on_bit_for_bit(game: Game, tmp_path: Path, kind: str) -> None:
    path = solver_in(tmp_path, type=kind, momentum=0.0 if kind in ("AdaGrad", "RMSProp") else 0.9, base_lr=0.01)
    straight = Solver(path, game, batch_size=4, seed=7)
    for seed in range(3):
        straight.step(*batch(seed=seed))
    saved = straight.save(tmp_path / "moved" / "from", "snapshot")
    (tmp_path / "moved" / "from").rename(
        tmp_path / "moved" / "to"
    )  # a pair may move: nothing in it is an absolute path
    state = tmp_path / "moved" / "to" / saved[1].name
    resumed = Solver(path, game, batch_size=4, seed=8, solverstate=state)
    assert resumed.iteration == 3 and same(straight, resumed)
    for seed in range(3, 6):
        assert straight.step(*batch(seed=seed)) == resumed.step(*batch(seed=seed))
    assert same(straight, resumed)
    again = Solver(path, game, batch_size=4, seed=8, weights=saved[0].parent.parent / "to" / saved[0].name)
    assert again.iteration == 0


def test_batch_norm_goes_on_bit_for_bit(game: Game, tmp_path: Path) -> None:
    path = solver_in(tmp_path, NetSpec(3, 3, 9, blocks=1, channels=4, batch_norm=True))
    straight = Solver(path, game, batch_size=4, seed=7)
    straight.step(*batch())
    resumed = Solver(path, game, batch_size=4, solverstate=straight.save(tmp_path, "s")[1])
    assert straight.step(*batch(seed=1)) == resumed.step(*batch(seed=1))
    assert same(straight, resumed)


def test_the_seed_decides_the_first_weights(game: Game, tmp_path: Path) -> None:
    path = solver_in(tmp_path)
    assert same(Solver(path, game, seed=1), Solver(path, game, seed=1))
    assert not same(Solver(path, game, seed=1), Solver(path, game, seed=2))


def test_learning_rate_follows_the_policy(game: Game, tmp_path: Path) -> None:
    path = solver_in(tmp_path, base_lr=0.1, stepsize=2, gamma=0.5)
    solver = Solver(path, game, batch_size=4, seed=0)
    rates = []
    for _ in range(5):
        rates.append(solver.learning_rate)
        solver.step(*batch())
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025])
    assert Solver(path, game, learning_rate=0.3, seed=0).learning_rate == pytest.approx(0.3)
    assert (solver.display, solver.snapshot_every) == (250, 1000)


def test_inference_with_trained_weights_and_a_saved_file(game: Game, tmp_path: Path) -> None:
    solver = Solver(solver_in(tmp_path), game, batch_size=4, seed=0)
    solver.step(*batch())
    evaluate = NetEvaluator(game, tmp_path / "net.prototxt", solver.save_weights(tmp_path / "deep" / "w.caffemodel"))
    refreshed = NetEvaluator(game, tmp_path / "net.prototxt")
    refreshed.set_weights(solver.weights())
    np.testing.assert_array_equal(evaluate.forward(batch()[0])[0], refreshed.forward(batch()[0])[0])


def test_weights_files_are_what_caffe_reads(game: Game, tmp_path: Path) -> None:
    import caffe

    solver = Solver(solver_in(tmp_path), game, batch_size=4, seed=0)
    solver.step(*batch())
    for path in (solver.save(tmp_path, "snapshot")[0], solver.save_weights(tmp_path / "ours.caffemodel")):
        net = caffe.Net(str(tmp_path / "net.prototxt"), caffe.TEST, weights=str(path))
        for name, blobs in net.params.items():
            for blob, array in zip(blobs, solver.weights()[name]):
                np.testing.assert_array_equal(blob.data, array)
        loaded = load_weights(path)
        assert all(
            np.array_equal(a, b) for name, blobs in loaded.items() for a, b in zip(blobs, solver.weights()[name])
        )


def test_paths_in_a_solver_are_taken_from_its_folder(
    game: Game, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # R03: from / with an absolute solver path whose net: is relative; a path with a space and letters beyond ASCII.
    folder = tmp_path / "Größe und Raum"
    (folder / "nets").mkdir(parents=True)
    write_net(SMALL, folder / "nets" / "my net.prototxt")
    solver_file = write_solver(SolverSpec(), folder / "solver.prototxt", folder / "nets" / "my net.prototxt")
    assert 'net: "nets/my net.prototxt"' in solver_file.read_text()
    monkeypatch.chdir("/")
    solver = Solver(solver_file, game, batch_size=4, output_dir=folder / "aus gabe", seed=0)
    saved = solver.save(folder / "aus gabe", "größe 1")
    monkeypatch.chdir(folder)
    assert same(solver, Solver("solver.prototxt", game, batch_size=4, solverstate=os.path.relpath(saved[1])))


def test_the_published_solver_names_a_net_that_is_not_there(game: Game, tmp_path: Path) -> None:
    write_net(NetSpec(3, 3, 9, blocks=1), tmp_path / "net_tic_tac_6_4_2_res_block.prototxt")
    solver_file = solver_in(tmp_path)
    text = solver_file.read_text().replace("net.prototxt", "net_tic_tac_6_4_2_res_blocks.prototxt")
    solver_file.write_text(text)
    with pytest.raises(ModelError) as caught:
        Solver(solver_file, game)
    for part in (
        str(tmp_path / "net_tic_tac_6_4_2_res_blocks.prototxt"),
        "did you mean net_tic_tac_6_4_2_res_block.prototxt?",
        "--model",
    ):
        assert part in str(caught.value)
    assert Solver(solver_file, game, model=tmp_path / "net_tic_tac_6_4_2_res_block.prototxt").iteration == 0


def test_a_net_inside_the_solver_file(game: Game, tmp_path: Path) -> None:
    text = (
        "base_lr: 0.1 lr_policy: 'fixed' solver_type: ADAM\nnet_param {\n"
        + write_net(SMALL, tmp_path / "n").read_text()
        + "}\n"
    )
    path = tmp_path / "solver.prototxt"
    path.write_text(text)
    solver = Solver(path, game, batch_size=4, seed=0)
    solver.step(*batch())
    assert solver.iteration == 1


def test_initial_weights_that_the_solver_names(game: Game, tmp_path: Path) -> None:
    path = solver_in(tmp_path)
    first = Solver(path, game, seed=1)
    first.save_weights(tmp_path / "start.caffemodel")
    path.write_text(path.read_text() + 'weights: "start.caffemodel"\n')
    assert same(first, Solver(path, game, seed=2))


def test_test_nets_and_snapshots_of_the_file_are_not_caffes_business(game: Game, tmp_path: Path) -> None:
    path = solver_in(tmp_path, snapshot=1, snapshot_prefix="/nowhere/at all/net")
    path.write_text(path.read_text() + 'test_iter: 1 test_interval: 1 test_net: "none.prototxt" iter_size: 3\n')
    solver = Solver(path, game, batch_size=4, seed=0)
    solver.step(*batch())
    assert solver.snapshot_every == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("net: ", "# net: "), "names no net"),
        (('type: "SGD"', 'type: "Sgd"'), "unknown type 'Sgd'"),
        (('lr_policy: "step"', 'lr_policy: "stepp"'), "unknown lr_policy 'stepp'"),
        (("stepsize: 12500", "stepsize: 0"), "stepsize of 1 or more"),
        (("base_lr: 0.02", ""), "no base_lr"),
        (("gamma: 0.25", "gamma: -1"), "gamma must be 0 or more"),
        (("gamma: 0.25", 'train_net: "net.prototxt"'), "more than one net"),
        (("gamma: 0.25", "regularization_type: 'L3' weight_decay: 1"), "Unknown regularization type: L3"),
        (("gamma: 0.25", "average_loss: 0"), "average_loss"),
        (('net: "net.prototxt"', 'net: "solver.prototxt"'), "looks like a solver prototxt"),
        (("gamma: 0.25", "gama: 0.25"), "gama"),
    ],
)
def test_solver_files_with_mistakes(game: Game, tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = solver_in(tmp_path)
    assert change[0] in path.read_text()
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(ModelError, match=message) as caught:
        Solver(path, game, batch_size=4)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("size", [0, -1, 2.5, 10**6])
def test_batch_sizes_outside_their_range(game: Game, tmp_path: Path, size: int) -> None:
    with pytest.raises(ConfigError, match=r"batch_size must be from 1 to 65,536"):
        Solver(solver_in(tmp_path), game, batch_size=size)


def test_a_batch_beyond_the_machine_s_memory(tmp_path: Path) -> None:
    path = solver_in(tmp_path, NetSpec(8, 8, 64, blocks=200, channels=64))
    with pytest.raises(ConfigError, match=r"batch_size 65536 needs \d+ GB for this net, the machine has \d+ GB"):
        Solver(path, make_game("tictactoe", height=8, width=8, connect=5), batch_size=65536)


def test_a_step_with_other_shapes(game: Game, tmp_path: Path) -> None:
    solver = Solver(solver_in(tmp_path), game, batch_size=4, seed=0)
    planes, policy, value = batch()
    for wrong in ((planes[:, :2], policy, value), (planes, policy[:, :8], value), (planes, policy, value[:3])):
        with pytest.raises(ConfigError, match="a step"):
            solver.step(*wrong)
    with pytest.raises(ConfigError, match="5 boards are more than the batch size 4"):
        solver.step(*batch(5))
    assert solver.iteration == 0


def test_solverstates_that_do_not_belong(game: Game, tmp_path: Path) -> None:
    path = solver_in(tmp_path)
    model, state = Solver(path, game, batch_size=4, seed=0).save(tmp_path, "a")
    for folder, spec, settings in (
        ("wider", NetSpec(3, 3, 9, blocks=1, channels=5, value_units=8), {}),
        ("deeper", NetSpec(3, 3, 9, blocks=2, channels=4, value_units=8), {}),
        ("adam", SMALL, {"type": "Adam"}),
    ):
        (tmp_path / folder).mkdir()
        other = solver_in(tmp_path / folder, spec, **settings)
        with pytest.raises(ModelError, match="of another net"):
            Solver(other, game, solverstate=state, weights=model if folder == "adam" else None)
    model.unlink()
    with pytest.raises(ModelError, match=r"its caffemodel is not there: tried .*a\.caffemodel.*--weights"):
        Solver(path, game, solverstate=state)


def test_swapped_and_missing_snapshot_files(game: Game, tmp_path: Path) -> None:
    path = solver_in(tmp_path)
    model, state = Solver(path, game, batch_size=4, seed=0).save(tmp_path, "a")
    with pytest.raises(ModelError, match=r"a\.caffemodel: looks like a caffemodel .*, a solverstate .* is wanted"):
        Solver(path, game, solverstate=model)
    with pytest.raises(ModelError, match=r"a\.solverstate: looks like a solverstate .*, a caffemodel .* is wanted"):
        Solver(path, game, weights=state)
    with pytest.raises(ModelError, match=r"/b\.solverstate: no such file; did you mean a\.solverstate\?"):
        Solver(path, game, solverstate=tmp_path / "b.solverstate")


def test_output_folders(game: Game, tmp_path: Path) -> None:
    path = solver_in(tmp_path)
    Solver(path, game, output_dir=tmp_path / "is" / "made")
    assert (tmp_path / "is" / "made").is_dir()
    for folder in (path, Path("/proc/nowhere")):
        with pytest.raises(AzcaffeError, match="no snapshot can be written there"):
            Solver(path, game, output_dir=folder)


def test_a_full_disk_leaves_the_last_snapshot(game: Game, tmp_path: Path, small_disk: Path) -> None:
    path = solver_in(tmp_path, NetSpec(3, 3, 9, blocks=1, channels=64))
    solver = Solver(path, game, batch_size=4, output_dir=small_disk, seed=0)
    saved = solver.save(small_disk, "one")
    before = [file.read_bytes() for file in saved]
    solver.step(*batch())
    (small_disk / "filler").write_bytes(
        b"x" * (os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize - 8192)
    )
    with pytest.raises(AzcaffeError, match=r"one\.caffemodel: cannot be written: No space left on device"):
        solver.save(small_disk, "one")
    assert [file.read_bytes() for file in saved] == before
    assert sorted(file.name for file in small_disk.iterdir()) == ["filler", "one.caffemodel", "one.solverstate"]
    (small_disk / "filler").unlink()
    solver.save(small_disk, "one")
    assert Solver(path, game, solverstate=small_disk / "one.solverstate").iteration == 1


def test_log_layers_that_are_no_log_softmax_get_a_floor(game: Game, tmp_path: Path) -> None:
    from azcaffe.network.solverfile import stabilise

    net = proto.parse_text(
        "NetParameter",
        'layer { name: "i" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }'
        'layer { name: "l" type: "Log" bottom: "x" top: "y" }'
        'layer { name: "m" type: "Log" bottom: "x" top: "z" log_param { base: 2 } }',
        "",
    )
    stabilise(net)
    assert [layer.log_param.shift for layer in net.layer[1:]] == [pytest.approx(1e-30), 0]
