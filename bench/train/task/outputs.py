"""What a task asks of a model's output: its loss and the probabilities its metrics read.

A binary model gives one number per sample (n, 1), a multi-class one as many as there are classes (n, k), and a
segmenting one a channel per class (n, k, ...). Whether these are probabilities or logits is read off the model: a
last operation that is a sigmoid or softmax makes probabilities.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from bench.models.functional import Model
from bench.train.trace.capture import last_operation, own_draws
from bench.types import Client, Federation, SpecError

OutputKind = Literal["probability", "log_probability", "logit"]
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


def output_size(federation: Federation, client: Client) -> int:
    """How many numbers (or channels) the model gives for a sample of the client."""
    if federation.task == "segmentation":
        return client.train.y.shape[1]
    return 1 if federation.task == "binary" else client.classes or federation.classes


def check_output(model: Model, federation: Federation, client: Client, x: Tensor) -> None:
    """Refuse a model whose output does not fit the client's task; ``x`` (n, ...) are inputs as the model sees them."""
    places = client.train.y.shape[2:] if federation.task == "segmentation" else ()
    expected = (len(x), output_size(federation, client), *places)
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
