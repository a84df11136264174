# SPDX-License-Identifier: AGPL-3.0-or-later
"""Errors that a user can cause.

Each carries one line that says what is wrong and what to do. The command line prints that line on stderr and exits with
code 2; library callers catch :class:`AzcaffeError`. Anything else that escapes is a bug and keeps its traceback.
"""


class AzcaffeError(Exception):
    """A mistake of the caller, told in one line."""


class ConfigError(AzcaffeError):
    """An option outside its allowed range."""


class GameError(AzcaffeError):
    """An impossible board, an unknown game, or an illegal move."""
