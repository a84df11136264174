# SPDX-License-Identifier: AGPL-3.0-or-later
"""Boards as bit sets: one 64-bit word holds 64 cells, and one instruction asks all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from azcaffe.games.base import BoolArray

Words = NDArray[np.uint64]


def pack(flags: BoolArray) -> Words:
    """Rows of flags (n, cells) as words (n, ceil(cells / 64)): cell i is bit i % 64 of word i // 64."""
    padded = np.zeros((len(flags), -(-flags.shape[1] // 64) * 64), np.bool_)
    padded[:, : flags.shape[1]] = flags
    return np.packbits(padded.reshape(-1), bitorder="little").view("<u8").reshape(len(flags), padded.shape[1] // 64)


def unpack(words: Words, cells: int) -> NDArray[np.uint8]:
    """The first `cells` bits of words (n,), as (n, cells) uint8 0 or 1."""
    return np.unpackbits(words.astype("<u8")[:, None].view(np.uint8), axis=1, count=cells, bitorder="little")
