# SPDX-License-Identifier: AGPL-3.0-or-later
"""What can be wrong with a net, its weights, or a training step."""

from azcaffe.errors import AzcaffeError


class ModelError(AzcaffeError):
    """A prototxt, caffemodel, solver or solverstate that cannot be used: names the file, what is wrong, the remedy."""


class TrainingDiverged(AzcaffeError):
    """A loss or a weight stopped being finite; nothing of that step has been saved."""
