# SPDX-License-Identifier: AGPL-3.0-or-later
"""The parser: spelling of options, flags from dataclasses, hidden groups."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azcaffe.cli.parser import CommandParser, Flag, UsageError, add_config, config_from_args, ranged, yes_or_no
from azcaffe.errors import ConfigError


@dataclass(frozen=True)
class Settings:
    rounds: int = 3
    rate: float = 0.5
    limit: int | None = None
    name: str = "x"
    mirror: bool = True

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ConfigError("rounds must be at least 1")


FLAGS = {
    "rounds": Flag(("--rounds", "--num-rounds"), "how many"),
    "rate": Flag(("--rate",), "how fast"),
    "limit": Flag(("--limit",), "at most"),
    "mirror": Flag(("--mirror",), "turn it round"),
}


def parse(*words: str) -> Settings:
    parser = CommandParser("thing")
    add_config(parser, Settings, FLAGS)
    parser.add_common()
    args = parser.parse(words)
    assert args is not None
    return config_from_args(Settings, args)


def test_defaults_are_the_dataclasses() -> None:
    assert parse() == Settings()


@pytest.mark.parametrize("words", ["--num-rounds 7", "--num_rounds 7", "--num_rounds=7", "-num_rounds=7", "--rounds=7"])
def test_spellings_of_one_option(words: str) -> None:
    assert parse(*words.split()).rounds == 7


def test_types_come_from_the_fields() -> None:
    assert parse("--rate", "2", "--limit", "none", "--mirror=0") == Settings(rate=2.0, mirror=False)
    assert parse("--limit=5", "--mirror") == Settings(limit=5)
    with pytest.raises(UsageError, match="whole number"):
        parse("--rounds", "1.5")
    with pytest.raises(UsageError, match="neither 0 nor 1"):
        parse("--mirror", "2")
    with pytest.raises(ConfigError, match="rounds"):
        parse("--rounds", "0")


def test_negative_and_odd_values_reach_their_option() -> None:
    assert parse("--rate", "-1e3").rate == -1000.0
    with pytest.raises(UsageError):
        parse("--rate", "-x")


def test_overrides_win_and_unknown_ones_are_refused() -> None:
    parser = CommandParser("thing")
    add_config(parser, Settings, FLAGS, prefix="other_", rounds=9)
    args = parser.parse(["--rate", "4"])
    assert args is not None
    assert config_from_args(Settings, args, "other_") == Settings(rounds=9, rate=4.0)
    assert config_from_args(Settings, args, "other_", rate=1.0).rate == 1.0
    with pytest.raises(ConfigError, match="no setting"):
        config_from_args(Settings, args, speed=1)


def test_rare_options_are_in_the_long_help_only(capsys: pytest.CaptureFixture[str]) -> None:
    parser = CommandParser("thing", "Does things.", "azcaffe thing")
    parser.add_argument_group("often").add_argument("--often", help="a")
    parser.advanced("seldom").add_argument("--seldom", help="b")
    parser.add_common()
    assert parser.parse(["--help"]) is None
    short = capsys.readouterr().out
    assert parser.parse(["--help-all"]) is None
    long = capsys.readouterr().out
    assert "--often" in short and "--seldom" not in short
    assert "--seldom" in long
    assert vars(parser.parse(["--seldom", "1"]) or object())["seldom"] == "1"


def test_ranged() -> None:
    parser = CommandParser("thing")
    parser.add_argument("--n", type=ranged(1, 9))
    with pytest.raises(UsageError, match="1 … 9"):
        parser.parse(["--n", "10"])


@given(st.lists(st.text(max_size=8), max_size=4))
def test_no_words_escape_as_anything_but_a_usage_error(words: list[str]) -> None:
    parser = CommandParser("thing")
    parser.add_argument("--flag", type=yes_or_no, nargs="?")
    parser.add_argument("--n", type=int)
    try:
        parser.parse(words)
    except UsageError as error:
        assert str(error)
