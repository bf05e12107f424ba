"""Transformer of Global Layers (Obeidi, 2023, section 3.3, appendix C, Figures 2 and 3).

It is the network behind the printed numbers. It differs from the text: batch-norm was trained in evaluation mode (the
norms are affine), the gate multiplies the hidden layer, and only the Covertype model has the gate and a norm of the
input. Tables 11 and 12 exchange d_global: 11 belongs to Covertype, 8 to the heart cohorts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import selu
from torch.nn.utils import skip_init

from bench.native.token_block import EPSILON, HIDDEN, WIDTH, Weights, attention, token_block
from bench.registry import Allowed, register

BLOCKS = 6  # Table 10

Norm = Callable[[int], nn.Module]  # from the number of channels, which are the last axis but one


class Affine(nn.Module):
    """Batch-norm in evaluation mode that was never trained otherwise: mean 0 and variance 1 always."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.weight / math.sqrt(1 + EPSILON))[:, None] + self.bias[:, None]


class BatchNorm(nn.BatchNorm1d):
    """Torch's batch-norm for samples along the last axis."""

    def forward(self, x: Tensor) -> Tensor:
        return _reversed(super().forward(_reversed(x)))


def _reversed(x: Tensor) -> Tensor:
    return x.permute(*reversed(range(x.dim())))


class Along(nn.Linear):
    """Linear layer along the first axis: (inputs, ...) -> (outputs, ...)."""

    def forward(self, x: Tensor) -> Tensor:
        columns = x.flatten(1)
        found = self.weight @ columns if self.bias is None else torch.addmm(self.bias[:, None], self.weight, columns)
        return found.view(-1, *x.shape[1:])


class Embedding(nn.Module):
    """A linear layer for every feature, then a norm: (d, n) -> (e, d, n) (equation 9)."""

    def __init__(self, features: int, norm: Norm) -> None:
        super().__init__()
        layers = [nn.Linear(1, WIDTH) for _ in range(features)]  # for their initial weights
        self.weight = nn.Parameter(torch.stack([layer.weight.detach()[:, 0] for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach() for layer in layers]))
        self.norm = norm(features)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.weight.T[..., None] * x + self.bias.T[..., None])


class MultiHeadAttention(nn.Module):
    """Self-attention with several heads, without biases: (e, d, n) -> (e, d, n)."""

    def __init__(self) -> None:
        super().__init__()
        out = Along(WIDTH, WIDTH, bias=False)  # drawn first, as in torch's attention
        self.project, self.out = skip_init(Along, WIDTH, 3 * WIDTH, bias=False), out
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(attention(self.project(x)))


class GatedFeedforward(nn.Module):
    """w_2 selu(w_1 norm(x)), or with a gate w_2 (selu(w_1 norm(x)) * w_3 x); w_1 and w_3 narrow, w_2 widens."""

    def __init__(self, width: int, hidden: int, norm: nn.Module, *, gate: bool, bias: bool) -> None:
        super().__init__()
        self.norm = norm
        self.narrow, self.widen = Along(width, hidden, bias), Along(hidden, width, bias)
        self.gate = Along(width, hidden, bias=False) if gate else None

    def forward(self, x: Tensor) -> Tensor:
        hidden = selu(self.narrow(self.norm(x)))
        return self.widen(hidden if self.gate is None else hidden * self.gate(x))


class Block(nn.Module):
    """Transformer block over the features of a sample; its residuals start from normalised values."""

    def __init__(self, features: int, norm: Norm, gate: bool) -> None:
        super().__init__()
        self.norm, self.attention = norm(features), MultiHeadAttention()
        self.feedforward = GatedFeedforward(WIDTH, HIDDEN, norm(features), gate=gate, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        norm, inner = self.norm, self.feedforward.norm
        if isinstance(norm, Affine) and isinstance(inner, Affine):
            return token_block(x, self._weights(norm, inner))
        x = norm(x)
        x = x + self.attention(x)
        return x + selu(self.feedforward(x))

    def _weights(self, norm: Affine, inner: Affine) -> Weights:
        attention, feedforward = self.attention, self.feedforward
        return Weights(
            scale=norm.weight,
            shift=norm.bias,
            project=attention.project.weight,
            out=attention.out.weight,
            inner_scale=inner.weight,
            inner_shift=inner.bias,
            narrow=feedforward.narrow.weight,
            widen=feedforward.widen.weight,
            gate=None if feedforward.gate is None else feedforward.gate.weight,
        )


class GLTransformer(nn.Module):
    """Embedding, six blocks, five layers and a head; the second to fourth layer have the same shape for all clients.

    Inside, samples are the last axis, so that no matrix product, forward or backward, needs a transposed copy.
    """

    def __init__(self, features: int, outputs: int, d_global: int, norm: Norm, gate: bool, input_norm: bool) -> None:
        super().__init__()
        width = d_global * WIDTH

        def feedforward(inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(norm(inputs), Along(inputs, outputs), nn.SELU())

        def gated(width: int, hidden: int) -> nn.Module:
            return GatedFeedforward(width, hidden, norm(width), gate=gate, bias=True)

        self.input_norm = norm(features) if input_norm else nn.Identity()
        self.embedding = Embedding(features, norm)
        self.blocks = nn.Sequential(*(Block(features, norm, gate) for _ in range(BLOCKS)))
        self.layer1 = feedforward(features * WIDTH, 4 * width)
        self.layer2 = gated(4 * width, width)
        self.layer3 = feedforward(4 * width, 2 * width)
        self.layer4 = gated(2 * width, width // 2)
        self.layer5 = feedforward(2 * width, width)
        self.norm = norm(width)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.embedding(self.input_norm(x.flatten(1).T)))
        x = self.layer1(x.transpose(0, 1).flatten(0, 1))  # all numbers of the first feature first
        x = x + self.layer2(x)
        x = self.layer3(x)
        x = x + self.layer4(x)
        return self.head(self.norm(self.layer5(x)).T)


_NORMS: dict[str, Norm] = {"affine": Affine, "batch": BatchNorm}


@register("gl_transformer")
def gl_transformer(
    inputs: tuple[int, ...],
    outputs: int,
    *,
    d_global: Annotated[int, Allowed(ge=1)] = 8,
    gate: bool = False,
    input_norm: bool = False,
    norm: Literal["affine", "batch"] = "affine",
) -> nn.Module:
    """Build Global Layers' transformer over features (448,339 parameters for 13 features of the heart cohorts).

    Covertype uses ``d_global`` 11, ``gate`` and ``input_norm`` (915,954 parameters for 6 classes). ``norm`` "affine" is
    behind the printed numbers; "batch" is batch-norm, as in the paper.
    """
    return GLTransformer(math.prod(inputs), outputs, d_global, _NORMS[norm], gate, input_norm)
