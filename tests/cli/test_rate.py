# SPDX-License-Identifier: AGPL-3.0-or-later
"""`azcaffe rate` and `azcaffe verify` on small boards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from azcaffe.cli.rate import iteration_of, snapshots
from azcaffe.cli.verify import raw_policy, walk
from azcaffe.errors import AzcaffeError, GameError
from azcaffe.games import Game, State, make_game
from azcaffe.progress import Progress
from azcaffe.search import RolloutEvaluator, SearchConfig, UniformEvaluator
from azcaffe.solve import Layer, solve
from tests.cli.conftest import Run

SMALL = ("--board-size", "3", "--workers", "1", "--quiet")


@pytest.fixture(autouse=True)
def models(nets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZCAFFE_MODELS", str(nets))


def test_ladder_of_nets_and_baselines(nets: Path, tmp_path: Path, azcaffe: Run) -> None:
    players = ["random", "mcts:200", f"{nets / 'small.caffemodel'}@8", f"{nets / 'other.caffemodel'}@raw"]
    done = azcaffe("rate", *players, *SMALL, "--games", "8", "--json", tmp_path / "ladder.json")
    assert done.code == 0, done.err
    ladder = json.loads((tmp_path / "ladder.json").read_text())
    assert ladder["players"][0]["name"] == "mcts:200"
    by_name = {player["name"]: player for player in ladder["players"]}
    assert set(by_name) == {"random", "mcts:200", "small@8", "other@raw"}
    assert by_name["random"]["elo"] == 0
    low, high = by_name["mcts:200"]["interval"]
    assert low < by_name["mcts:200"]["elo"] < high
    assert len(ladder["matches"]) == 6
    assert all(player["games"] == 24 for player in ladder["players"])
    assert done.out.splitlines()[1].split()[1] == "mcts:200"


def test_against_a_few_rivals(nets: Path, tmp_path: Path, azcaffe: Run) -> None:
    words = ["random", "mcts:20", f"{nets / 'small.caffemodel'}@8", "mcts:5", *SMALL, "--games", "8"]
    done = azcaffe("rate", *words, "--against", "mcts:5", "--json", tmp_path / "l.json")
    assert done.code == 0, done.err
    ladder = json.loads((tmp_path / "l.json").read_text())
    met = {frozenset((match["first"], match["second"])) for match in ladder["matches"]}
    assert met == {frozenset((name, "mcts:5")) for name in ("random", "mcts:20", "small@8")}
    scores = done.out.split("\n\n")[1].splitlines()
    assert len(scores) == 5
    assert {len(line.split()) for line in scores[1:]} == {3}  # rank, name, one result


def test_snapshots_of_a_run_in_order_of_their_iterations(nets: Path, tmp_path: Path, azcaffe: Run) -> None:
    run = tmp_path / "run"
    (run / "weights").mkdir(parents=True)
    (run / "net.prototxt").write_bytes((nets / "small.prototxt").read_bytes())
    for iteration in (1000, 200, 30):
        (run / "weights" / f"net_iter_{iteration}.caffemodel").write_bytes((nets / "small.caffemodel").read_bytes())
    assert [iteration_of(path) for path in snapshots(run)] == [30, 200, 1000]
    words = [run, *SMALL, "--games", "2", "--simulations", "4", "--every", "2", "--json", tmp_path / "l.json"]
    done = azcaffe("rate", *words)
    assert done.code == 0, done.err
    ladder = json.loads((tmp_path / "l.json").read_text())
    assert {player["iteration"] for player in ladder["players"]} == {30, 1000}
    assert ladder["players"][0]["elo"] == pytest.approx(0, abs=1e-9)  # the same weights


def test_rate_refuses(nets: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "two players" in refused("rate", "random", *SMALL)
    assert "twice" in refused("rate", "random", "random", *SMALL)
    assert "no player" in refused("rate", "random", "stockfish", *SMALL)
    assert "number of playouts" in refused("rate", "random", "mcts:many", *SMALL)
    assert "simulations" in refused("rate", "random", "mcts:0", *SMALL)
    assert "number of playouts" in refused("rate", "random", f"{nets / 'small.caffemodel'}@x", *SMALL)
    assert "holds no" in refused("rate", "random", tmp_path, *SMALL)
    assert "--anchor me does not play" in refused("rate", "random", "mcts:3", "--anchor", "me", *SMALL)
    assert "--against me does not play" in refused("rate", "random", "mcts:3", "--against", "random", "me", *SMALL)
    assert "does not exist" in refused("rate", "random", "nowhere.caffemodel", *SMALL)


@pytest.mark.parametrize(
    "game, positions, value",
    [
        # 161,029 and the draw: J. Tromp's tables for Connect-4 on 4 x 4. Othello on 4 x 4 is a known win of the second
        # player; m,n,k-game (4, 3, 3) a known win of the first (Uiterwijk and van den Herik 2000).
        (make_game("tictactoe", height=3, width=3, connect=3), 5478, 0),
        (make_game("connectn", height=4, width=4, connect=4), 161029, 0),
        (make_game("othello", size=4), None, -1),
        (make_game("tictactoe", height=3, width=4, connect=3), None, 1),
    ],
    ids=lambda value: str(value),
)
def test_known_small_games_are_solved(game: Game, positions: int | None, value: int) -> None:
    layers = solve(game)
    assert layers[0].value.tolist() == [value]
    if positions is not None:
        assert sum(len(layer.states) for layer in layers) == positions


def test_solver_finds_wins_and_blocks() -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3)
    layers = solve(game)
    assert layers[0].optimal.all()  # every first move draws

    def optimal(*moves: int) -> list[int]:
        state = game.initial(1)
        for move in moves:
            state = game.play(state, np.array([move]))
        row = game.keys(layers[len(moves)].states).index(game.keys(state)[0])
        return layers[len(moves)].optimal[row].nonzero()[0].tolist()

    assert optimal(0, 3, 1, 4) == [2]
    assert optimal(0, 3, 1, 4, 8) == [2, 5]  # 5 wins at once, 2 makes two threats
    assert optimal(0) == [4]  # the corner opening is answered in the centre only
    with pytest.raises(GameError, match="more positions"):
        solve(game, 5000)


def perfect(layers: list[Layer], game: Game):
    """An evaluator that knows the game's value and gives all its prior to the first best move."""
    known = {}
    for layer in layers:
        for at, key in enumerate(game.keys(layer.states)):
            known[key] = (int(layer.optimal[at].argmax()), float(layer.value[at]))

    def evaluate(states: State, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        answers = [known[key] for key in game.keys(states)]
        priors = np.zeros((len(states), game.num_actions), np.float32)
        priors[np.arange(len(states)), [move for move, _ in answers]] = 1
        return priors, np.array([value for _, value in answers], np.float32)

    return evaluate


def test_walk_sees_every_line_and_a_perfect_player_loses_none() -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3)
    layers = solve(game)
    know_all = perfect(layers, game)
    raw = raw_policy(game, know_all, layers)
    assert (raw.positions, raw.optimal) == (4520, 4520)  # 5,478 less the 958 ended ones
    for side in (1, -1):
        found = walk(game, know_all, SearchConfig(simulations=10), side, 0, 10**5, Progress("", 1, quiet=True))
        assert found.losses == 0 and found.lost is None
        assert found.wins > 0


