# SPDX-License-Identifier: AGPL-3.0-or-later
"""The option parser: one-line errors with the nearest name, help that fits a screen, flags from config dataclasses."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
import textwrap
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from azcaffe.errors import AzcaffeError, ConfigError

Config = TypeVar("Config")
WIDTH = 100
"""Columns of a help text."""


class UsageError(AzcaffeError):
    """A command line that cannot be understood."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """One line an option: its first name only (the others are aliases), help beside it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=WIDTH)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        if action.nargs == 0:
            return action.option_strings[0]
        return f"{action.option_strings[0]} {self._format_args(action, action.dest.upper())}"


class CommandParser(argparse.ArgumentParser):
    """A subcommand's parser. Options that few need go into :meth:`advanced`, which only `--help-all` prints.

    Names are registered with dashes (`--board-size`); :meth:`parse` accepts underscores and one leading dash
    for them too, as the published program's command lines have it.
    """

    def __init__(self, command: str, description: str = "", example: str = "") -> None:
        super().__init__(
            prog=f"azcaffe {command}",
            usage=f"azcaffe {command} [options]",
            description="\n\n".join(textwrap.fill(part, WIDTH) for part in description.split("\n\n")),
            epilog=f"Example:  {example}" if example else None,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self._hidden: list[argparse._ArgumentGroup] = []
        self._negative_number_matcher = re.compile(r"-(\d|\.\d|inf|nan)")  # values, never options: -1e3 too

    def advanced(self, title: str) -> argparse._ArgumentGroup:
        """A group of options that `--help` leaves out and `--help-all` prints."""
        group = self.add_argument_group(title)
        self._hidden.append(group)
        return group

    def add_common(self) -> None:
        """The options of every command, told in one line of the help."""
        names = ["--quiet", "--verbose", "--help", *(["--help-all"] if self._hidden else [])]
        for name in names:
            self.add_argument(name, *(["-h"] if name == "--help" else []), action="store_true", help=argparse.SUPPRESS)
        line = "Also: --quiet no progress on stderr, --verbose Caffe's own log"
        line += ", --help-all the rare options too." if self._hidden else "."
        self.epilog = line if self.epilog is None else f"{line}\n{self.epilog}"

    def parse(self, argv: Sequence[str]) -> argparse.Namespace | None:
        """The options, or None after printing help.

        Raises:
            UsageError: an unknown option (with the nearest known one), a missing or malformed value.
        """
        argv = self._normalise(argv)
        asked = argv[: argv.index("--")] if "--" in argv else argv
        if "--help-all" in asked and self._hidden:
            print(self.format_help(), end="")
            return None
        if "--help" in asked or "-h" in asked:
            print(self.short_help(), end="")
            return None
        for word in asked:  # before argparse, which would first complain of what is missing
            if word.startswith("--") and word.partition("=")[0] not in self._option_string_actions:
                raise UsageError(self._unknown(word))
        args, unknown = self.parse_known_args(argv)
        for word in unknown:
            raise UsageError(self._unknown(word))
        return args

    def short_help(self) -> str:
        """The help without the advanced groups, and without blank lines between the others: it should fit a screen."""
        groups = self._action_groups
        self._action_groups = [group for group in groups if group not in self._hidden]
        try:
            text = self.format_help()
        finally:
            self._action_groups = groups
        head, blank, rest = text.partition(":\n  ")
        return head + blank + re.sub(r"\n\n(?=[^\n]+:\n)", "\n", rest)

    def error(self, message: str) -> typing.NoReturn:
        """Raise what argparse would print and exit for."""
        raise UsageError(f"{message.removeprefix('argument ')} (azcaffe {self.prog.split()[-1]} --help)")

    def _normalise(self, argv: Sequence[str]) -> list[str]:
        known, words = self._option_string_actions, list(argv)
        for at, word in enumerate(words):
            if word == "--":
                break
            if not word.startswith("-"):
                continue
            name, equals, value = word.partition("=")
            dashed = "--" + name.lstrip("-").replace("_", "-")
            if name not in known and dashed in known:
                words[at] = dashed + equals + value
        return words

    def _unknown(self, word: str) -> str:
        name = word.partition("=")[0].replace("_", "-")
        if not name.startswith("-"):
            return f"{word!r} is not expected here ({self.prog} --help)"
        near = difflib.get_close_matches(name, self._option_string_actions, 1, 0.5)
        return f"unknown option {word.partition('=')[0]}; " + (
            f"did you mean {near[0]}?" if near else f"{self.prog} --help lists them"
        )


def whole_number(text: str) -> int:
    """An int option's value."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None


def number(text: str) -> float:
    """A float option's value."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number") from None


def yes_or_no(text: str) -> bool:
    """A published flag's value, 0 or 1 (or yes, no, true, false)."""
    if text.lower() in ("1", "true", "yes"):
        return True
    if text.lower() in ("0", "false", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text[:40]!r} is neither 0 nor 1")


def ranged(low: float, high: float, kind: Callable[[str], Any] = whole_number) -> Callable[[str], Any]:
    """A value between `low` and `high`, both allowed; for options that no config dataclass checks."""

    def parse(text: str) -> Any:
        value = kind(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be {low:,} … {high:,}, not {text[:40]}")
        return value

    return parse


@dataclasses.dataclass(frozen=True)
class Flag:
    """How one field of a config dataclass appears on the command line."""

    names: tuple[str, ...]
    help: str


def add_config(
    group: argparse._ActionsContainer, config: type, flags: Mapping[str, Flag], prefix: str = "", **defaults: Any
) -> None:
    """Give each field of `config` named in `flags` an option of the field's type and default.

    The option's dest is `prefix` + the field's name; `defaults` override the dataclass's own.
    """
    hints = typing.get_type_hints(config)
    fields = {field.name: field for field in dataclasses.fields(config)}
    for name, flag in flags.items():
        kind, optional = _plain_type(hints[name])
        default = defaults.get(name, fields[name].default)
        shown = "" if default is None or default is dataclasses.MISSING else f" [{default}]"
        options: dict[str, Any] = {"dest": prefix + name, "default": default, "help": flag.help + shown}
        if kind is bool:
            options |= {"type": yes_or_no, "nargs": "?", "const": True, "metavar": "0|1"}
        else:
            read = {int: whole_number, float: number}.get(kind, str)
            options |= {"type": _or_none(read) if optional else read}
            options |= {"metavar": {int: "N", float: "X"}.get(kind, "NAME")}
        group.add_argument(*flag.names, **options)


def config_from_args(config: type[Config], args: argparse.Namespace, prefix: str = "", **overrides: Any) -> Config:
    """The config of those options of `args` that are fields of `config`, `overrides` winning.

    Raises:
        ConfigError: a value outside its range.
    """
    given = vars(args)
    names = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    values = {name: given[prefix + name] for name in names if prefix + name in given}
    unknown = overrides.keys() - set(names)
    if unknown:
        raise ConfigError(f"{config.__name__} has no setting {', '.join(sorted(unknown))}")
    return config(**(values | overrides))


def _plain_type(hint: Any) -> tuple[type, bool]:
    """(int, True) of `int | None`, (int, False) of `int`."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        inner = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return inner[0], True
    return hint, False


def _or_none(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text.lower() == "none" else read(text)
