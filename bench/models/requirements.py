"""Requirements on a module that is to become a function of a weight vector, checked before training."""

from __future__ import annotations

import copy

from torch import nn
from torch.nn.parameter import is_lazy

from bench.types import SpecError

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def copied(module: nn.Module) -> nn.Module:
    """Return a copy of a module that can be trained.

    Raises :class:`SpecError` for weights without a shape, tied weights, layers that need several processes, batch-norm
    that averages over all batches, and for a module that cannot be copied.
    """
    name = type(module).__name__
    first: dict[int, str] = {}
    for weight, parameter in module.named_parameters(remove_duplicate=False):
        if is_lazy(parameter):
            raise SpecError(f"model {name}: {weight} has no shape yet (a lazy layer); call the module once first")
        if first.setdefault(id(parameter), weight) != weight:
            tied = f"{first[id(parameter)]} and {weight}"
            raise SpecError(f"model {name}: {tied} are one parameter (tied weights); give each layer its own")
    for part in module.modules():
        if isinstance(part, nn.SyncBatchNorm):
            raise SpecError(f"model {name}: SyncBatchNorm needs several processes; use BatchNorm1d, 2d or 3d")
        if isinstance(part, BATCH_NORMS) and part.momentum is None and part.track_running_stats:
            raise SpecError(
                f"model {name}: batch-norm with momentum None averages over all batches; give it a momentum"
            )
    try:
        return copy.deepcopy(module)
    except (RuntimeError, TypeError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0]
        raise SpecError(
            f"model {name} cannot be copied ({reason}); use torch.nn.utils.parametrizations instead of "
            f"torch.nn.utils.spectral_norm and weight_norm, and keep no tensors but parameters and buffers"
        ) from error


def without_running_statistics(module: nn.Module) -> nn.Module:
    """Return a copy whose batch-norm layers always use the batch's own statistics and keep none."""
    module = copy.deepcopy(module)
    for part in module.modules():
        if isinstance(part, BATCH_NORMS):
            part.track_running_stats = False
            part.running_mean = part.running_var = part.num_batches_tracked = None
    return module
