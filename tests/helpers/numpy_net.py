# SPDX-License-Identifier: AGPL-3.0-or-later
"""The one-block net forward and backward in plain NumPy, float64: written from its description, not from Caffe.

Axes: N boards, C channels, H rows, W columns. It is slow and only there to be compared with.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray
Params = dict[str, list[Array]]
SLOPE = 0.02
EPS = 1e-5


def conv(x: Array, weight: Array, bias: Array) -> tuple[Array, Array]:
    """Cross-correlation with 'same' padding; also the columns (N, C k k, H W) that the backward pass needs."""
    n, c, h, w = x.shape
    k = weight.shape[2]
    p = k // 2
    padded = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
    columns = np.stack([padded[:, :, i : i + h, j : j + w] for i in range(k) for j in range(k)], axis=2)
    columns = columns.reshape(n, c * k * k, h * w)
    out = np.einsum("of,nfp->nop", weight.reshape(len(weight), -1), columns) + bias[None, :, None]
    return out.reshape(n, len(weight), h, w), columns


def conv_back(dout: Array, columns: Array, weight: Array, x_shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Gradients of input, weight and bias."""
    n, c, h, w = x_shape
    k = weight.shape[2]
    p = k // 2
    flat = dout.reshape(n, len(weight), h * w)
    dweight = np.einsum("nop,nfp->of", flat, columns).reshape(weight.shape)
    dcolumns = np.einsum("of,nop->nfp", weight.reshape(len(weight), -1), flat).reshape(n, c, k * k, h, w)
    padded = np.zeros((n, c, h + 2 * p, w + 2 * p))
    for index in range(k * k):
        i, j = divmod(index, k)
        padded[:, :, i : i + h, j : j + w] += dcolumns[:, :, index]
    return padded[:, :, p : p + h, p : p + w], dweight, flat.sum(axis=(0, 2))


def relu(x: Array, slope: float = SLOPE) -> Array:
    """Leaky ReLU."""
    return np.where(x > 0, x, slope * x)


def relu_back(dout: Array, x: Array) -> Array:
    """Gradient of :func:`relu`."""
    return np.where(x > 0, dout, SLOPE * dout)


def softmax(x: Array) -> Array:
    """Over the last axis."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def losses_and_gradients(params: Params, x: Array, policy: Array, value: Array) -> tuple[float, float, Params]:
    """Value loss sum (v - z)^2 / 2N, policy loss mean -sum t log p, and the gradients of their sum."""
    x, policy, value = (np.asarray(a, np.float64) for a in (x, policy, value))
    p = {name: [np.asarray(blob, np.float64) for blob in blobs] for name, blobs in params.items()}
    n = len(x)
    a1, cols1 = conv(x, *p["conv1"])
    h1 = relu(a1)
    a2, cols2 = conv(h1, *p["res1_conv1"])
    h2 = relu(a2)
    a3, cols3 = conv(h2, *p["res1_conv2"])
    total = h1 + a3
    trunk = relu(total)

    av, colsv = conv(trunk, *p["Value_conv1"])
    hv = relu(av).reshape(n, -1)
    af = hv @ p["Value_fc1"][0].T + p["Value_fc1"][1]
    hf = relu(af)
    v = np.tanh(hf @ p["Value_Output"][0].T + p["Value_Output"][1])[:, 0]

    ap, colsp = conv(trunk, *p["Probas_conv1"])
    hp = relu(ap).reshape(n, -1)
    probabilities = softmax(hp @ p["Probas_Output"][0].T + p["Probas_Output"][1])
    value_loss = float(((v - value) ** 2).sum() / (2 * n))
    policy_loss = float(-(policy * np.log(probabilities)).sum() / n)

    g: Params = {}
    dz = ((v - value) / n * (1 - v**2))[:, None]
    g["Value_Output"] = [dz.T @ hf, dz.sum(axis=0)]
    daf = relu_back(dz @ p["Value_Output"][0], af)
    g["Value_fc1"] = [daf.T @ hv, daf.sum(axis=0)]
    dav = relu_back((daf @ p["Value_fc1"][0]).reshape(av.shape), av)
    dtrunk, *g["Value_conv1"] = conv_back(dav, colsv, p["Value_conv1"][0], trunk.shape)

    dlogits = (probabilities * policy.sum(axis=1, keepdims=True) - policy) / n
    g["Probas_Output"] = [dlogits.T @ hp, dlogits.sum(axis=0)]
    dap = relu_back((dlogits @ p["Probas_Output"][0]).reshape(ap.shape), ap)
    dtrunk2, *g["Probas_conv1"] = conv_back(dap, colsp, p["Probas_conv1"][0], trunk.shape)

    dtotal = relu_back(dtrunk + dtrunk2, total)
    dh2, *g["res1_conv2"] = conv_back(dtotal, cols3, p["res1_conv2"][0], h2.shape)
    dh1, *g["res1_conv1"] = conv_back(relu_back(dh2, a2), cols2, p["res1_conv1"][0], h1.shape)
    _, *g["conv1"] = conv_back(relu_back(dtotal + dh1, a1), cols1, p["conv1"][0], x.shape)
    return value_loss, policy_loss, g


def batch_norm(params: Params, blob: str, x: Array, training: bool) -> Array:
    """BatchNorm over N, H, W then Scale with bias: batch statistics in training, else the accumulated.

    Caffe divides by sqrt(variance + eps) with the biased variance in the batch.
    """
    axes = (0, 2, 3)
    if training:
        mean, variance = x.mean(axis=axes), x.var(axis=axes)
    else:
        total_mean, total_variance, weight = (np.asarray(b, np.float64) for b in params[f"{blob}_norm"])
        mean, variance = total_mean / weight[0], total_variance / weight[0]
    gamma, beta = (np.asarray(b, np.float64)[None, :, None, None] for b in params[f"{blob}_scale"])
    return (x - mean[None, :, None, None]) / np.sqrt(variance + EPS)[None, :, None, None] * gamma + beta


def batch_norm_forward(params: Params, x: Array, training: bool) -> tuple[Array, Array]:
    """Priors (N, A) and values (N,) of the batch_norm net (one block, plain ReLU)."""
    p = {name: [np.asarray(blob, np.float64) for blob in blobs] for name, blobs in params.items()}

    def layer(name: str, blob: str, inputs: Array) -> Array:
        return batch_norm(p, blob, conv(inputs, *p[name])[0], training)

    h1 = relu(layer("conv1", "conv1", np.asarray(x, np.float64)), 0)
    h2 = relu(layer("res1_conv1", "res1_conv1", h1), 0)
    trunk = relu(h1 + layer("res1_conv2", "res1_conv2", h2), 0)
    hv = relu(layer("Value_conv1", "value_conv1", trunk), 0).reshape(len(x), -1)
    hf = relu(hv @ p["Value_fc1"][0].T + p["Value_fc1"][1], 0)
    values = np.tanh(hf @ p["Value_Output"][0].T + p["Value_Output"][1])[:, 0]
    hp = relu(layer("Probas_conv1", "probas_conv1", trunk), 0).reshape(len(x), -1)
    return softmax(hp @ p["Probas_Output"][0].T + p["Probas_Output"][1]), values
