"""Example studies that tests change."""

from __future__ import annotations

GOOD = """
title = "A study"
paper = "fenda"
seeds = [1, 2]

[data]
name = "fed_heart_disease"

[budget]
rounds = 15
local_steps = 100
batch_size = 4
optimizer = "adamw"

[methods.fedavg]
model = "logistic"
grid.lr = [0.1, 0.01]

[methods.far]
algorithm = "fedprox"
model = { name = "mlp", hidden = 5 }
fixed.lr = 1
grid = { weight_decay = [0.0, 0.1], mu = [1, 2, 3] }
budget = { local_epochs = 2, batch_size = "full" }
data.normalisation = "pooled"

[[tables]]
id = "mine/first"
metric = "accuracy"
printed = "2:fed_heart_disease:accuracy"
rows = [{ method = "FedAvg", of = "fedavg" }, { method = "FedProx", of = "far", checkpoints = ["local"] }]

[[figures]]
id = "mine/first"
kind = "bars"
title = "The same, drawn"
tables = ["mine/first"]
"""


def changed(old: str, new: str) -> str:
    """Return GOOD with one part of it replaced."""
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


STUDY = """
title = "A study"
paper = "global_layers"
seeds = [1, 2, 3]
[data]
name = "covertype"
[budget]
rounds = 15
local_steps = 100
[search]
kind = "random"
trials = 8
[methods.fedavg]
model = "logistic"
range.lr = { low = 1e-3, high = 1.0, log = true }
[methods.local]
model = "logistic"
grid.lr = [0.1, 0.01]
search = { kind = "grid" }
budget.rounds = 50
[methods.given]
algorithm = "fedavg"
model = "logistic"
fixed.lr = 0.1
"""
TABLE = """
[[tables]]
id = "mine/one"
metric = "auroc"
columns = "clients"
printed = "15:covertype:auroc"
rows = [
  { method = "FedAvg", of = "fedavg", checkpoints = ["latest"] },
  { method = "GL", of = "given", checkpoints = ["latest"], metric = "auroc_present" },
  { method = "Local", of = "local", checkpoints = ["best-test (oracle)", "best-val"] },
]
"""
FIGURES = """
[[figures]]
id = "mine/map"
kind = "heatmap"
title = "Map"
table = "mine/one"
[[figures]]
id = "mine/curves"
kind = "curves"
title = "Curves"
scores = ["accuracy", "validation"]
rows = [{ method = "FedAvg", of = "fedavg" }]
[[figures]]
id = "mine/watched"
kind = "trajectories"
title = "Watched"
of = "given"
[[figures]]
id = "mine/layers"
kind = "layers"
title = "Layers"
of = "local"
traces = ["sensitivity"]
[[figures]]
id = "mine/bars"
kind = "bars"
title = "Bars"
tables = ["mine/one"]
[[figures]]
id = "mine/partition"
kind = "partition"
title = "Partition"
"""
SEVERAL = """
[[data]]
name = "mnist"
label = "mnist:practical"
[[data]]
name = "cifar10"
"""
