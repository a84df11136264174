# SPDX-License-Identifier: AGPL-3.0-or-later
"""`azcaffe COMMAND [options]`: finds the command's module, parses, runs, and turns every user error into one line.

A command is a row of :data:`COMMANDS` and a module with `add_arguments(parser)` and `run(args) -> int`; it may define
`EXAMPLE`, the command line that its help ends with, and `handover(argv)`, which may pass the options on to another
command. Its docstring is its description. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Sequence

from azcaffe.cli.parser import CommandParser, UsageError
from azcaffe.errors import AzcaffeError

COMMANDS = {
    "test": ("azcaffe.cli.test", "evaluate a net: against MCTS, another net, random moves, itself or you"),
    "train": ("azcaffe.cli.train", "train a net by self-play with caffe.SGDSolver"),
    "play": ("azcaffe.cli.play", "play against a net in the terminal"),
    "show": ("azcaffe.cli.show", "one position: value, priors, visits, best line"),
    "rate": ("azcaffe.cli.rate", "Elo ladder of nets, snapshots and baselines"),
    "verify": ("azcaffe.cli.verify", "walk every opponent reply on a small board; is the net's move optimal?"),
    "optimal": ("azcaffe.cli.optimal", "share of optimal moves on Connect 7x6 by a perfect solver"),
    "serve": ("azcaffe.cli.serve", "play and watch in the browser"),
    "plot": ("azcaffe.cli.plot", "draw training curves from logs"),
    "make-net": ("azcaffe.cli.make_net", "write a net and its solver for any board"),
    "check": ("azcaffe.cli.check", "say what Caffe files hold and whether they fit each other"),
    "actions": ("azcaffe.cli.actions", "print which action number is which square or column"),
    "fetch-models": ("azcaffe.cli.fetch_models", "download the two published caffemodels"),
    "bench": ("azcaffe.cli.bench", "measure speed against bare Caffe"),
    "scale": ("azcaffe.cli.scale", "simulate training on 1 to 1,000 actors of a cluster from costs measured here"),
    "doctor": ("azcaffe.cli.doctor", "say which Caffe, BLAS and Python are in use and whether they fit"),
}

EXIT_OK, EXIT_NO, EXIT_USER_ERROR, EXIT_INTERRUPTED, EXIT_PIPE = 0, 1, 2, 130, 141

HELP_END = """\
Options may be written --like-this or --like_this, as --flag value or --flag=value.
`azcaffe COMMAND --help` explains a command. -v, --version prints the version.
Environment: NO_COLOR, GLOG_minloglevel, OPENBLAS_NUM_THREADS.

Exit codes: 0 done; 1 the answer is no (a verification failed) or a bug; 2 a mistake in the
options or files, told in one line on stderr; 130 stopped by Ctrl-C; 141 the reader went away.

Example:  azcaffe test --test-mode MCTS --games 20 --opponent-playouts 1000"""


def help_text() -> str:
    """What `azcaffe --help` prints: at most 40 lines of at most 100 columns."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    head = "usage: azcaffe COMMAND [options]\n\nAlphaZero for board games on Caffe: evaluate, train and play."
    return "\n".join([head, "", *rows, "", HELP_END])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_PIPE
    except KeyboardInterrupt:
        print("\nazcaffe: stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    except AzcaffeError as error:
        print(f"azcaffe: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_USER_ERROR
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        print(f"azcaffe: {error.strerror or error}{place}", file=sys.stderr)
        return EXIT_USER_ERROR
    return code


def _dispatch(argv: list[str]) -> int:
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    if not argv or argv[0] in ("-h", "--help"):
        print(help_text())
        return EXIT_OK
    if argv[0] in ("-v", "-V", "--version"):
        print(f"azcaffe {version()}")
        return EXIT_OK
    name = argv[0].replace("_", "-")
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else "azcaffe --help lists the commands"
        raise UsageError(f"unknown command {argv[0]!r}; {hint}")
    return run_command(name, argv[1:])


def run_command(name: str, argv: Sequence[str]) -> int:
    """Parse `argv` for the command `name` and run it; returns its exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))  # before numpy is loaded
    module_name, about = COMMANDS[name]
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name == module_name:
            raise UsageError(f"this build of azcaffe has no command {name!r}") from error
        raise
    other = module.handover(argv) if hasattr(module, "handover") else None
    if other is not None:
        return run_command(*other)
    parser = CommandParser(name, (module.__doc__ or about).strip(), getattr(module, "EXAMPLE", ""))
    module.add_arguments(parser)
    parser.add_common()
    args = parser.parse(argv)
    if args is None:
        return EXIT_OK
    if args.verbose:
        os.environ.setdefault("GLOG_minloglevel", "0")
    return int(module.run(args))


def version() -> str:
    """The installed version, or `unknown` in a bare checkout."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("azcaffe")
    except PackageNotFoundError:
        return "unknown"


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not complain about the closed pipe."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
