"""Networks of PLayer-FL (Elhussein & Gürsoy, 2025, Table A.2), in the sizes of the released code.

There are no normalisation layers. Initial weights are Kaiming-normal (fan-in, gain of ReLU), initial biases 0. The
layers that PLayer-FL chooses between are the children with weights, in order. A single output ends in a sigmoid.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, relu, softmax

from bench.models.shapes import image
from bench.models.tabular import Share, Width, classifier
from bench.registry import register
from bench.types import SpecError


def _kaiming(module: nn.Module) -> nn.Module:
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module


def _convolutional(
    depth: int, channels: list[int], kernel: int, padding: int, pooled: set[int], dropout: dict[int, float],
    hidden: int, outputs: int,
) -> nn.Module:  # fmt: skip
    """Build layer1 ... layerK (convolution, ReLU, optional 2x2 pooling and dropout), global average, fc1, fc2."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (entering, leaving) in enumerate(zip([depth, *channels], channels, strict=False), start=1):
        parts[f"layer{number}"] = nn.Conv2d(entering, leaving, kernel, padding=padding)
        parts[f"relu{number}"] = nn.ReLU()
        if number in pooled:
            parts[f"pool{number}"] = nn.MaxPool2d(2)
        if number in dropout:
            parts[f"dropout{number}"] = nn.Dropout(dropout[number])
    parts["average"] = nn.AdaptiveAvgPool2d(1)
    parts["flatten"] = nn.Flatten()
    parts["fc1"] = nn.Linear(channels[-1], hidden)
    parts["relu"] = nn.ReLU()
    parts["fc2"] = classifier(hidden, outputs)
    return _kaiming(nn.Sequential(parts))


@register("player_fmnist")
def player_fmnist(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """Build three convolutions for FashionMNIST (1,052,758 parameters) and EMNIST (1,058,010)."""
    depth, _, _ = image("player_fmnist", inputs, 8)
    return _convolutional(depth, [64, 128, 256], 5, 2, {1, 2, 3}, {}, 100, outputs)


@register("player_cifar")
def player_cifar(inputs: tuple[int, ...], outputs: int, *, dropout: Share = 0.3) -> nn.Module:
    """Build five convolutions for CIFAR-10 (3,963,094 parameters); padding 2 enlarges the maps."""
    depth, _, _ = image("player_cifar", inputs)
    everywhere = dict.fromkeys(range(1, 6), dropout)
    return _convolutional(depth, [64, 128, 256, 512, 512], 3, 2, {2, 4}, everywhere, 100, outputs)


@register("player_isic")
def player_isic(inputs: tuple[int, ...], outputs: int, *, dropout: Share = 0.2) -> nn.Module:
    """Build five convolutions for ISIC-2019 (1,700,932 parameters)."""
    depth, _, _ = image("player_isic", inputs, 8)
    last = dict.fromkeys((3, 4, 5), dropout)
    return _convolutional(depth, [32, 64, 128, 256, 512], 3, 1, {3, 4, 5}, last, 256, outputs)


@register("player_heart")
def player_heart(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """Build four linear layers for Fed-Heart-Disease (2,095 parameters for 10 features and 5 classes)."""
    parts = OrderedDict(
        flatten=nn.Flatten(),
        fc1=nn.Linear(math.prod(inputs), 50),
        relu1=nn.ReLU(),
        fc2=nn.Linear(50, 20),
        relu2=nn.ReLU(),
        fc3=nn.Linear(20, 20),
        relu3=nn.ReLU(),
        fc4=classifier(20, outputs),
    )
    return _kaiming(nn.Sequential(parts))


class SingleHeadAttention(nn.Module):
    """Self-attention with one head: softmax(Q K^T / sqrt(width)) V, without attention to padding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # Queries, keys and values are one matrix, so that they are one layer, as in the paper's figures.
        self.weight = nn.Parameter(torch.cat([nn.init.kaiming_normal_(torch.empty(width, width)) for _ in range(3)]))

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        q, k, v = (x @ self.weight.T).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / math.sqrt(x.shape[-1])
        return softmax(scores.masked_fill(~present[:, None], -math.inf), -1) @ v


class Transformer(nn.Module):
    """One attention block over tokens (n, length) int64, with 0 for padding; the first token's output is classified."""

    def __init__(self, length: int, outputs: int, vocabulary: int, width: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position_embedding = nn.Embedding(length, width)
        self.attention1 = SingleHeadAttention(width)
        self.proj1 = nn.Linear(width, width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.resid1 = nn.Linear(4 * width, width)
        self.fc2 = classifier(width, outputs)
        _kaiming(self)
        for embedding in (self.token_embedding, self.position_embedding):
            embedding.weight.data = normalize(embedding.weight.data)

    def begin_from(self, embeddings: Tensor) -> None:
        """Start from vectors (vocabulary, width) of tokens, each divided by its norm, which are trained further.

        Raises :class:`SpecError` if their width is not the model's.
        """
        width = self.token_embedding.embedding_dim
        if embeddings.shape[1] != width:
            raise SpecError(f"the model has width {width}, its embeddings {embeddings.shape[1]}; give both one width")
        self.token_embedding = nn.Embedding.from_pretrained(normalize(embeddings), freeze=False, padding_idx=0)

    def forward(self, tokens: Tensor) -> Tensor:
        places = self.position_embedding(torch.arange(tokens.shape[1], device=tokens.device))
        x = self.token_embedding(tokens) + places
        x = x + self.proj1(self.attention1(x, tokens != 0))
        x = x + self.resid1(relu(self.fc1(x)))
        return self.fc2(x[:, 0])


@register("player_text")
def player_text(inputs: tuple[int, ...], outputs: int, *, vocabulary: Width = 30_522, width: Width = 768) -> nn.Module:
    """Build an attention block for Sent-140 (768 V + 7,175,426 parameters) and MIMIC-III (768 V + 7,477,250).

    V is the vocabulary; the lengths are 119 and 512 tokens. Every row of both embeddings has initial norm 1, except the
    row of padding, which is 0; all are trained. Directions are random unless the data set provides vectors (its option
    ``embeddings``), which then also decide V; the authors start from those of BERT.
    """
    return Transformer(inputs[0], outputs, vocabulary, width)
