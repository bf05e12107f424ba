"""Outputs of a model: what they mean, and whether they fit the task.

A binary model returns one number per sample (n, 1), a multi-class model one per class (n, k), and a segmentation model
one channel per class (n, k, ...). The model itself shows whether these are probabilities or logits: if its last
operation is a sigmoid or a softmax, they are probabilities.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from bench.models.functional import Model
from bench.train.trace.capture import last_operation, own_draws
from bench.types import Client, Federation, SilobenchError, SpecError

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
    """Return what the model's output means, from its last operation on inputs ``x`` (n, ...)."""
    node = last_operation(lambda: model(model.initial, x).output)
    while node.target in _RESHAPES:
        node = node.all_input_nodes[0]
    return _KINDS.get(node.target, "logit")


def output_size(federation: Federation, client: Client) -> int:
    """Return how many numbers (or channels) a model must return for a sample of the client."""
    if federation.task == "segmentation":
        return client.train.y.shape[1]
    return 1 if federation.task == "binary" else client.classes or federation.classes


def probabilities(federation: Federation, kind: OutputKind, output: Tensor) -> Tensor:
    """Return the probability of class 1 (n, 1), of each class (n, k), or of each channel at each place (n, k, ...)."""
    if kind == "logit":
        return torch.sigmoid(output) if federation.task == "binary" else torch.softmax(output, 1)
    return output.exp() if kind == "log_probability" else output


def check_output(model: Model, name: str, federation: Federation, client: Client, x: Tensor) -> None:
    """Run the model (called ``name``) on ``x`` (n, ...), the client's first model inputs.

    Raises :class:`SpecError` if it fails, if its output does not fit the client's task, or if it draws random numbers
    that no seed decides.
    """
    places = client.train.y.shape[2:] if federation.task == "segmentation" else ()
    check_vocabulary(model, federation, x)
    # A model that squeezes its output fails for one sample only. Batch-norm without running statistics cannot
    # normalise one sample.
    parts = (x,) if model.batch_norm and model.trainable == model.size else (x, x[:1])
    for part in parts:
        expected = (len(part), output_size(federation, client), *places)
        try:
            with torch.no_grad():
                found = tuple(model(model.initial, part).output.shape)
        except SilobenchError:
            raise
        except Exception as error:  # a user's module may raise anything
            raise SpecError(mismatch(name, federation, x.shape[1:], error)) from error
        if found != expected:
            samples = "1 sample" if len(part) == 1 else f"{len(part)} samples"
            raise SpecError(
                f"model {name}: its output for {samples} has shape {found}; "
                f"the {federation.task} task of {federation.name} needs {expected}"
            )
    try:
        model.check_buffers(x)
        drawn = own_draws(lambda: model(model.initial, x, torch.tensor(0)).output)
    except (RuntimeError, ValueError):
        return  # some models cannot train on two samples, or cannot be traced
    if drawn:
        raise SpecError(
            f"model {name}: draws random numbers that no seed decides ({', '.join(drawn)}); "
            f"use torch.nn.Dropout modules instead of functional dropout or own draws"
        )


def check_vocabulary(model: Model, federation: Federation, x: Tensor) -> None:
    """Raise :class:`SpecError` if the model looks up tokens ``x`` (n, length) and lacks the largest of any client."""
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


def mismatch(name: str, federation: Federation, shape: tuple[int, ...], error: Exception) -> str:
    """Return the message for a model that fails on samples of this shape."""
    return (
        f"model {name} does not fit {federation.name}, whose samples have shape {tuple(shape)}: {first_line(error)}; "
        f"choose a model for such inputs"
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class if it has none."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
