"""Base class of APPLE and FedFomo: clients download other clients' models instead of an average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from bench.algorithms.base import Algorithm, Site, Tree


@dataclass(frozen=True)
class Peers(Algorithm):
    """The server keeps every client's model; a client downloads those of all others, or of ``budget`` of them.

    A client chooses by what only it knows. Therefore ``received["models"]`` (C, d) holds all models, its own included.
    An algorithm may use only the chosen ones, and only these are counted as downloaded.
    """

    personalised: ClassVar[bool] = True
    budget: int | None

    def limited(self, clients: int) -> bool:
        """Return whether the budget leaves out any of the other clients."""
        return self.budget is not None and self.budget < clients - 1

    def init_server(self, w: Tensor) -> Tree:
        return {"models": w}

    def download(self, server: Tree, client: Tensor) -> Tree:
        return {"models": server["models"]}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        return {"models": uploads["w"]}

    def floats(self, message: Tree, site: Site) -> Any:
        if "models" not in message:
            return super().floats(message, site)
        clients, size = message["models"].shape
        downloads = self.budget if self.budget is not None and self.limited(clients) else clients - 1
        return downloads * size
