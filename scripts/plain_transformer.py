"""The transformer of Global Layers in torch's own layers, as one would write it without silobench.

Its training time represents the authors' code: layers, order of weights and number of operations are theirs. With the
same seed it has the same initial weights as the model of bench/models/global_layers.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, selu

WIDTH, HEADS, BLOCKS = 16, 8, 6


class Gated(nn.Module):
    """w_2 (selu(w_1 norm(x)) * w_3 x)."""

    def __init__(self, inputs: int, hidden: int, channels: int, *, bias: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)
        self.narrow, self.widen = nn.Linear(inputs, hidden, bias), nn.Linear(hidden, inputs, bias)
        self.gate = nn.Linear(inputs, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.widen(selu(self.narrow(self.norm(x))) * self.gate(x))


class Block(nn.Module):
    """A transformer block over the features of a sample."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(features)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True)
        self.feedforward = Gated(WIDTH, WIDTH // 2, features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        x = x + self.attention(x, x, x)[0]
        return x + selu(self.feedforward(x))


class Transformer(nn.Module):
    """The paper's network for Covertype: (n, features) -> (n, classes)."""

    def __init__(self, features: int, classes: int, d_global: int) -> None:
        super().__init__()
        width = d_global * WIDTH

        def layer(inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(nn.BatchNorm1d(inputs), nn.Linear(inputs, outputs), nn.SELU())

        self.input_norm = nn.BatchNorm1d(features)
        self.embeddings = nn.ModuleList(nn.Linear(1, WIDTH) for _ in range(features))
        self.embedding_norm = nn.BatchNorm1d(features)
        self.blocks = nn.Sequential(*(Block(features) for _ in range(BLOCKS)))
        self.layer1 = layer(features * WIDTH, 4 * width)
        self.layer2 = Gated(4 * width, width, 4 * width, bias=True)
        self.layer3 = layer(4 * width, 2 * width)
        self.layer4 = Gated(2 * width, width // 2, 2 * width, bias=True)
        self.layer5 = layer(2 * width, width)
        self.norm, self.head = nn.BatchNorm1d(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.input_norm(x)
        x = torch.stack([embed(x[:, i : i + 1]) for i, embed in enumerate(self.embeddings)], dim=1)
        x = self.layer1(self.blocks(self.embedding_norm(x)).flatten(1))
        x = x + self.layer2(x)
        x = self.layer3(x)
        return self.head(self.norm(self.layer5(x + self.layer4(x))))


def rounds(sites: Sequence[tuple[Tensor, Tensor, Transformer]], number: int, batches: int) -> None:
    """Train clients (x, y, model) for ``number`` rounds of ``batches`` mini-batches; average layers 2 to 4 each round.

    There is no validation. As in the authors' code, models are in evaluation mode while they train.
    """
    optimizers = [torch.optim.AdamW(model.eval().parameters(), lr=1e-3, weight_decay=1e-4) for _, _, model in sites]
    for _ in range(number):
        for (x, y, model), optimizer in zip(sites, optimizers, strict=True):
            for rows in torch.randperm(len(x)).split(len(x) // batches)[:batches]:
                optimizer.zero_grad()
                cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
        with torch.no_grad():
            for name in ("layer2", "layer3", "layer4"):
                parts = [model.get_submodule(name).parameters() for _, _, model in sites]
                for shared in zip(*parts, strict=True):
                    mean = torch.stack(shared).mean(0)
                    for own in shared:
                        own.copy_(mean)
