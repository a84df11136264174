# SPDX-License-Identifier: AGPL-3.0-or-later
"""How strong, and how sure: the interval of a match score, and an Elo ladder by maximum likelihood.

The unit of evidence is what was drawn independently. With paired openings that is a pair of games, the same opening
with sides swapped: its two results depend on each other, so counting games as independent would misstate the interval
(chess engine testing calls it the pentanomial model). Without pairs it is one game. A unit's score is the mean of its
games, each 1 for a win, 1/2 for a draw, 0 for a loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from azcaffe.errors import ConfigError

Floats = NDArray[np.float64]

Z95 = 1.959963984540054
ELO_PER_NAT = 400 / math.log(10)
"""Elo points of one unit of log odds: Elo's expected score is 1 / (1 + 10 ** (-difference / 400))."""

PSEUDO_SCORES = (0.0, 0.0, 1.0, 1.0)
"""Two losses and two wins added to every sample before its variance is taken (see :func:`score_interval`)."""


def smoothed(scores: ArrayLike) -> tuple[float, float]:
    """Mean and variance of one unit's score, from unit scores (U,) in [0, 1] and :data:`PSEUDO_SCORES`."""
    sample = np.concatenate([np.asarray(scores, np.float64), PSEUDO_SCORES])
    return float(sample.mean()), float(sample.var())


def score_interval(scores: ArrayLike) -> tuple[float, float]:
    """95 % interval of the expected score, from unit scores (U,) in [0, 1].

    Agresti and Coull's "add two successes and two failures" (The American Statistician 52, 1998), with the variance of
    the sample in place of p(1 - p), so that draws and pairs narrow it as they should. For wins and losses alone it is
    their interval; it stays sensible where the plain one has no width (all games won, or all drawn).
    """
    count = np.size(scores) + len(PSEUDO_SCORES)
    mean, variance = smoothed(scores)
    half = Z95 * math.sqrt(variance / count)
    return max(0.0, mean - half), min(1.0, mean + half)


def elo_difference(score: float) -> float:
    """The Elo difference at which `score` is expected; infinite at 0 and 1."""
    if not 0 < score < 1:
        return math.copysign(math.inf, score - 0.5)
    return ELO_PER_NAT * math.log(score / (1 - score))


@dataclass(frozen=True)
class Pairing:
    """All games between two players of a ladder.

    Attributes:
        first, second: indices of the players.
        scores: (U,) unit scores of `first`, each in [0, 1].
        games: games in a unit, 2 for paired openings, else 1.
    """

    first: int
    second: int
    scores: tuple[float, ...]
    games: int = 1


@dataclass(frozen=True)
class Ladder:
    """Ratings of P players.

    Attributes:
        names: the players.
        elo: (P,) float64, the anchor's at 0, or their mean where there is none.
        error: (P,) float64, half the 95 % interval of `elo` (0 for the anchor itself).
        games: (P,) int64 games played.
        score: (P,) float64 mean score over those games.
        prior: games imagined in each pairing, half of each a win, half a loss: 0, or 1 where someone won or lost all
            games against the rest, so that the likelihood has no finite maximum (Ford 1957).
    """

    names: tuple[str, ...]
    elo: Floats
    error: Floats
    games: NDArray[np.int64]
    score: Floats
    prior: float

    def order(self) -> list[int]:
        """Player indices, strongest first."""
        return sorted(range(len(self.names)), key=lambda player: -self.elo[player])


def fit_ladder(names: Sequence[str], pairings: Sequence[Pairing], anchor: int | None = None) -> Ladder:
    """Elo ratings by maximum likelihood in the model of Bradley and Terry (Biometrika 39, 1952), a draw as half a win.

    At the maximum every player's score is what its ratings predict, so the scale is Elo's with or without draws. The
    intervals are the sandwich estimator's (White, Econometrica 50, 1982): the model's information, and the variance
    of the units as observed, which is right for draws and for paired openings where the model's own is not.

    Raises:
        ConfigError: fewer than two players, a pairing of nobody, or players that no chain of games connects.
    """
    count = len(names)
    if count < 2:
        raise ConfigError("a ladder needs at least two players")
    played = np.zeros((count, count))  # games of i against j
    won = np.zeros((count, count))  # score of i against j
    for pairing in pairings:
        if pairing.first == pairing.second or not {pairing.first, pairing.second} <= set(range(count)):
            raise ConfigError(f"a pairing of players {pairing.first} and {pairing.second} among {count}")
        total, points = len(pairing.scores) * pairing.games, sum(pairing.scores) * pairing.games
        played[pairing.first, pairing.second] += total
        played[pairing.second, pairing.first] += total
        won[pairing.first, pairing.second] += points
        won[pairing.second, pairing.first] += total - points
    if not _reaches_all(played > 0):
        raise ConfigError("no chain of games connects all players: their ratings cannot be compared")
    prior = 0.0 if _reaches_all(won > 0) and _reaches_all(won.T > 0) else 1.0
    met = (played > 0) * prior
    strength = _maximise(played + met, won + met / 2)
    error = _errors(strength, played + met, pairings, anchor)
    origin = strength.mean() if anchor is None else strength[anchor]
    games = played.sum(axis=1)
    return Ladder(
        names=tuple(names),
        elo=ELO_PER_NAT * (strength - origin),
        error=Z95 * ELO_PER_NAT * error,
        games=games.astype(np.int64),
        score=won.sum(axis=1) / np.maximum(games, 1),
        prior=prior,
    )


def _expected(strength: Floats) -> Floats:
    """(P, P): expected score of i against j."""
    return 1 / (1 + np.exp(strength[None, :] - strength[:, None]))


def _information(strength: Floats, played: Floats) -> Floats:
    """(P, P) Fisher information of the strengths: a graph Laplacian, singular along the all-ones direction."""
    expected = _expected(strength)
    weight = played * expected * (1 - expected)
    return np.diag(weight.sum(axis=1)) - weight


def _maximise(played: Floats, won: Floats) -> Floats:
    """Newton's method on a concave likelihood; strengths (P,) in nats, mean 0."""
    strength = np.zeros(len(played))
    for _ in range(200):
        gradient = (won - played * _expected(strength)).sum(axis=1)
        step = np.linalg.pinv(_information(strength, played), hermitian=True) @ gradient
        strength += step / max(1.0, np.abs(step).max())  # at most one nat at a time: far out the curvature misleads
        if np.abs(step).max() < 1e-10:
            break
    return strength - strength.mean()


def _errors(strength: Floats, played: Floats, pairings: Sequence[Pairing], anchor: int | None) -> Floats:
    """(P,) standard errors in nats, against the anchor or the mean."""
    inverse = np.linalg.pinv(_information(strength, played), hermitian=True)
    spread = np.zeros_like(inverse)
    for pairing in pairings:
        contrast = np.zeros(len(strength))
        contrast[pairing.first], contrast[pairing.second] = 1.0, -1.0
        variance = len(pairing.scores) * pairing.games**2 * smoothed(pairing.scores)[1]
        spread += variance * np.outer(contrast, contrast)
    covariance = inverse @ spread @ inverse
    view = np.eye(len(strength))
    if anchor is None:
        view -= 1 / len(strength)
    else:
        view[:, anchor] -= 1
    return np.sqrt(np.maximum(np.diag(view @ covariance @ view.T), 0.0))


def _reaches_all(edge: NDArray[np.bool_]) -> bool:
    """Whether player 0 reaches everybody along `edge` (P, P)."""
    seen = np.zeros(len(edge), bool)
    seen[0] = True
    for _ in range(len(edge)):
        seen |= edge[seen].any(axis=0)
    return bool(seen.all())
