"""Mean ranks, p-values and intervals of the papers' tables, recomputed from their printed scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bench import registry
from bench.report import ranks, statistics


def printed(paper: str) -> pd.DataFrame:
    return pd.read_csv(registry.folder("experiments") / paper / "printed.csv", dtype={"table": str})


LOWER_IS_BETTER = ("loss", "macro_f1_variance", "accuracy_variance", "loss_variance")


def player(table: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Methods, higher-is-better scores (data sets, methods) and printed mean ranks of a table of PLayer-FL."""
    cells = printed("player").query("table == @table")
    sign = -1 if cells["metric"].iloc[0] in LOWER_IS_BETTER else 1
    wide = cells.pivot(index="dataset", columns="method", values="value")
    return list(wide.columns), sign * wide.drop("mean_rank").to_numpy(), wide.loc["mean_rank"].to_numpy()


@pytest.mark.parametrize("table", ["A.9", "A.12"])
def test_mean_ranks_of_player_fl_that_follow_from_its_scores(table):
    methods, scores, mean_ranks = player(table)
    assert scores.shape == (7, 10)
    assert ranks.rank(methods, scores).average == pytest.approx(mean_ranks, abs=0.051)


def test_mean_ranks_of_player_fls_table_1_that_do_not():
    methods, scores, mean_ranks = player("1")
    found = dict(zip(methods, ranks.rank(methods, scores).average, strict=True))
    expected = {"Local": 6.79, "FedAvg": 6.86, "FedProx": 6.79, "pFedMe": 4.64, "Ditto": 6.29, "LocalAdaptation": 6.86}
    expected |= {"FedBABU": 4.07, "FedLP": 7.14, "FedLAMA": 9.57, "pFedLA": 10.0, "PLayer-FL": 3.0}
    assert found == pytest.approx(expected | {"PLayer-FL-Random": 6.0}, abs=5e-3)
    follows = [abs(found[method] - rank) < 0.051 for method, rank in zip(methods, mean_ranks, strict=True)]
    assert [method for method, each in zip(methods, follows, strict=True) if each] == ["FedBABU"]
    assert sorted(found, key=found.__getitem__)[:2] == ["PLayer-FL", "FedBABU"]


@pytest.mark.parametrize(
    ("table", "methods_differ", "as_published"),
    [
        ("1", 0.0126, 7.0e-10),  # printed: < 5e-3
        ("A.5", 0.602, 9.7e-10),  # < 5e-3
        ("A.6", 0.0667, 0.0191),  # 0.043
        ("A.7", 0.00129, 6.6e-11),  # < 5e-3
        ("A.8", 0.0321, 2.7e-10),  # < 5e-3
        ("A.9", 0.0187, 0.0024),  # < 5e-3
        ("A.10", 0.00097, 6.8e-12),  # < 5e-3
        ("A.11", 0.107, 3.9e-10),  # < 5e-3
        ("A.12", 0.0274, 0.0834),  # 0.084
    ],
)
def test_friedman_of_player_fl_in_both_orientations(table, methods_differ, as_published):
    """Every printed p but A.6's is that of the transposed test; only A.7 and A.10 also hold for methods."""
    methods, scores, _ = player(table)
    assert ranks.rank(methods, scores).p == pytest.approx(methods_differ, rel=0.01)
    assert ranks.friedman_as_published(methods, scores)[1] == pytest.approx(as_published, rel=0.01)


def test_iman_davenport_of_player_fls_table_1():
    methods, scores, _ = player("1")
    assert ranks.rank(methods, scores).f_p == pytest.approx(0.0059, abs=5e-5)


def test_player_fls_table_a6_follows_when_one_cell_is_a_misprint():
    methods, scores, mean_ranks = player("A.6")
    datasets = sorted(printed("player").query("table == 'A.6' and dataset != 'mean_rank'")["dataset"].unique())
    scores[datasets.index("mimic3_mortality"), methods.index("FedLP")] = 0.0
    assert ranks.friedman_as_published(methods, scores)[1] == pytest.approx(0.0423, abs=5e-5)  # printed: 0.043
    assert (np.abs(ranks.rank(methods, scores).average - mean_ranks) < 0.051).sum() == 9


def test_intervals_of_global_layers_are_normal_ones():
    """65 of 66 printed radii are 1.96 sd / sqrt(n) to a hundredth of a per cent; those of t intervals fit 11."""
    cells = printed("global_layers").query("table in ('15', '16', '17')")
    fits = {"normal": 0, "t": 0}
    for cell in cells.itertuples():
        ladder = np.arange(21.0 if cell.dataset == "covertype" else 101.0)
        runs = (ladder * cell.sd / ladder.std(ddof=1)).tolist()
        assert statistics.sd(runs) == pytest.approx(cell.sd)
        fits["normal"] += abs(statistics.normal_radius(runs) - cell.ci95) < 1.01e-4
        fits["t"] += abs(statistics.t_radius(runs) - cell.ci95) < 1.01e-4
    assert len(cells) == 66
    assert fits == {"normal": 65, "t": 11}
