"""PerFCL (Zhang et al., 2022), as the later version of FENDA-FL runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from bench.algorithms.base import Batch, Site, Tree, contrast, searchable
from bench.algorithms.fenda import Fenda
from bench.models.functional import Model
from bench.registry import register
from bench.types import SpecError


@register("perfcl")
@dataclass(frozen=True)
class PerFCL(Fenda):
    """FENDA-FL's model and exchange with two contrastive terms, from the second round on.

    loss + mu contrast(s; s_glob, s_prev) + gamma contrast(p; p_prev, s_glob), temperature 0.5. s and p are the current
    global and local features, s_glob those of the received global extractor, s_prev and p_prev those of the client's
    own extractors at the end of its previous local training. All but s and p are frozen. mu = gamma = 0 is FENDA-FL.
    The contrast is MOON's. It compares local with global features, so both extractors need the same width.

    Paper: Zhang et al., 2022, described in Tavakoli et al., 2023 (FENDA-FL, later version), sections 3 and 3.1.
    Variant: temperature 0.5 in both terms, and no contrastive terms in the first round.
    Communication cost: d_global up, d_global down.
    """

    mu: Any = searchable(1.0, ge=0, log=(1e-2, 5.0))
    gamma: Any = searchable(1.0, ge=0, log=(1e-2, 10.0))
    temperature: ClassVar[float] = 0.5

    def check_model(self, model: Model) -> None:
        super().check_model(model)
        if model.local_features != model.global_features:
            raise SpecError(
                f"perfcl compares local and global features, which are {model.local_features} and "
                f"{model.global_features} wide in this model; give both extractors the same width"
            )

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "previous": w}

    def loss(self, w: Tensor, batch: Batch, client: Tree, received: Tree, site: Site) -> tuple[Tensor, Tensor]:
        forward = site.forward(w, batch)
        p, s = self._local_and_global(forward.features, site)
        p_prev, s_prev = self._local_and_global(site.features(client["previous"], batch), site)
        at_start = site.install(client["previous"], received["w"])
        _, s_glob = self._local_and_global(site.features(at_start, batch), site)
        contrasts = self.mu * contrast(s, s_glob, s_prev, self.temperature)
        contrasts = contrasts + self.gamma * contrast(p, p_prev, s_glob, self.temperature)
        active = site.round > 0
        return site.loss(forward.output, batch) + active * (contrasts * batch.weight).sum(), forward.w

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        return super().end({**client, "previous": client["w"]}, received, site)

    @staticmethod
    def _local_and_global(features: Tensor, site: Site) -> tuple[Tensor, Tensor]:
        return features[:, : site.model.local_features], features[:, site.model.local_features :]