def test_walk_finds_the_losses_of_a_player_that_does_not_search() -> None:
    game = make_game("tictactoe", height=3, width=3, connect=3)
    found = walk(game, UniformEvaluator(game), SearchConfig(simulations=1), -1, 0, 10**5, Progress("", 1, quiet=True))
    assert found.losses > 0
    assert found.lost is not None
    state = game.initial(1)
    for move in found.lost:
        state = game.play(state, np.array([move]))
    assert state.over[0] and state.winner[0] == 1
    with pytest.raises(AzcaffeError, match="more than 50 lines"):
        walk(game, UniformEvaluator(game), SearchConfig(simulations=1), -1, 0, 50, Progress("", 1, quiet=True))


def test_every_line_is_counted() -> None:
    # Roll-outs at 200 playouts do not lose as first player: the walk's tally must then be wins and draws only.
    game = make_game("tictactoe", height=3, width=3, connect=3)
    found = walk(game, RolloutEvaluator(game), SearchConfig(simulations=200), 1, 0, 10**5, Progress("", 1, quiet=True))
    assert found.losses == 0
    assert found.wins + found.draws > 50


def test_verify_command(nets: Path, tmp_path: Path, azcaffe: Run, refused: Callable[..., str]) -> None:
    done = azcaffe("verify", "--weights", nets / "small.caffemodel", "--quiet", "--json", tmp_path / "v.json")
    found = json.loads((tmp_path / "v.json").read_text())
    assert done.code == (1 if found["losses"] else 0)
    assert found["positions"] == 5478
    assert found["simulations"] == 25
    assert "5,478 positions, a draw" in done.out
    assert "at most 300,000" in refused("verify", "--board-size", "5", "--weights", nets / "small.caffemodel")
