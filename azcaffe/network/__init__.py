# SPDX-License-Identifier: AGPL-3.0-or-later
"""Everything that touches Caffe: nets written, checked, run and trained. Importing this does not import Caffe."""

from azcaffe.network.check import CheckReport, check_files
from azcaffe.network.errors import ModelError, TrainingDiverged
from azcaffe.network.evaluate import NetEvaluator
from azcaffe.network.files import Weights, load_weights, save_weights
from azcaffe.network.model import ModelInfo, model_history, read_model
from azcaffe.network.runtime import load_caffe, prepare_environment
from azcaffe.network.solver import Losses, Solver
from azcaffe.network.spec import (
    NetSpec,
    SolverSpec,
    build_net,
    make_net_command,
    write_net,
    write_net_with_caffe_convolution,
    write_solver,
)

__all__ = [
    "CheckReport",
    "Losses",
    "ModelError",
    "ModelInfo",
    "NetEvaluator",
    "NetSpec",
    "Solver",
    "SolverSpec",
    "TrainingDiverged",
    "Weights",
    "build_net",
    "check_files",
    "load_caffe",
    "load_weights",
    "make_net_command",
    "model_history",
    "prepare_environment",
    "read_model",
    "save_weights",
    "write_net",
    "write_net_with_caffe_convolution",
    "write_solver",
]
