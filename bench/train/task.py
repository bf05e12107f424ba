"""What a task asks of a model's output: its loss and the probabilities its metrics read.

A binary model gives one number per sample (n, 1), a multi-class one as many as there are classes (n, k), and a
segmenting one a channel per class (n, k, ...). Whether these are probabilities or logits is read off the model: a
last operation that is a sigmoid or softmax makes probabilities.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bench.models.functional import Model
from bench.train.trace.capture import last_operation, own_draws
from bench.types import Client, Federation, SpecError, nearest

OutputKind = Literal["probability", "log_probability", "logit"]
Criterion = Callable[[Tensor, Tensor], Tensor]  # (output, targets) -> loss of each sample (n,)
aten = torch.ops.aten
_KINDS: dict[object, OutputKind] = {
    aten.sigmoid.default: "probability",
    aten.sigmoid_.default: "probability",
    aten._softmax.default: "probability",
    aten._log_softmax.default: "log_probability",
}
_RESHAPES = {
    aten.view.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.unsqueeze.default,
    aten.slice.Tensor,
    aten.select.int,
    aten.clone.default,
}


def output_kind(model: Model, x: Tensor) -> OutputKind:
    """What the last operation of the model makes of its output."""
    node = last_operation(lambda: model(model.initial, x).output)
    while node.target in _RESHAPES:
        node = node.all_input_nodes[0]
    return _KINDS.get(node.target, "logit")


def outputs(federation: Federation, client: Client) -> int:
    """How many numbers (or channels) the model gives for a sample of the client."""
    if federation.task == "segmentation":
        return client.train.y.shape[1]
    return 1 if federation.task == "binary" else client.classes or federation.classes


def check_output(model: Model, federation: Federation, client: Client, x: Tensor) -> None:
    """Refuse a model whose output does not fit the client's task; ``x`` (n, ...) are inputs as the model sees them."""
    places = client.train.y.shape[2:] if federation.task == "segmentation" else ()
    expected = (len(x), outputs(federation, client), *places)
    check_vocabulary(model, federation, x)
    try:
        with torch.no_grad():
            found = tuple(model(model.initial, x).output.shape)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise SpecError(f"the model does not accept inputs of shape {tuple(x.shape)}: {reason}") from error
    if found != expected:
        raise SpecError(
            f"the model's output for {len(x)} samples has shape {found}; "
            f"the {federation.task} task of {federation.name} needs {expected}"
        )
    try:
        drawn = own_draws(lambda: model(model.initial, x, torch.tensor(0)).output)
    except (RuntimeError, ValueError):
        return  # what cannot train on these two samples, or not be traced, is found out where it is trained
    if drawn:
        raise SpecError(
            f"the model draws random numbers that no seed of ours decides ({', '.join(drawn)}); "
            f"use torch.nn.Dropout modules instead of functional dropout or own draws"
        )


def check_vocabulary(model: Model, federation: Federation, x: Tensor) -> None:
    """Refuse a model that looks up tokens ``x`` (n, length) and lacks the largest of any client."""
    if x.dtype != torch.int64:
        return
    parts = [split for each in federation.clients for split in (each.train, each.validation, each.test) if split]
    largest = max(int(split.x.max()) for split in parts)
    try:
        with torch.no_grad():
            model(model.initial, torch.full_like(x, largest))
    except IndexError:
        reason = f"the model knows no token {largest}, which {federation.name} has"
        raise SpecError(f"{reason}; give it a vocabulary of at least {largest + 1}") from None
    except RuntimeError:
        return  # a model that takes no tokens at all is refused for its inputs


def probabilities(federation: Federation, kind: OutputKind, output: Tensor) -> Tensor:
    """The probability of class 1 (n, 1), of every class (n, k), or of every channel at every place (n, k, ...)."""
    if kind == "logit":
        return torch.sigmoid(output) if federation.task == "binary" else torch.softmax(output, 1)
    return output.exp() if kind == "log_probability" else output


