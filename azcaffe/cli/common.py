# SPDX-License-Identifier: AGPL-3.0-or-later
"""Option groups that several commands share, and what they mean: the game, the nets, the search."""

from __future__ import annotations

import argparse
import inspect
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azcaffe.cli.parser import CommandParser, Flag, UsageError, add_config, config_from_args, whole_number
from azcaffe.errors import AzcaffeError
from azcaffe.games.base import Game
from azcaffe.games.registry import GAMES, OPENSPIEL, make_game, parse_game
from azcaffe.progress import Progress
from azcaffe.search import CachedEvaluator, SearchConfig

if TYPE_CHECKING:
    from azcaffe.encoding import Encoding
    from azcaffe.network import NetEvaluator

SEARCH_FLAGS = {
    "simulations": Flag(("--simulations", "--num-playouts"), "playouts a move"),
    "time_ms": Flag(("--time-ms",), "milliseconds a move; the first limit reached ends the search"),
    "c_puct": Flag(("--c-puct",), "weight of the prior against the mean value"),
    "variant": Flag(("--search",), "corrected, or original for the published sign error"),
}
RARE_SEARCH_FLAGS = {
    "fpu_reduction": Flag(("--fpu-reduction",), "first-play urgency reduction; none: unvisited counts as 0"),
    "root": Flag(("--root",), "puct, or gumbel (sequential halving)"),
    "gumbel_considered": Flag(("--gumbel-considered",), "root moves that gumbel considers"),
}


def add_game(parser: CommandParser) -> None:
    """`--game` and the board's options, by our names and the published ones."""
    group = parser.add_argument_group("game")
    group.add_argument(
        "--game", metavar="NAME", help="tictactoe, connectn, othello, openspiel:NAME, or NAME(height=6,…) [tictactoe]"
    )
    group.add_argument("--board-size", type=whole_number, metavar="N", help="squares a side [6]")
    group.add_argument("--board-width", type=whole_number, metavar="N", help="columns; without --game: Connect-N [7]")
    group.add_argument("--board-height", type=whole_number, metavar="N", help="rows; without --game: Connect-N [6]")
    group.add_argument(
        "--connect", "--aligned-to-win", type=whole_number, metavar="N", help="how many in a row win [4, or the side]"
    )


def game_from_args(args: argparse.Namespace) -> Game:
    """The game that the options of :func:`add_game` name.

    Raises:
        GameError: an impossible board, an unknown game.
        UsageError: options that contradict each other.
    """
    height, width, connect = args.board_height, args.board_width, args.connect
    if args.board_size is not None:
        if height is not None or width is not None:
            raise UsageError("give --board-size, or --board-height and --board-width, not both")
        height = width = args.board_size
    name = args.game
    if name is None:
        gravity = args.board_size is None and (args.board_width is not None or args.board_height is not None)
        name = "connectn" if gravity else "tictactoe"
    given = {"height": height, "width": width, "connect": connect, "size": args.board_size}
    given = {key: value for key, value in given.items() if value is not None}
    if "(" in name or name.startswith(OPENSPIEL):
        if given:
            raise UsageError(f"--game {name} says the board already: leave out the board options")
        return parse_game(name)
    if name in GAMES:
        known = inspect.signature(GAMES[name]).parameters
        sides = {"height", "width"} <= set(known)
        given.pop("size" if sides else "height", None)
        if not sides:
            given.pop("width", None)
        elif connect is None and "connect" in known:
            shape = [given.get(side, known[side].default) for side in ("height", "width")]
            given["connect"] = max(3, min(known["connect"].default, *shape))
    return make_game(name, **given)


def add_nets(parser: CommandParser, count: int = 1) -> None:
    """`--model` and `--weights`, twice when a second net may play, and how nets are read."""
    group = parser.add_argument_group("net")
    group.add_argument("--model", "--model-file", metavar="FILE", help="net .prototxt [the one in models/ that fits]")
    group.add_argument("--weights", "--trained-weights", metavar="FILE", help=".caffemodel [the one of the same name]")
    if count > 1:
        group.add_argument("--model2", "--model-file2", metavar="FILE", help="the opponent's net [the same]")
        group.add_argument("--weights2", "--trained-weights2", metavar="FILE", help="the opponent's weights")
    add_net_reading(parser)


