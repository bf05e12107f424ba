"""PLayer-FL-Random (Elhussein & Gürsoy, 2025): PLayer-FL with a random number of layers, as a control."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bench.algorithms.base import Site, Tree
from bench.algorithms.player_fl import PLayerFL
from bench.registry import register
from bench.rng import derive, uniform


@register("player_fl_random")
@dataclass(frozen=True)
class PLayerFLRandom(PLayerFL):
    """PLayer-FL that federates up to a random layer, which is neither PLayer-FL's choice nor the last.

    w_l = sum_i (n_i / n) w_l,i for the layers l <= p. p is drawn once per run, uniformly from 1 .. L - 1 without
    PLayer-FL's own (from ``threshold`` or ``layers``, as there). A model of two layers leaves no other choice than 1.
    Runs with one seed draw the same order of preference.

    Paper: Elhussein & Gürsoy, 2025, section 7.1 and Table 1, without an equation.
    Variant: neither PLayer-FL's own p nor all layers are drawn, as in the released code.
    Communication cost: d up, d down in the first round, then the weights of the first p layers.
    """

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        client, upload = super().end(client, received, site)
        draws = uniform(site.key ^ derive("federated layers"), len(site.model.layers))
        return client, {**upload, "draws": draws}

    def transition(self, uploads: Tree) -> Tensor:
        own, draws = super().transition(uploads), uploads["draws"][0]  # the server's draws, made by its first client
        number = torch.arange(1, len(draws) + 1)
        # The largest draw wins; PLayer-FL's own number comes after all others, and all layers come last.
        preference = torch.where(number == own, 0.0, draws) - (number == len(draws)).to(draws.dtype)
        return 1 + torch.argmax(preference)
