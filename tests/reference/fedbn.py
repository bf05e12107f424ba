"""FedBN (Li et al., 2021): FedAvg of every module's state except that of batch-norm modules, which stays local."""

from __future__ import annotations

from torch import nn

from .common import Loss, OptimizerName, Site, State, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02}, {"lr": 0.005}]


def without_batch_norm(model: nn.Module) -> State:
    """A copy of the weights outside batch-norm modules."""
    state = floats(model)
    for prefix, part in model.named_modules():
        if isinstance(part, nn.BatchNorm1d):
            state = {name: value for name, value in state.items() if not name.startswith(f"{prefix}.")}
    return state


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))

        shared = [without_batch_norm(client) for client in clients]
        server = weighted_mean(shared, [site.samples for site in sites])
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, server)
    return trace
