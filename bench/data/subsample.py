"""Random subsets of a federation's samples, for quick trials."""

from __future__ import annotations

import math
from dataclasses import replace

from bench.rng import derive, permutation
from bench.types import Federation, SpecError, Split


def subsampled(federation: Federation, share: float) -> Federation:
    """Return the federation with a ``share`` of every client's training, validation and test samples.

    At least two samples of each part are kept. The choice depends on the part's length and the client only. Raises
    :class:`SpecError` for a share that is not between 0 and 1.
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise SpecError(f"subsample = {share!r}: expected a share above 0 and below 1")

    def cut(split: Split, client: int, part: str) -> Split:
        order = permutation(derive("subsample", client, part), len(split))
        rows = order[: max(2, math.floor(share * len(split)))].sort().values
        return Split(split.x[rows], split.y[rows])

    clients = tuple(
        replace(
            client,
            train=cut(client.train, number, "train"),
            validation=client.validation and cut(client.validation, number, "validation"),
            test=client.test and cut(client.test, number, "test"),
        )
        for number, client in enumerate(federation.clients)
    )
    return replace(federation, clients=clients)
