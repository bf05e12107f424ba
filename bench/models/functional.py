"""A network as a function of one weight vector ``w`` and an input ``x``.

The vector holds the trainable parameters first, then frozen parameters and batch-norm's running statistics. Integer
buffers, such as batch-norm's batch counter, stay with the module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bench.models.dropout import replace_dropouts
from bench.models.requirements import BATCH_NORMS, copied
from bench.types import SpecError


class Forward(NamedTuple):
    """The result of one pass.

    The model's output (n, outputs), its features (n, k), and ``w`` (d,) with batch-norm's running statistics updated.
    """

    output: Tensor
    features: Tensor
    w: Tensor


class Model:
    """A module as a function of a flat weight vector; the given module is copied, never changed.

    The *head* is the child called ``head``, or else the last layer that has parameters; its inputs (flattened per
    sample) are the *features*, and the rest of the network is the *base*.

    Raises :class:`SpecError` for a module that cannot be trained so (:mod:`bench.models.requirements`).
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = copied(module)
        self._dropouts = replace_dropouts(self.module)
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
        # The widths of both extractors' features, known after a first pass.
        self.local_features = self.global_features = 0
        if self.parallel:
            for part in ("local", "global"):
                self._measure(part, self.module.get_submodule(f"{part}_extractor"))

    def _measure(self, part: str, extractor: nn.Module) -> None:
        def measured(_: nn.Module, inputs: tuple[Tensor, ...], features: Tensor) -> None:
            setattr(self, f"{part}_features", features.flatten(1).shape[1])

        extractor.register_forward_hook(measured)

    def in_head(self, name: str) -> bool:
        """Return whether the weight ``name`` belongs to the head."""
        return name.startswith(f"{self.head_prefix}.") or self.head_prefix == ""

    def in_batch_norm(self, name: str) -> bool:
        """Return whether the weight (or running statistic) ``name`` belongs to a batch-norm layer."""
        return isinstance(self.module.get_submodule(name.rpartition(".")[0]), BATCH_NORMS)

    def split(self, w: Tensor) -> dict[str, Tensor]:
        """Return the weights by name, as views of ``w`` (d,)."""
        parts = torch.split(w, self.sizes)
        return {name: part.view(self.shapes[name]) for name, part in zip(self.names, parts, strict=True)}

    def layer_sums(self, vector: Tensor) -> Tensor:
        """Return the sum of ``vector`` (d,) over each layer (L,); a layer is a module with weights, in model order."""
        return torch.zeros(len(self.layers)).index_add(0, self._layer_of, vector)

    def by_layer(self, values: Tensor) -> Tensor:
        """Return a vector (d,) that has for every weight the value of its layer in ``values`` (L,)."""
        return values[self._layer_of]

    def state_dict(self, w: Tensor) -> dict[str, Tensor]:
        """Return a state dict (copies) that the original module loads."""
        return {name: value.clone() for name, value in (self._counters | self.split(w)).items()}

    def __call__(self, w: Tensor, x: Tensor, key: Tensor | None = None) -> Forward:
        """Run the network on ``x`` (n, ...).

        With a ``key`` it is in training mode: dropout is on, and batch-norm uses the batch's statistics. Raises
        :class:`SpecError` where the module returns no tensor or never calls its head.
        """
        self._set_mode(key)
        weights = self.split(w)
        statistics = {}
        if key is not None and self.batch_norm:
            # Batch-norm updates its running statistics in place: give it copies, and return them in `w`.
            statistics = {name: weights[name].detach().clone() for name in self._statistics}
        self._entering.clear()
        output = functional_call(self.module, weights | statistics, (x,))
        if not isinstance(output, Tensor):
            found = type(output).__name__
            raise SpecError(f"the model returns a {found}, expected one tensor (n, outputs); return the output alone")
        if not self._entering:
            layer = self.head_prefix or type(self.module).__name__
            raise SpecError(f"the model never calls its last layer {layer!r}; call its head `head`")
        features = self._entering[-1].flatten(1)
        self._entering.clear()
        if statistics:
            updated = weights | statistics
            w = torch.cat([updated[name].reshape(-1) for name in self.names])
        return Forward(output, features, w)

    def check_buffers(self, x: Tensor) -> None:
        """Raise :class:`SpecError` if training on ``x`` (n, ...) changes buffers other than running statistics.

        The forward pass uses weights other than the initial ones: a buffer computed from the weights, such as the
        singular vectors of spectral normalisation, may already have its final value for those.
        """
        self._set_mode(torch.tensor(0))
        before = self.split(self.initial)
        weights = {name: value.clone() for name, value in before.items()}
        for name, _ in self.module.named_parameters():
            weights[name] *= torch.linspace(1, 2, weights[name].numel()).reshape(weights[name].shape)
        kept = {name: value.clone() for name, value in self.module.named_buffers() if name not in weights}
        with torch.no_grad():
            functional_call(self.module, weights, (x,))
        self._entering.clear()
        after = weights | {name: value.clone() for name, value in self.module.named_buffers() if name in kept}
        for name, value in self.module.named_buffers():
            if name in kept:
                value.copy_(kept[name])
        before |= kept
        own = [name for name, _ in self.module.named_buffers() if name not in self._statistics]
        changed = [name for name in own if not torch.equal(before[name], after[name])]
        if changed:
            raise SpecError(
                f"the model changes its own buffers in training ({', '.join(changed)}), which would be lost; "
                f"only batch-norm's running statistics may change"
            )

    def _set_mode(self, key: Tensor | None) -> None:
        self.module.train(key is not None)
        for dropout in self._dropouts:
            dropout.key = key


@contextmanager
def torch_seed(key: int) -> Iterator[None]:
    """Seed torch's own generator with ``key`` (for initial weights by torch's defaults); restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key)
        yield


def _stop_counting(module: nn.Module) -> bool:
    """Return whether ``module`` has batch-norm; remove its batch counter, which it changes in place and never uses."""
    layers = [part for part in module.modules() if isinstance(part, BATCH_NORMS)]
    for layer in layers:
        layer.num_batches_tracked = None
    return bool(layers)


def _head(module: nn.Module) -> str:
    if isinstance(getattr(module, "head", None), nn.Module):
        return "head"
    layers = [name for name, part in module.named_modules() if any(True for _ in part.parameters(recurse=False))]
    return layers[-1]
