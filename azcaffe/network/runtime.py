# SPDX-License-Identifier: AGPL-3.0-or-later
"""Importing Caffe, in the one place that does it."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

from azcaffe.errors import AzcaffeError

# Caffe convolves image by image, so threads inside BLAS only get into each other's way; work is spread over processes.
QUIET_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def prepare_environment(verbose: bool = False) -> None:
    """Set what Caffe, glog and BLAS read from the environment once, before they are loaded; the user's settings win.

    `verbose` lets Caffe's own log through; else only errors and the fatal message of a dying process are shown.
    """
    os.environ.setdefault("GLOG_minloglevel", "0" if verbose else "2")
    os.environ.setdefault("GLOG_logtostderr", "1")
    if not any(name in os.environ for name in QUIET_ENVIRONMENT):
        os.environ.update(QUIET_ENVIRONMENT)


def caffe_folder() -> Path | None:
    """The folder of the installed Caffe's Python package, found without importing it; None where there is none."""
    spec = importlib.util.find_spec("caffe")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if any(Path(folder).glob("_caffe*.so")):
            return Path(folder)
    return None


def load_caffe() -> Any:
    """The `caffe` module in CPU mode, its log quiet.

    Raises:
        AzcaffeError: Caffe is not installed or cannot be loaded.
    """
    prepare_environment()
    try:
        return importlib.import_module("caffe")
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise AzcaffeError(
            f"Caffe's Python module cannot be loaded ({reason}): run launch/setup.sh, then see `azcaffe doctor`"
        ) from None
