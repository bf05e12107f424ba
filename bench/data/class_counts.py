"""Training samples of each class at each client."""

from __future__ import annotations

from bench.types import Federation, SpecError


def class_counts(federation: Federation) -> list[list[int]]:
    """Return the number of training samples by client and class, as lists of shape (clients, classes).

    Raise :class:`SpecError` for a segmentation task, whose targets are masks.
    """
    if federation.task == "segmentation":
        raise SpecError(f"{federation.name}: targets are masks, not classes; choose a data set for classification")
    return [
        client.train.y.flatten().long().bincount(minlength=federation.classes).tolist() for client in federation.clients
    ]
