# SPDX-License-Identifier: AGPL-3.0-or-later
"""Opening nets and solvers in a throw-away process first, because Caffe aborts the process on input it dislikes.

:mod:`azcaffe.network.probe_child` is started once a process and forks for every job. What has been opened once is
remembered by content in the cache folder, for later processes too, so that a known net costs a hash.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

from azcaffe.errors import AzcaffeError, ConfigError
from azcaffe.network.errors import ModelError
from azcaffe.network.runtime import QUIET_ENVIRONMENT, caffe_folder

SECONDS = 4.0  # a net that takes longer to open and to run on a few empty boards is refused
MEMORY = 8 << 30  # bytes of address space, Caffe's own libraries included
_VERSION = 3  # of the answers in the cache


def probe_net(text: str, phase: int, source: str) -> dict[str, Any]:
    """Open the net `text` in the throw-away process and run it on as many boards as it says and on 3.

    Returns:
        `blobs`: name to shape, and `params`: [layer, shapes] pairs in layer order, at the net's own batch size.

    Raises:
        ModelError: Caffe died of it, or it took too long; the message has Caffe's own.
        AzcaffeError: Caffe is not installed.
    """
    return _ask({"kind": "net", "text": text, "phase": phase}, source)


def probe_solver(text: str, kind: str, source: str) -> dict[str, Any]:
    """Open the solver `text` (its net inside) of type `kind` in the throw-away process and make one step.

    Returns and raises as :func:`probe_net`.
    """
    return _ask({"kind": "solver", "text": text, "type": kind}, source)


def probe_gpu(device: int) -> None:
    """Find out whether this Caffe can use GPU number `device`.

    Raises:
        AzcaffeError: it cannot, and why.
    """
    try:
        _ask({"kind": "gpu", "device": device}, f"GPU {device}")
    except ModelError as error:
        built = "this Caffe is built for the CPU only" if "CPU-only" in str(error) else str(error)
        raise AzcaffeError(f"--gpu {device} is not possible: {built}") from None


def _ask(job: dict[str, Any], source: str) -> dict[str, Any]:
    folder = caffe_folder()
    if folder is None:
        raise AzcaffeError("Caffe is not installed: run launch/setup.sh, then see `azcaffe doctor`")
    known = _cache_file(job, folder)
    try:
        return json.loads(known.read_bytes())
    except (OSError, ValueError, EOFError):
        pass
    python = 'type: "Python"' in job.get("text", "")  # refused before, unless the user allows it
    job["modules"] = [str(Path(entry).absolute()) for entry in sys.path] if python else None
    seconds = _seconds()
    reply = _server(os.getpid(), str(folder)).ask({**job, "seconds": seconds, "memory": MEMORY}, seconds)
    if reply["status"] != 0:
        raise ModelError(f"{source}: {_reason(reply, seconds)}")
    answer: dict[str, Any] = json.loads(reply["answer"])
    if job["kind"] != "gpu":
        _remember(known, reply["answer"])
    return answer


def _seconds() -> float:
    given = os.environ.get("AZCAFFE_PROBE_SECONDS")
    try:
        seconds = float(given) if given else SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise ConfigError(f"AZCAFFE_PROBE_SECONDS must be above 0 and at most 3600, not {given!r}")
    return seconds


def _reason(reply: dict[str, Any], seconds: float) -> str:
    status, log = reply["status"], reply["log"]
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number == signal.SIGALRM:
        return f"Caffe needs more than {seconds:g} s to open and run it (AZCAFFE_PROBE_SECONDS allows more)"
    fatal = re.findall(r"^F\d{4,8} .*?\] (.*(?:\n(?!\*\*\*|[A-Z]\d{4,8} |    @).*)*)", log, re.M)
    if fatal:
        return f"Caffe refuses it: {_one_line(fatal[-1])}"
    if "out of memory" in log or "bad_alloc" in log:
        return f"Caffe runs out of memory ({MEMORY >> 30} GB) on it"
    name = signal.Signals(number).name if number else f"exit code {os.WEXITSTATUS(status)}"
    return f"Caffe dies on it ({name}){': ' if log.strip() else ''}{_one_line(log)}"


def _one_line(text: str) -> str:
    text = re.sub(r" \(known types: .*?\)", "", " ".join(text.split()))
    return text if len(text) <= 300 else text[:300] + " …"


def cache_folder() -> Path:
    """Where azcaffe keeps what it can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "azcaffe"


def _cache_file(job: dict[str, Any], folder: Path) -> Path:
    library = max(folder.glob("_caffe*.so"))
    info = library.stat()
    identity = [_VERSION, str(library.resolve()), info.st_size, info.st_mtime_ns, job]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return cache_folder() / "opened" / f"{digest}.json"


def _remember(path: Path, answer: str) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(answer)
        temporary.replace(path)
    except OSError:
        pass  # without a cache the next process opens it again


@cache
def _server(process: int, folder: str) -> _Server:
    """One server a process: a forked child of ours must not share its parent's pipes."""
    return _Server(folder)


class _Server:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def ask(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            process = self._process
            assert process is not None and process.stdin is not None
            try:
                process.stdin.write(json.dumps(job).encode() + b"\n")
                process.stdin.flush()
                return self._read(seconds + 5)
            except (OSError, ValueError, EOFError):
                self._stop()
                raise ModelError(
                    "the process that opens nets with Caffe first died or hung; nothing was opened"
                ) from None

    def _start(self) -> None:
        environment = {**os.environ, **QUIET_ENVIRONMENT, "GLOG_minloglevel": "2", "GLOG_logtostderr": "1"}
        script = Path(__file__).with_name("probe_child.py")
        self._process = subprocess.Popen(
            [sys.executable, "-s", str(script), self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for us; it ends when our end of the pipe closes
        )
        self._buffer = b""
        try:
            self._read(60)
        except (OSError, ValueError, EOFError):
            self._stop()
            raise AzcaffeError("Caffe's module cannot be loaded; see `azcaffe doctor`") from None

    def _read(self, seconds: float) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        handle = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            if not select.select([handle], [], [], seconds)[0]:
                raise TimeoutError
            part = os.read(handle, 1 << 16)
            if not part:
                raise EOFError
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\n", 1)
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.stdout and self._process.stdout.close()
            self._process.wait()
            self._process = None
