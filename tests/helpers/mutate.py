# SPDX-License-Identifier: AGPL-3.0-or-later
# ruff: noqa: E501 (cases read best on one line)
"""Damaged prototxts and binaries, each a function of a seed."""

from __future__ import annotations

import random
import re

NUMBERS = [
    "-1", "0", "1", "2", "3", "7", "64", "255", "1000", "65536", "2147483647", "2147483648", "4294967295", "-2147483648",
    "18446744073709551615", "1e30", "-1e-30", "nan", "inf", "0.5", "1e6", '"x"', "true", "SUM", "PROD", "MAX",
]  # fmt: skip
TYPES = [
    "Convolution", "Deconvolution", "InnerProduct", "ReLU", "Eltwise", "Softmax", "BatchNorm", "Scale", "Bias", "Input", "TanH",
    "Pooling", "Concat", "Slice", "Reshape", "Flatten", "Reduction", "Log", "Exp", "Power", "Silence", "Split", "Dropout", "LRN",
    "MVN", "PReLU", "Tile", "Crop", "SPP", "Embed", "LSTM", "RNN", "Accuracy", "ArgMax", "Im2col", "Data", "HDF5Output", "Python",
    "SoftmaxWithLoss", "EuclideanLoss", "InfogainLoss", "HingeLoss", "BatchReindex", "Filter", "Parameter", "DummyData",
    "LSTMUnit", "ContrastiveLoss", "MultinomialLogisticLoss", "SigmoidCrossEntropyLoss", "Threshold", "BNLL", "ELU", "AbsVal", "",
]  # fmt: skip
EXTRAS = [
    "axis: 9", "include { phase: TRAIN }", "exclude { phase: TEST }", "loss_weight: 1", "propagate_down: true", "param { lr_mult: -3 }",
    'param { name: "shared" }', "force_backward: true", "debug_info: true", "bias_term: false", "group: 3", "dilation: 5", "pad: 200",
    "stride: 0", "kernel_h: 2", "engine: CUDNN", "transpose: true", "use_global_stats: true", "num_axes: -1", "phase: TEST",
    "pooling_param { kernel_size: 2 }", "reshape_param { shape { dim: 0 dim: -1 } }", "slice_param { slice_point: 1 }",
    "dropout_param { dropout_ratio: 1 }", "tile_param { tiles: 100000 }", "lrn_param { local_size: 2 }", "}", "{",
    'input: "x"', "input_dim: 4", "layers { type: RELU }", "convolution_param { num_output: 4 kernel_size: 1 }",
    'recurrent_param { num_output: 5 }', "embed_param { input_dim: 2 num_output: 3 }", "crop_param { offset: 9 }",
]  # fmt: skip


def mutate_text(text: str, seed: int) -> str:
    """`text` with 1 to 4 damages that a person, a merge or a bad disk could do."""
    rng = random.Random(seed)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        text = rng.choice(_TEXT_DAMAGES)(text, rng)
    return text


def _replace_one(pattern: str, values: list[str]) -> object:
    def damage(text: str, rng: random.Random) -> str:
        found = list(re.finditer(pattern, text))
        if not found:
            return text
        at = rng.choice(found)
        value = rng.choice(values) if values else rng.choice(found).group(1)
        return text[: at.start(1)] + value + text[at.end(1) :]

    return damage


def _lines(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    how = rng.randrange(4)
    if how == 0:
        del lines[at : at + rng.choice([1, 1, 3, 10])]
    elif how == 1:
        lines[at:at] = lines[at : at + rng.choice([1, 3, 10])]
    elif how == 2:
        lines.insert(at, rng.choice(EXTRAS))
    else:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def _layers(text: str, rng: random.Random) -> str:
    parts = re.split(r"(?m)^(?=layer \{)", text)
    at = rng.randrange(len(parts))
    how = rng.randrange(3)
    if how == 0:
        del parts[at]
    elif how == 1:
        parts.insert(at, parts[rng.randrange(len(parts))])
    else:
        rng.shuffle(parts)
    return "".join(parts)


def _characters(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return (
        text[:at]
        + rng.choice(["", "\x00", "é", '"', "}", "# ", "\n", chr(rng.randrange(32, 127))])
        + text[at + rng.randrange(3) :]
    )


def _cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(1, len(text))] if len(text) > 1 else text


_TEXT_DAMAGES: list = [
    _replace_one(r": ([\w.+-]+)\n", NUMBERS),
    _replace_one(r": ([\w.+-]+)\n", NUMBERS),
    _replace_one(r'type: "(\w*)"', TYPES),
    _replace_one(r'bottom: "(\w*)"', []),
    _replace_one(r'top: "(\w*)"', []),
    _replace_one(r'name: "(\w*)"', []),
    _replace_one(r'"(\w*)"', []),
    _replace_one(r"(\w+):", []),
    _lines,
    _lines,
    _layers,
    _characters,
    _cut,
]


def mutate_bytes(data: bytes, seed: int) -> bytes:
    """`data` with bits flipped, pieces cut out, repeated or zeroed."""
    rng = random.Random(seed)
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(out)) if rng.random() < 0.5 else rng.randrange(min(len(out), 300))
        length = rng.choice([1, 2, 16, 1000])
        how = rng.randrange(5)
        if how == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del out[at : at + length]
        elif how == 2:
            out[at:at] = out[at : at + length]
        elif how == 3:
            out[at : at + length] = rng.randbytes(min(length, len(out) - at))
        else:
            del out[max(at, 1) :]
        if not out:
            out = bytearray(b"\x00")
    return bytes(out)
