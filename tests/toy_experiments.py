"""Experiments on the digits data set for tests: two studies, every kind of figure, and a joint table of both."""

from __future__ import annotations

from pathlib import Path

import pytest

STUDY = """
title = "Digits, {name}"
seeds = [1, 2]
[data]
name = "digits"
[budget]
rounds = 2
local_epochs = 1
batch_size = "full"
test_every = 1
[methods.fedavg]
model = "logistic"
grid.lr = [0.1, 1.0]
[methods.apple]
model = "logistic"
fixed.lr = 0.1
[methods.local]
model = "logistic"
fixed.lr = {lr}
[profiles.short]
seeds = [1]
budget.rounds = 1
methods.fedavg.grid.lr = [0.1]
[[tables]]
id = "digits/{name}"
columns = "clients"
silo = "Local"
rows = [
  {{ method = "FedAvg", of = "fedavg", checkpoints = ["best-val"] }},
  {{ method = "Local", of = "local", checkpoints = ["best-val"] }},
  {{ method = "APPLE", of = "apple", checkpoints = ["best-val"] }},
]
"""
FIGURES = """
[[figures]]
id = "digits/heat"
kind = "heatmap"
title = "Heat"
table = "digits/one"
[[figures]]
id = "digits/each"
kind = "clients"
title = "Each client"
table = "digits/one"
[[figures]]
id = "digits/ranks"
kind = "cd"
title = "Ranks"
table = "digits/one"
[[figures]]
id = "digits/curves"
kind = "curves"
title = "Curves"
scores = ["accuracy", "validation"]
rows = [{ method = "FedAvg", of = "fedavg" }, { method = "Local", of = "local" }]
[[figures]]
id = "digits/relations"
kind = "trajectories"
title = "Relations"
of = "apple"
absolute = true
[[figures]]
id = "digits/partition"
kind = "partition"
title = "Who holds what"
"""
JOINT = """
[[joint]]
id = "digits/both"
title = "Digits twice"
columns = [{ table = "digits/one", label = "One" }, { table = "digits/two", label = "Two" }]
rows = ["FedAvg", "Local", "APPLE"]
[[figures]]
id = "digits/both-ranks"
kind = "cd"
title = "Digits twice, ranked"
table = "digits/both"
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the experiments below ``folder`` and hide all others; return the folder with their files."""
    place = folder / "experiments" / "digits"
    place.mkdir(parents=True)
    (place / "one.toml").write_text(STUDY.format(name="one", lr=0.1) + FIGURES)
    (place / "two.toml").write_text(STUDY.format(name="two", lr=0.2))
    (place / "joint.toml").write_text(JOINT)
    for module in ("bench.spec.experiments", "bench.rebuild.exhibits"):
        monkeypatch.setattr(f"{module}.folder", lambda kind: folder / "experiments")
    return place
