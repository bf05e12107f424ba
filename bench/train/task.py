"""What a task asks of a model's output: its loss and the probabilities its metrics read.

A binary model gives one number per sample (n, 1), a multi-class one as many as there are classes (n, k). Whether
these are probabilities or logits is read off the model: a last operation that is a sigmoid or softmax makes
probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from bench.models.functional import Model
from bench.train.capture import trace
from bench.types import Federation, SpecError

OutputKind = Literal["probability", "log_probability", "logit"]
aten = torch.ops.aten
_KINDS: dict[object, OutputKind] = {
    aten.sigmoid.default: "probability",
    aten._softmax.default: "probability",
    aten._log_softmax.default: "log_probability",
}
_RESHAPES = {aten.view.default, aten.squeeze.dim, aten.unsqueeze.default, aten.reshape.default, aten.clone.default}


def output_kind(model: Model, x: Tensor) -> OutputKind:
    """What the last operation of the model makes of its output."""
    graph = trace(lambda w, x: [model(w, x).output], [model.initial, x]).graph
    node = next(node for node in graph.nodes if node.op == "output").args[0][0]
    while node.target in _RESHAPES:
        node = node.args[0]
    return _KINDS.get(node.target, "logit")


def check_output(model: Model, federation: Federation, x: Tensor) -> None:
    """Refuse a model whose output does not fit the task."""
    expected = (len(x), 1 if federation.task == "binary" else federation.classes)
    try:
        with torch.no_grad():
            found = tuple(model(model.initial, x).output.shape)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise SpecError(f"the model does not accept inputs of shape {tuple(x.shape)}: {reason}") from error
    if found != expected:
        raise SpecError(
            f"the model's output has shape {found}; a {federation.task} task of {expected[1] or 1} "
            f"output(s) needs {expected} for {len(x)} samples"
        )


def criterion(federation: Federation, kind: OutputKind) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of each sample, (output, targets) -> (n,): binary or categorical cross-entropy."""
    if federation.task == "binary":
        if kind == "logit":
            return lambda output, y: functional.binary_cross_entropy_with_logits(output, y, reduction="none").flatten(1).mean(1)
        if kind == "log_probability":
            raise SpecError("a binary model must return a probability or a logit, not a log-probability")
        return _binary_cross_entropy
    return {"logit": _cross_entropy, "probability": _categorical, "log_probability": _negative_log_likelihood}[kind]


def probabilities(federation: Federation, kind: OutputKind, output: Tensor) -> Tensor:
    """The probability of class 1 (..., 1) or of every class (..., k)."""
    if kind == "logit":
        return torch.sigmoid(output) if federation.task == "binary" else torch.softmax(output, -1)
    return output.exp() if kind == "log_probability" else output


def _log(p: Tensor) -> Tensor:
    # Below float32's smallest normal number the loss is flat, as in torch's own binary cross-entropy: a saturated
    # output neither raises nor makes NaN gradients.
    return torch.log(torch.clamp(p, min=torch.finfo(torch.float32).tiny))


def _binary_cross_entropy(p: Tensor, y: Tensor) -> Tensor:
    return -_log(torch.where(y > 0.5, p, 1 - p)).flatten(1).mean(1)


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return _negative_log_likelihood(torch.log_softmax(logits, 1), y)


def _categorical(p: Tensor, y: Tensor) -> Tensor:
    return _negative_log_likelihood(_log(p), y)


def _negative_log_likelihood(log_p: Tensor, y: Tensor) -> Tensor:
    return -torch.gather(log_p, 1, y[:, None])[:, 0]
