# SPDX-License-Identifier: AGPL-3.0-or-later
"""What `azcaffe doctor` asks of Caffe, in a process of its own because a broken Caffe may take its process along.

Run as a program, never imported: `python doctor_child.py` imports the whole of pycaffe as a user would, runs one
convolution beside NumPy and prints one JSON object: version, folder, layers, gpu, blas, error, microseconds.
"""

import sys

sys.path.pop(0)  # this folder: its modules are no top-level ones

import ctypes
import json
import os
import re
import tempfile
import time
from typing import Any

BOARDS, CHANNELS, SIDE = 32, 64, 6
NET = f"""
layer {{ name: "data" type: "Input" top: "data"
         input_param {{ shape {{ dim: {BOARDS} dim: {CHANNELS} dim: {SIDE} dim: {SIDE} }} }} }}
layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
         convolution_param {{ num_output: {CHANNELS} kernel_size: 3 pad: 1
                              weight_filler {{ type: "gaussian" std: 0.1 }} }} }}
"""


def loaded_libraries() -> list[str]:
    """Paths of the shared libraries in this process."""
    with open("/proc/self/maps") as maps:
        return sorted({line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line})


def describe_blas(paths: list[str]) -> dict[str, Any] | None:
    """The BLAS that Caffe is linked to (NumPy's own lies in another folder): name, kernel, threads."""
    for path in sorted(paths, key=lambda path: "libopenblas" not in path):  # Debian's NumPy loads its libblas.so.3 too
        known = re.search(r"openblas|mkl_rt|atlas|libblas", os.path.basename(path))
        if not known or "numpy" in path or "scipy" in path:
            continue
        report: dict[str, Any] = {"path": path, "name": os.path.basename(path), "kernel": None, "threads": None}
        library = ctypes.CDLL(path)
        if hasattr(library, "openblas_get_config"):
            for function in ("openblas_get_config", "openblas_get_corename"):
                getattr(library, function).restype = ctypes.c_char_p
            report["name"] = " ".join(library.openblas_get_config().decode().split()[:2])
            report["kernel"] = library.openblas_get_corename().decode()
            report["threads"] = library.openblas_get_num_threads()
        return report
    return None


def convolution_by_numpy(planes: Any, weights: Any, bias: Any, np: Any) -> Any:
    """The same 3x3 convolution, pad 1, in double precision."""
    padded = np.pad(planes.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("bcyxij,ocij->boyx", windows, weights.astype(np.float64), optimize=True) + bias[:, None, None]


def try_convolution(caffe: Any) -> tuple[float, float]:
    """(largest relative difference from NumPy, best microseconds a board) of one convolution of the published nets."""
    import numpy as np

    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(NET)
        file.flush()
        net = caffe.Net(file.name, caffe.TEST)
    net.blobs["data"].data[...] = np.random.default_rng(0).standard_normal(net.blobs["data"].data.shape)
    seconds = []
    for _ in range(20):
        began = time.perf_counter()
        net.forward()
        seconds.append(time.perf_counter() - began)
    weights, bias = (blob.data for blob in net.params["conv"])
    right = convolution_by_numpy(net.blobs["data"].data, weights, bias, np)
    error = np.abs(net.blobs["conv"].data - right).max() / np.abs(right).max()
    return float(error), min(seconds) * 1e6 / BOARDS


def main() -> None:
    import caffe

    caffe.set_mode_cpu()
    error, microseconds = try_convolution(caffe)
    libraries = loaded_libraries()
    report = {
        "version": caffe.__version__,
        "folder": os.path.dirname(caffe.__file__),
        "layers": list(caffe.layer_type_list()),
        "gpu": any("libcudart" in path for path in libraries),
        "blas": describe_blas(libraries),
        "error": error,
        "microseconds": microseconds,
    }
    print(json.dumps(report))


main()
