# SPDX-License-Identifier: AGPL-3.0-or-later
"""Test matches during training: against roll-outs at a rising level, and against the previous snapshot.

As published, a match against roll-out Monte Carlo tree search ends in a verdict, and from a score of 0.9 on the
opponent gets more playouts. The published program plays its games two by two between snapshots; here they are one match
by the snapshot's own weights, because side by side they cost a fraction of the time. Matches run on the workers while
training goes on, ahead of games that wait there: else they fall behind, and with them the weights that they need pile
up. Until the opponent is at its highest level, a match's opponent depends on the result of the one before, so matches
start one at a time, in the order of their snapshots.
"""

from __future__ import annotations

from typing import Any

from azcaffe.jobs import MatchJob, MatchScore, Weights
from azcaffe.workers import Pool

MATCH_STREAM = 3
LEVEL_CAP = 10
"""The roll-out opponent grows to so many times the net's playouts."""
MOST_WAITING = 8
"""Training waits while more matches than this have no result."""


def verdict(score: float) -> str:
    """The published words for a score, 0 … 1, against the baseline."""
    return "better" if score >= 0.55 else "as good" if score >= 0.45 else "weaker"


class BaselineMatches:
    """Which matches are due, which are being played, and the opponent's level.

    Attributes:
        level: playouts a move of the roll-out opponent in the next match.
        last: wins, draws, losses of the last match against it.
    """

    def __init__(self, simulations: int, games: int, games_previous: int, seed: int) -> None:
        """`simulations`: the net's playouts a move; `games`, `games_previous`: 0 for none."""
        self.level = simulations
        self.last = [0, 0, 0]
        self._step, self._highest = simulations, LEVEL_CAP * simulations
        self._games = {"rollout": games, "previous": games_previous}
        self._seed = seed
        self._due: list[tuple[int, str]] = []  # (iteration, opponent) without result yet, oldest first
        self._started: set[tuple[int, str]] = set()
        self._snapshots: dict[int, Weights] = {}  # weights of the snapshots still needed
        self._previous: dict[int, int] = {}  # snapshot -> the one before it

    def __len__(self) -> int:
        """Matches without result."""
        return len(self._due)

    @property
    def too_many(self) -> bool:
        """Whether so many wait that training should."""
        return len(self._due) > MOST_WAITING

    def snapshot(self, iteration: int, weights: Weights) -> None:
        """A new generation is out: its matches are due."""
        if self._snapshots:
            self._previous[iteration] = max(self._snapshots)
        self._snapshots[iteration] = weights
        if self._games["rollout"]:
            self._due.append((iteration, "rollout"))
        if self._games["previous"] and iteration in self._previous:
            self._due.append((iteration, "previous"))
        self._forget()

    def start(self, pool: Pool) -> None:
        """Hand to the workers what may start."""
        rollouts = [match for match in self._due if match[1] == "rollout"]
        may_start = rollouts if self.level == self._highest else rollouts[:1]
        for iteration, opponent in may_start + [match for match in self._due if match[1] == "previous"]:
            if (iteration, opponent) in self._started:
                continue
            self._started.add((iteration, opponent))
            other = self._snapshots[self._previous[iteration]] if opponent == "previous" else None
            seed = (self._seed, MATCH_STREAM, iteration, int(opponent == "previous"))
            job = MatchJob(
                iteration, opponent, self._games[opponent], self.level, seed, self._snapshots[iteration], other
            )
            pool.submit(("match", iteration, opponent), job, ahead=True)

    def result(self, key: Any, score: MatchScore) -> dict[str, Any]:
        """Take in the result of the match that `start` submitted as `key`; what to log about it."""
        _, iteration, opponent = key
        self._due.remove((iteration, opponent))
        self._started.discard((iteration, opponent))
        record: dict[str, Any] = {"snapshot": iteration, "opponent": opponent, "score": round(score.score, 4)}
        record |= {"wins": score.wins, "draws": score.draws, "losses": score.losses}
        if opponent == "rollout":
            record |= {"opponent_simulations": self.level, "verdict": verdict(score.score)}
            self.last = [score.wins, score.draws, score.losses]
            if score.score >= 0.9:
                self.level = min(self.level + self._step, self._highest)
            record["next_opponent_simulations"] = self.level
        else:
            record["opponent_snapshot"] = self._previous[iteration]
        self._forget()
        return record

    def state(self) -> dict[str, Any]:
        """For a checkpoint, as plain JSON; the weights of :meth:`weights` belong to it."""
        return {
            "level": self.level,
            "last": self.last,
            "due": self._due,
            "previous": sorted(self._previous.items()),
        }

    def weights(self) -> dict[int, Weights]:
        """Snapshots' weights that are still needed, by iteration."""
        return dict(self._snapshots)

    def restore(self, state: dict[str, Any], weights: dict[int, Weights]) -> None:
        """Back to what :meth:`state` and :meth:`weights` said; matches without result start again."""
        self.level, self.last = state["level"], list(state["last"])
        self._due = [(int(iteration), str(opponent)) for iteration, opponent in state["due"] if self._games[opponent]]
        self._previous = {int(new): int(old) for new, old in state["previous"]}
        self._snapshots = dict(weights)
        self._started = set()

    def _forget(self) -> None:
        """Drop the weights that no match needs any more; the newest are the next match's opponent."""
        needed = {max(self._snapshots)}
        for iteration, opponent in self._due:
            needed |= {iteration} | ({self._previous[iteration]} if opponent == "previous" else set())
        self._snapshots = {iteration: weights for iteration, weights in self._snapshots.items() if iteration in needed}
        due = {iteration for iteration, _ in self._due}
        self._previous = {new: old for new, old in self._previous.items() if new in due}


def describe(record: dict[str, Any]) -> str:
    """One line about a match's record."""
    counts = f"{record['wins']}/{record['draws']}/{record['losses']}"
    if record["opponent"] == "previous":
        return f"iteration {record['snapshot']} against {record['opponent_snapshot']}: win/draw/loss {counts}"
    line = (
        f"iteration {record['snapshot']} against roll-outs with {record['opponent_simulations']} playouts: "
        f"win/draw/loss {counts}, {record['verdict']}"
    )
    if record["next_opponent_simulations"] != record["opponent_simulations"]:
        line += f"; the opponent now gets {record['next_opponent_simulations']}"
    return line
