"""A network as the papers write it: a function of one weight vector ``w`` and an input ``x``.

The vector holds the trainable parameters first, then what travels without being trained (frozen parameters and
batch-norm running statistics). Integer buffers such as batch-norm's batch counter stay with the module.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.dropout import _DropoutNd

from bench.rng import derive, happens
from bench.types import SpecError


class Forward(NamedTuple):
    """One pass: the model's output (n, outputs), its features (n, k), and ``w`` with running statistics moved on."""

    output: Tensor
    features: Tensor
    w: Tensor


class Dropout(nn.Module):
    """Dropout whose mask is a function of the step's key and the layer, not of a global generator."""

    def __init__(self, p: float, layer: int, axes: int | None) -> None:
        super().__init__()
        self.p, self.salt, self.axes = p, derive("dropout", layer), axes
        self.key: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.key is None or self.p == 0:
            return x
        if self.p == 1:
            return torch.zeros_like(x)
        # Dropout2d and its kin drop whole channels: one draw for (sample, channel).
        shape = x.shape if self.axes is None else (*x.shape[: self.axes], *[1] * (x.dim() - self.axes))
        kept = happens(1 - self.p, self.key ^ self.salt, shape)
        return x * (kept / (1 - self.p))


_DROPOUTS: dict[type[nn.Module], int | None] = {
    nn.Dropout: None, nn.Dropout1d: 2, nn.Dropout2d: 2, nn.Dropout3d: 2
}  # fmt: skip
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class Model:
    """A module as a function of a flat weight vector; the module given is copied, never changed.

    The *head* is the child called ``head``, or else the last layer that has parameters; what enters it (flattened
    per sample) are the *features*, and what stands before it is the *base*.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module)
        self._dropouts = _replace_dropouts(self.module)
        everything = self.module.state_dict()
        self._counters = {name: value.clone() for name, value in everything.items() if not value.is_floating_point()}
        state = {name: value for name, value in everything.items() if value.is_floating_point()}
        trainable = [name for name, parameter in self.module.named_parameters() if parameter.requires_grad]
        if not trainable:
            raise SpecError(f"model {type(module).__name__} has no trainable parameters")
        self.names = trainable + [name for name in state if name not in trainable]
        self.shapes = {name: state[name].shape for name in self.names}
        self.sizes = [math.prod(self.shapes[name]) for name in self.names]
        self.trainable = sum(self.sizes[: len(trainable)])
        self.size = sum(self.sizes)
        layers = [name.rpartition(".")[0] for name in self.names]
        self.layers = list(dict.fromkeys(layers))
        places = torch.tensor([self.layers.index(layer) for layer in layers])
        self._layer_of = places.repeat_interleave(torch.tensor(self.sizes))
        self.initial = torch.cat([state[name].detach().reshape(-1).to(torch.float32) for name in self.names])
        self.batch_norm = _stop_counting(self.module)
        self._statistics = [name for name in self.names if name.endswith(("running_mean", "running_var"))]
        self.head_prefix = _head(self.module)
        self._entering: list[Tensor] = []
        head = self.module.get_submodule(self.head_prefix)
        head.register_forward_pre_hook(lambda _, inputs: self._entering.append(inputs[0]))
        self.parallel = all(hasattr(self.module, part) for part in ("local_extractor", "global_extractor", "head"))
        self.local_features = 0  # width of the local extractor's features, known after a first pass
        if self.parallel:
            extractor = self.module.get_submodule("local_extractor")
            extractor.register_forward_hook(lambda *passed: self._measure(passed[-1]))

    def _measure(self, features: Tensor) -> None:
        self.local_features = features.flatten(1).shape[1]

    def in_head(self, name: str) -> bool:
        """Whether the weight ``name`` belongs to the head."""
        return name.startswith(f"{self.head_prefix}.") or self.head_prefix == ""

    def in_batch_norm(self, name: str) -> bool:
        """Whether the weight (or running statistic) ``name`` belongs to a batch-norm layer, whatever its name."""
        return isinstance(self.module.get_submodule(name.rpartition(".")[0]), _BATCH_NORMS)

    def split(self, w: Tensor) -> dict[str, Tensor]:
        """The weights by name, as views of ``w`` (d,)."""
        parts = torch.split(w, self.sizes)
        return {name: part.view(self.shapes[name]) for name, part in zip(self.names, parts, strict=True)}

    def layer_sums(self, vector: Tensor) -> Tensor:
        """The sum of ``vector`` (d,) over each layer (L,); a layer is a module that holds weights, in model order."""
        return torch.zeros(len(self.layers)).index_add(0, self._layer_of, vector)

    def by_layer(self, values: Tensor) -> Tensor:
        """``values`` (L,) of the layers as a vector (d,): every weight has its layer's."""
        return values[self._layer_of]

    def state_dict(self, w: Tensor) -> dict[str, Tensor]:
        """A state dict (copies) that the original module loads."""
        return {name: value.clone() for name, value in (self._counters | self.split(w)).items()}

    def __call__(self, w: Tensor, x: Tensor, key: Tensor | None = None) -> Forward:
        """Run the network on ``x`` (n, ...). With a ``key`` it trains: dropout is on, batch-norm uses the batch."""
        self.module.train(key is not None)
        for dropout in self._dropouts:
            dropout.key = key
        weights = self.split(w)
        statistics = {}
        if key is not None and self.batch_norm:
            # Batch-norm moves its running statistics in place: give it copies, and hand them back in `w`.
            statistics = {name: weights[name].detach().clone() for name in self._statistics}
        self._entering.clear()
        output = functional_call(self.module, weights | statistics, (x,))
        if not self._entering:
            layer = self.head_prefix or type(self.module).__name__
            raise SpecError(f"the model never calls its last layer {layer!r}; call its head `head`")
        features = self._entering[-1].flatten(1)
        self._entering.clear()
        if statistics:
            moved = weights | statistics
            w = torch.cat([moved[name].reshape(-1) for name in self.names])
        return Forward(output, features, w)


