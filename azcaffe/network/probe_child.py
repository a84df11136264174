# SPDX-License-Identifier: AGPL-3.0-or-later
"""The throw-away process: opens what it is given with Caffe, so that Caffe's abort() takes only it along.

Run as a program, never imported: `python probe_child.py CAFFE_FOLDER` loads Caffe's C++ module once, then forks a child
for every job, one JSON object a line on standard input, and answers with one line each. Forking is safe here because
this process stays single-threaded (BLAS has one thread) and computes nothing itself. It ends when its standard input
closes.
"""

import importlib
import json
import os
import resource
import signal
import sys
import types
from typing import Any

STDOUT, STDERR = 1, 2


def load(folder: str) -> Any:
    """Caffe's C++ module without the Python package around it, whose imports take longer than everything else here."""
    package = types.ModuleType("caffe")
    package.__path__ = [folder]
    sys.modules["caffe"] = package
    return importlib.import_module("caffe._caffe")


def resize(net: Any, batch: int) -> None:
    """Give planes and labels `batch` boards."""
    names = list(net._blob_names)
    for name in ("input_data", "label_value", "label_probas"):
        if name in names:
            blob = net._blobs[names.index(name)]
            blob.reshape(batch, *list(blob.shape)[1:])
    net.reshape()


def shapes(net: Any) -> dict[str, Any]:
    """Of every blob, and of every layer's learned blobs."""
    return {
        "blobs": {name: list(blob.shape) for name, blob in zip(net._blob_names, net._blobs)},
        "params": [
            [name, [list(blob.shape) for blob in layer.blobs]]
            for name, layer in zip(net._layer_names, net.layers)
            if len(layer.blobs)
        ],
    }


def run(caffe: Any, job: dict[str, Any], path: str) -> dict[str, Any]:
    """Carry out one job; anything Caffe dislikes ends the process here."""
    if job["kind"] == "gpu":
        caffe.set_mode_gpu()
        caffe.set_device(job["device"])
        return {}
    if job["modules"]:  # the net has Python layers, which the user allows: they want the whole of Caffe's package
        del sys.modules["caffe"]
        sys.path[:] = job["modules"]
        importlib.import_module("caffe")
    caffe.set_mode_cpu()
    if job["kind"] == "net":
        net = caffe.Net(path, job["phase"])
        net._forward(0, len(net.layers) - 1)
        report = shapes(net)
        resize(net, 3)
        net._forward(0, len(net.layers) - 1)
        return report
    solver = getattr(caffe, job["type"] + "Solver")(path)
    report = shapes(solver.net)
    solver.step(1)
    return report


def child(caffe: Any, job: dict[str, Any], answer: int, log: int) -> None:
    """One job inside the forked process; never returns."""
    status = 1
    try:
        os.dup2(log, STDERR)
        os.dup2(log, STDOUT)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, job["seconds"])
        text = os.memfd_create("prototxt")
        os.write(text, job.get("text", "").encode())
        os.write(answer, json.dumps(run(caffe, job, f"/proc/self/fd/{text}")).encode())
        status = 0
    except MemoryError:
        os.write(STDERR, b"out of memory")
    except BaseException as error:  # whatever it is, the parent hears of it
        os.write(STDERR, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(status)


def read_back(handle: int) -> str:
    """The content of a memory file, which is closed."""
    size = min(os.lseek(handle, 0, os.SEEK_END), 1 << 26)
    data = os.pread(handle, size, 0)
    os.close(handle)
    return data.decode("utf-8", "replace")


def main() -> None:
    """Answer jobs until standard input closes."""
    caffe = load(sys.argv[1])
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        answer, log = os.memfd_create("answer"), os.memfd_create("log")
        process = os.fork()
        if process == 0:
            child(caffe, job, answer, log)
        _, status = os.waitpid(process, 0)
        print(json.dumps({"status": status, "answer": read_back(answer), "log": read_back(log)}), flush=True)


if __name__ == "__main__":
    main()