def add_net_reading(parser: CommandParser) -> None:
    """How nets are read, wherever their files come from."""
    rare = parser.advanced("reading nets")
    rare.add_argument("--encoding", choices=("absolute", "relative"), help="input planes [by the net's channels]")
    rare.add_argument("--allow-missing", action="store_true", help="layers without weights keep their initial values")
    rare.add_argument("--allow-python-layers", action="store_true", help="let the net run Python code")
    rare.add_argument("--gpu", type=whole_number, metavar="N", help="run Caffe on GPU N [CPU]")
    rare.add_argument("--cache", type=whole_number, default=200_000, metavar="N", help="evaluations kept [200000]")


def add_search(parser: CommandParser, **defaults: Any) -> None:
    """The options of :class:`SearchConfig` that play without noise can use."""
    add_config(parser.add_argument_group("search"), SearchConfig, SEARCH_FLAGS, **defaults)
    add_config(parser.advanced("rare search options"), SearchConfig, RARE_SEARCH_FLAGS, **defaults)


def search_from_args(args: argparse.Namespace, **overrides: Any) -> SearchConfig:
    """The search that the options of :func:`add_search` describe.

    Raises:
        ConfigError: a value outside its range.
    """
    return config_from_args(SearchConfig, args, **overrides)


def add_seed(group: argparse._ActionsContainer) -> None:
    """`--seed`."""
    group.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of every random draw [0]")


def seed_from_args(args: argparse.Namespace) -> int:
    """The seed.

    Raises:
        UsageError: a negative one.
    """
    if args.seed < 0:
        raise UsageError(f"--seed must be at least 0, not {args.seed}")
    return int(args.seed)


def add_searching_net(parser: CommandParser, group: argparse._ArgumentGroup, **search: Any) -> None:
    """`--seed` in `group`, then the game, one net and its search, with other defaults where `search` names any."""
    add_seed(group)
    add_game(parser)
    add_nets(parser)
    add_search(parser, **search)


def check_writable(*names: str | None) -> None:
    """Refuse output files that cannot be written, before hours of work end at them.

    Raises:
        UsageError: the folder does not exist or may not be written, or the name is a folder's.
    """
    for name in names:
        if name is None:
            continue
        path = Path(name).absolute()
        if not path.parent.is_dir():
            raise UsageError(f"the folder of {name} does not exist")
        if path.is_dir():
            raise UsageError(f"{name} is a folder")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UsageError(f"{name} may not be written")


def write_json(name: str, content: Any) -> None:
    """Write `content` to the file that `--json` names; NaN, which is no JSON, is a bug."""
    Path(name).write_text(json.dumps(content, allow_nan=False, indent=1) + "\n")


def progress_from_args(args: argparse.Namespace, label: str, total: int) -> Progress:
    """A progress bar that obeys --quiet."""
    return Progress(label, total, quiet=args.quiet)


class NoNetError(AzcaffeError):
    """Weights whose net was not given and is not found by name."""


@dataclass(frozen=True)
class NetFiles:
    """A net on disk. `name` is what tables call it."""

    model: Path
    weights: Path

    @property
    def name(self) -> str:
        return self.weights.stem


def models_folder() -> Path:
    """Where shipped nets lie: AZCAFFE_MODELS, else `models/` of the checkout, else that of the working directory."""
    named = os.environ.get("AZCAFFE_MODELS")
    if named:
        return Path(named)
    beside = Path(__file__).resolve().parents[2] / "models"
    return beside if beside.is_dir() else Path("models")


def net_files(game: Game, model: str | None, weights: str | None) -> NetFiles:
    """Complete what the user gave: a net for the weights, weights for the net, or the shipped pair that fits the game.

    Raises:
        AzcaffeError: a file is missing, or nothing fits; the message says which option to give.
    """
    for option, given in (("--model", model), ("--weights", weights)):
        if given is not None and not Path(given).is_file():
            what = "is a folder" if Path(given).is_dir() else "does not exist"
            raise AzcaffeError(f"{option} {Path(given).absolute()} {what}")
    if model is not None and weights is not None:
        return NetFiles(Path(model), Path(weights))
    if weights is not None:
        return NetFiles(_model_of(Path(weights)), Path(weights))
    if model is not None:
        found = Path(model).with_suffix(".caffemodel")
        if not found.is_file():
            raise AzcaffeError(f"no weights for {model}: there is no {found}; give --weights FILE")
        return NetFiles(Path(model), found)
    return _shipped(game)


