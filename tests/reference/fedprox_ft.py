"""FedProx-FT: FedAvg-FT with FedProx's pull in the federated local steps."""

from __future__ import annotations

from .fedavg_ft import TUNING, run

SETTINGS = [{"lr": 0.02, "mu": 1.0}, {"lr": 0.005, "mu": 5.0}]

__all__ = ["SETTINGS", "TUNING", "run"]
