"""APFL (Deng et al., 2020, algorithm 1): a local net v and a global net w, mixed in their weights, m = alpha v +
(1 - alpha) w. Every local step, all from the same v, w and alpha:

w <- w - lr g(w);  v <- v - lr alpha g(m);  alpha <- clip(alpha - alpha_lr <v - w, g(m)>, 0, 1).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call

from .common import Loss, OptimizerName, Site, State, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02, "alpha_lr": 0.5}, {"lr": 0.005, "alpha_lr": 2.0}]


def mix(v: nn.Module, w: nn.Module, alpha: float) -> State:
    ours, theirs = dict(v.named_parameters()), dict(w.named_parameters())
    return {name: (alpha * ours[name] + (1 - alpha) * theirs[name]).detach() for name in ours}


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    global_nets, local_nets, personal = copies(model, sites), copies(model, sites), copies(model, sites)
    on_w = [make_optimizer(optimizer, net, hyper) for net in global_nets]
    on_v = [make_optimizer(optimizer, net, hyper) for net in local_nets]
    alphas = [0.5 for _ in sites]
    trace = Trace()
    for t in range(rounds):
        for i, site in enumerate(sites):
            w, v = global_nets[i], local_nets[i]
            for x, y in site.batches[t]:
                m = {name: weight.requires_grad_() for name, weight in mix(v, w, alphas[i]).items()}
                g = dict(
                    zip(m, torch.autograd.grad(loss(functional_call(v, m, (x,)), y), list(m.values())), strict=True)
                )
                twins = zip(v.parameters(), w.parameters(), g.values(), strict=True)
                slope = sum(float(((ours - theirs).detach() * g_m).sum()) for ours, theirs, g_m in twins)
                step(on_w[i], loss(w(x), y))
                for name, weight in v.named_parameters():
                    weight.grad = alphas[i] * g[name]
                on_v[i].step()
                alphas[i] = min(max(alphas[i] - hyper["alpha_lr"] * slope, 0.0), 1.0)
        server = weighted_mean([floats(net) for net in global_nets], [site.samples for site in sites])
        for i in range(len(sites)):
            load(global_nets[i], server)
            load(personal[i], mix(local_nets[i], global_nets[i], alphas[i]))
        trace.record(sites, personal, loss, server)
        trace.personal[-1] = [
            {"v": floats(v), "w": floats(w), "alpha": alpha}
            for v, w, alpha in zip(local_nets, global_nets, alphas, strict=True)
        ]
    return trace