def _model_of(weights: Path) -> Path:
    """The prototxt of the same name beside the weights or in models/; a snapshot's `_iter_N` does not count."""
    stem = weights.name.removesuffix(".h5").removesuffix(".caffemodel")
    stems = [stem, stem.partition("_iter_")[0]]
    folders = [weights.absolute().parent, weights.absolute().parent.parent, models_folder()]
    for folder in folders:
        for name in stems:
            if (folder / f"{name}.prototxt").is_file():
                return folder / f"{name}.prototxt"
    raise NoNetError(f"no net for {weights}: {stem}.prototxt is not beside it nor in {models_folder()}; give --model")


def _shipped(game: Game) -> NetFiles:
    """The net with the most parameters among the trained ones in models/ that fit, else among the fetched originals."""
    from azcaffe.network import read_model

    folder = models_folder()
    fitting = []
    for place in (folder, folder / "original"):
        for weights in sorted(place.glob("*.caffemodel")):
            model = folder / f"{weights.stem}.prototxt"
            if not model.is_file():
                continue
            info = read_model(model)
            fits = (info.height, info.width, info.num_actions) == (*game.shape, game.num_actions)
            if fits and _meant_for(model, game):
                fitting.append((info.parameters, NetFiles(model, weights)))
        if fitting:
            return max(fitting, key=lambda pair: pair[0])[1]
    raise AzcaffeError(
        f"{folder} has no trained net for {game.name}: give --weights FILE (azcaffe fetch-models gets published ones)"
    )


def _meant_for(model: Path, game: Game) -> bool:
    """Whether a shipped file's name goes with the game: a board of the right size may still be another game's."""
    family = {"net_tic_tac": "tictactoe", "net_connect": "connectn", "net_othello": "othello"}
    for prefix, name in family.items():
        if model.name.startswith(prefix):
            return game.name.startswith(name + "(")
    return True


@dataclass(frozen=True)
class NetOptions:
    """How nets are read: the options of :func:`add_nets` beside the files."""

    encoding: str | None = None
    allow_missing: bool = False
    allow_python_layers: bool = False
    gpu: int | None = None
    cache: int = 200_000


def net_options(args: argparse.Namespace) -> NetOptions:
    """The options as given.

    Raises:
        UsageError: a negative cache.
    """
    if args.cache < 0:
        raise UsageError(f"--cache must be at least 0, not {args.cache}")
    return NetOptions(args.encoding, args.allow_missing, args.allow_python_layers, args.gpu, args.cache)


def history_of(files: NetFiles, game: Game, options: NetOptions) -> int:
    """Past boards that the net looks at; 0 for games that bring their own planes."""
    from azcaffe.encoding import Encoding

    if Encoding.of_game(game) is not None:
        return 0
    return _encoding(files, options).past


def net_from_args(args: argparse.Namespace, game: Game) -> tuple[NetFiles, Game, NetOptions]:
    """What :func:`open_net` takes, as the options of :func:`add_nets` say: `game` keeps the past that the net looks at.

    Raises:
        AzcaffeError: a file is missing, nothing fits, or the net cannot be read.
    """
    options = net_options(args)
    files = net_files(game, args.model, args.weights)
    return files, game.with_history(history_of(files, game, options)), options


def _encoding(files: NetFiles, options: NetOptions) -> Encoding:
    from azcaffe.encoding import Encoding
    from azcaffe.network import read_model

    channels = read_model(files.model, options.allow_python_layers).channels
    return Encoding.for_channels(channels, options.encoding)


def open_net(files: NetFiles, game: Game, options: NetOptions) -> NetEvaluator:
    """Check the files against each other and the game, and load them.

    Raises:
        ModelError: they do not fit.
    """
    from azcaffe.network import NetEvaluator

    return NetEvaluator(
        game,
        files.model,
        files.weights,
        _encoding(files, options) if options.encoding is not None else None,
        allow_missing=options.allow_missing,
        allow_python_layers=options.allow_python_layers,
        gpu=options.gpu,
    )


def open_cached(files: NetFiles, game: Game, options: NetOptions) -> CachedEvaluator:
    """The net behind its cache."""
    return CachedEvaluator(open_net(files, game, options), game, options.cache)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