class Exchange:
    """The part of the weight vector that travels: the weights whose names the algorithm shares."""

    def __init__(self, model: Model, shared: Callable[[str], bool]) -> None:
        self._runs: list[tuple[int, bool]] = []  # lengths of alternating stretches, shared or personal
        for name, size in zip(model.names, model.sizes, strict=True):
            travels = bool(shared(name))
            if self._runs and self._runs[-1][1] == travels:
                self._runs[-1] = (self._runs[-1][0] + size, travels)
            else:
                self._runs.append((size, travels))
        self.names = [name for name in model.names if shared(name)]
        self.size = sum(size for size, travels in self._runs if travels)
        self.everything = self.size == model.size

    def share(self, w: Tensor) -> Tensor:
        """The shared part (s,) of ``w`` (d,)."""
        if self.everything:
            return w
        parts = [part for part, (_, travels) in zip(self._cut(w), self._runs, strict=True) if travels]
        return torch.cat(parts) if parts else w[:0]

    def install(self, w: Tensor, part: Tensor) -> Tensor:
        """``w`` (d,) with its shared part replaced by ``part`` (s,)."""
        if self.everything:
            return part
        if not self.size:
            return w
        arriving = iter(torch.split(part, [size for size, travels in self._runs if travels]))
        own = zip(self._cut(w), self._runs, strict=True)
        return torch.cat([next(arriving) if travels else piece for piece, (_, travels) in own])

    def _cut(self, w: Tensor) -> tuple[Tensor, ...]:
        return torch.split(w, [size for size, _ in self._runs])


def without_running_statistics(module: nn.Module) -> nn.Module:
    """A copy whose batch-norm layers always use the batch's own statistics and keep none."""
    module = copy.deepcopy(module)
    for part in module.modules():
        if isinstance(part, _BATCH_NORMS):
            part.track_running_stats = False
            part.running_mean = part.running_var = part.num_batches_tracked = None
    return module


@contextmanager
def torch_seed(key: int) -> Iterator[None]:
    """Torch's own generator at a known place, put back afterwards (for initial weights by torch's defaults)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key)
        yield


def _replace_dropouts(module: nn.Module) -> list[Dropout]:
    found: list[Dropout] = []
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _DropoutNd) and type(child) in _DROPOUTS:
                found.append(Dropout(child.p, len(found), _DROPOUTS[type(child)]))
                setattr(parent, name, found[-1])
    return found


def _stop_counting(module: nn.Module) -> bool:
    """Whether there is batch-norm in ``module``; its batch counter, changed in place and used for nothing, goes."""
    layers = [part for part in module.modules() if isinstance(part, _BATCH_NORMS)]
    for layer in layers:
        if layer.momentum is None and layer.track_running_stats:
            raise SpecError("batch-norm with momentum None averages over all batches ever seen; give it a momentum")
        layer.num_batches_tracked = None
    return bool(layers)


def _head(module: nn.Module) -> str:
    if isinstance(getattr(module, "head", None), nn.Module):
        return "head"
    layers = [name for name, part in module.named_modules() if any(True for _ in part.parameters(recurse=False))]
    return layers[-1]