def criterion(federation: Federation, kind: OutputKind) -> Criterion:
    """The training loss: cross-entropy, or what the federation names."""
    constants = dict(federation.loss)
    name = constants.pop("name", "cross_entropy")
    if name not in _LOSSES:
        raise SpecError(f"{federation.name}: unknown loss {name!r}: {nearest(name, _LOSSES)}")
    try:
        inspect.signature(_LOSSES[name]).bind(federation, kind, **constants)
    except TypeError as error:
        raise SpecError(f"{federation.name}: loss {name!r}: {error}") from None
    return _LOSSES[name](federation, kind, **constants)


def _cross_entropy(federation: Federation, kind: OutputKind) -> Criterion:
    if federation.task != "binary":
        log_p = _log_probabilities(kind)
        return lambda output, y: -_of_target(log_p(output), y)
    if kind == "logit":
        return lambda output, y: binary_cross_entropy_with_logits(output, y, reduction="none").flatten(1).mean(1)
    if kind == "log_probability":
        raise SpecError("a binary model must return a probability or a logit, not a log-probability")
    return lambda p, y: -_log(torch.where(y > 0.5, p, 1 - p)).flatten(1).mean(1)


def _focal(federation: Federation, kind: OutputKind, *, gamma: float, alpha: Sequence[float]) -> Criterion:
    """alpha_y (1 - p_y)^gamma (-log p_y), with a weight for every class (Lin et al., 2017, equation 5)."""
    log_p, weights = _log_probabilities(kind), _class_weights(federation, alpha)

    def loss(output: Tensor, y: Tensor) -> Tensor:
        of_target = _of_target(log_p(output), y)
        return -weights.to(output.device)[y] * (1 - of_target.exp()) ** gamma * of_target

    return loss


def _focal_all_classes(
    federation: Federation, kind: OutputKind, *, gamma: float, alpha: Sequence[float], scale: float
) -> Criterion:
    """scale / k (-log p_y) (alpha_y (1 - p_y)^gamma + sum over j != y of (1 - alpha_j) p_j^gamma) of k classes.

    PLayer-FL's focal loss, with scale 10, as its released code has it: the other classes' probabilities count too.
    """
    log_p, weights = _log_probabilities(kind), _class_weights(federation, alpha)

    def loss(output: Tensor, y: Tensor) -> Tensor:
        logarithms, alpha_of = log_p(output), weights.to(output.device)
        of_target, every = _of_target(logarithms, y), (1 - alpha_of) * logarithms.exp() ** gamma
        others = every.sum(1) - _of_target(every, y)
        return -scale / len(alpha) * of_target * (alpha_of[y] * (1 - of_target.exp()) ** gamma + others)

    return loss


def _dice(federation: Federation, kind: OutputKind, *, epsilon: float) -> Criterion:
    """1 - 2 |P Y| / (|P| + |Y|) of each channel, averaged over channels (FENDA-FL, appendix A.2)."""

    def loss(output: Tensor, y: Tensor) -> Tensor:
        p = probabilities(federation, kind, output)
        overlap, total = (p * y).flatten(2).sum(2), (p + y).flatten(2).sum(2)
        return 1 - (2 * overlap / (total + epsilon)).mean(1)

    return loss


_LOSSES: dict[str, Callable[..., Criterion]] = {
    "cross_entropy": _cross_entropy,
    "focal": _focal,
    "focal_all_classes": _focal_all_classes,
    "dice": _dice,
}


def _class_weights(federation: Federation, alpha: Sequence[float]) -> Tensor:
    if len(alpha) != federation.classes:
        raise SpecError(f"{federation.name}: alpha has {len(alpha)} weights, expected one for each class")
    return torch.tensor(alpha)


def _log_probabilities(kind: OutputKind) -> Callable[[Tensor], Tensor]:
    if kind == "logit":
        return lambda output: torch.log_softmax(output, 1)
    return _log if kind == "probability" else lambda output: output


def _log(p: Tensor) -> Tensor:
    # Below float32's smallest normal number the loss is flat, as in torch's own binary cross-entropy: a saturated
    # output neither raises nor makes NaN gradients.
    return torch.log(torch.clamp(p, min=torch.finfo(torch.float32).tiny))


def _of_target(values: Tensor, y: Tensor) -> Tensor:
    """The value (n,) in each sample's target column of ``values`` (n, k)."""
    return torch.gather(values, 1, y[:, None])[:, 0]
