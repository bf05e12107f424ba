"""Training losses by name, with their constants."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bench.train.task.outputs import OutputKind, probabilities
from bench.types import Federation, SpecError, nearest

Criterion = Callable[[Tensor, Tensor], Tensor]  # (output, targets) -> loss of each sample (n,)


def criterion(federation: Federation, kind: OutputKind) -> Criterion:
    """Return the training loss: cross-entropy, or the loss that the federation names.

    Raises :class:`SpecError` for an unknown loss and for constants that it does not have.
    """
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

    A focal loss in which the probabilities of the other classes count, too. Source: the released code of Elhussein and
    Gürsoy (2025), with scale 10.
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
        raise SpecError(
            f"{federation.name}: alpha has {len(alpha)} weights, expected one for each of {federation.classes} classes"
        )
    return torch.tensor(alpha)


def _log_probabilities(kind: OutputKind) -> Callable[[Tensor], Tensor]:
    if kind == "logit":
        return lambda output: torch.log_softmax(output, 1)
    return _log if kind == "probability" else lambda output: output


def _log(p: Tensor) -> Tensor:
    # The loss is flat below float32's smallest normal number, as in torch's binary cross-entropy: a saturated output
    # causes neither errors nor NaN gradients.
    return torch.log(torch.clamp(p, min=torch.finfo(torch.float32).tiny))


def _of_target(values: Tensor, y: Tensor) -> Tensor:
    """Return the value (n,) in each sample's target column of ``values`` (n, k)."""
    return torch.gather(values, 1, y[:, None])[:, 0]
