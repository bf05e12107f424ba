"""The printed numbers of FENDA-FL: consistent with each other, with the study, and with counts by hand."""

from __future__ import annotations

import itertools
import math
import tomllib
from dataclasses import asdict

import pandas as pd
import pytest

from bench import registry, spec

FOLDER = registry.folder("experiments") / "fenda"
PAPER = tomllib.loads((FOLDER / "paper.toml").read_text(encoding="utf-8"))
HEART = spec.read(FOLDER / "heart.toml")
PRINTED = pd.read_csv(FOLDER / PAPER["printed"], dtype={"table": str, "client": str})
CELL = ["table", "dataset", "metric", "method", "checkpoint", "client"]


def powers_of_ten(largest: float, smallest: float) -> list[float]:
    exponents = range(round(math.log10(largest)), round(math.log10(smallest)) - 1, -1)
    return [float(f"1e{exponent}") for exponent in exponents]


def grid(tuned: dict[str, dict]) -> dict[str, list[float]]:
    return {name: powers_of_ten(*entry["range"]) for name, entry in tuned.items()}


def searched(method: str) -> dict[str, list[float]]:
    return {name: list(values) for name, values in HEART.methods[method].axes.items()}


def settings(grid: dict[str, list[float]]) -> int:
    return math.prod(len(values) for values in grid.values())


def test_every_cell_is_printed_once():
    assert not PRINTED.duplicated(CELL).any()
    assert PRINTED["value"].between(0, 1).all()
    assert PRINTED.groupby("table").size().to_dict() == {"2": 49, "3": 38, "4": 36, "10": 48, "figure2": 60}


@pytest.mark.parametrize(
    ("method", "checkpoint"),
    [(f"Client {i}", "local") for i in range(6)]
    + [("Central", "local"), ("SCAFFOLD", "global"), ("FENDA-FL", "local"), ("APFL", "local")],
)
def test_rows_of_figure_2_average_to_table_2(method, checkpoint):
    isic = PRINTED[(PRINTED["dataset"] == "fed_isic2019") & (PRINTED["method"] == method)]
    row = isic.loc[isic["table"] == "figure2", "value"]
    (table_2,) = isic.loc[(isic["table"] == "2") & (isic["checkpoint"] == checkpoint), "value"]
    assert row.mean() == pytest.approx(table_2, abs=5.1e-4)


def test_diagonal_of_figure_2_averages_to_silo():
    figure = PRINTED[PRINTED["table"] == "figure2"].set_index(["method", "client"])["value"]
    diagonal = [figure[f"Client {i}", f"{i}"] for i in range(6)]
    assert sum(diagonal) / 6 == pytest.approx(0.634, abs=5e-4)
    assert diagonal[5] == pytest.approx(PAPER["text"]["client5_on_itself"], abs=5e-4)


def test_asterisks_follow_the_stated_rule():
    """An asterisk means value - radius > Silo + radius of Silo; Central has none, and one exact tie has one."""
    exceptions = {}
    cells = PRINTED[PRINTED["table"].isin(["2", "3", "4"])]
    checked = 0
    for _, column in cells.groupby(["table", "dataset", "metric"]):
        silo = column[column["method"] == "Silo"].iloc[0]
        for cell in column[column["method"] != "Silo"].itertuples():
            checked += 1
            gap = round(cell.value - cell.ci95 - silo["value"] - silo["ci95"], 6)
            if (gap > 0) != ("star" in str(cell.mark)):
                exceptions[cell.dataset, cell.metric, cell.method, cell.checkpoint] = gap
    assert checked == 116
    assert exceptions.pop(("fed_isic2019", "balanced_accuracy", "SCAFFOLD", "global")) == 0
    assert len(exceptions) == 5
    assert {method for _, _, method, _ in exceptions} == {"Central"}


def test_table_10_repeats_table_2():
    """Cells that are in both tables have the same mean and radius."""
    two, ten = (PRINTED[PRINTED["table"] == table].drop(columns="table") for table in ("2", "10"))
    both = two.merge(ten, on=CELL[1:], suffixes=("_2", "_10"))
    assert len(both) == 20
    assert both["value_2"].equals(both["value_10"])
    assert both["ci95_2"].equals(both["ci95_10"])


@pytest.mark.parametrize("table", ["table5", "table7"])
def test_best_values_are_on_their_grids(table):
    for dataset, methods in PAPER[table].items():
        for method, tuned in methods.items():
            for name, entry in tuned.items():
                best = entry["best"] if isinstance(entry["best"], list) else [entry["best"]]
                assert set(best) <= set(powers_of_ten(*entry["range"])), (dataset, method, name)


@pytest.mark.parametrize(("dataset", "total"), [("fed_heart_disease", 91), ("fed_ixi", 105), ("fed_isic2019", 105)])
def test_number_of_settings_searched(dataset, total):
    assert sum(settings(grid(tuned)) for tuned in PAPER["table5"][dataset].values()) == total


def test_study_searches_the_printed_grids():
    for method, tuned in PAPER["table5"]["fed_heart_disease"].items():
        assert searched(method) == grid(tuned), method


def test_study_searches_157_settings_with_the_methods_of_the_later_version():
    later = ("moon", "fedper", "perfcl")
    first = tuple(PAPER["table5"]["fed_heart_disease"])
    assert sum(settings(searched(method)) for method in first + later) == 157


def test_large_models_search_the_grids_of_the_small_ones():
    for method in ("fedavg", "fedadam", "fedprox", "scaffold"):
        assert searched(f"{method}_large") == searched(method)


def test_study_trains_as_the_paper_says():
    training = PAPER["training"]
    printed = {key: training[key] for key in ("optimizer", "validation")} | training["fed_heart_disease"]
    printed.pop("metric")
    budget = asdict(HEART.methods["fedavg"].budget)
    assert {key: budget[key] for key in printed} == printed
    assert len(HEART.seeds) == training["runs"]


def test_sizes_of_tables_6_and_8():
    """The sizes of Fed-Heart-Disease and Fed-ISIC2019 are right; Fed-IXI is printed with 8 subjects too many."""
    totals = {name: sum(entry["train"] + entry["test"]) for name, entry in (PAPER["table6"] | PAPER["table8"]).items()}
    assert totals["fed_heart_disease"] == 740
    assert totals["fed_isic2019"] == 23_247
    assert totals["fed_ixi"] == 566 + 8
    assert {len(PAPER["table8"][name]["train"]) for name in PAPER["table8"]} == {6, 7}


def test_parameters_of_table_9_on_fed_heart_disease():
    """The study's models have the printed parameters, except the large one: 13 x 10 + 10 + 10 + 1 = 151, not 152."""
    printed = PAPER["table9"]["fed_heart_disease"]
    assert parameters("fedavg") == printed["standard"] == 14
    assert 2 * parameters("apfl") == printed["apfl"] == 152
    assert parameters("fenda") == parameters("perfcl") == printed["fenda"] == 151
    assert parameters("moon") == parameters("fedper") == parameters("fedavg_large") == 151 == printed["large"] - 1


def parameters(method: str) -> int:
    chosen = HEART.methods[method].model
    model = registry.load("models", chosen.name)((13,), 1, **chosen.options)
    return sum(weight.numel() for weight in model.parameters())


def unet(base: int, *, encodings: int = 3, classifier: bool = True) -> int:
    """Trainable parameters of the 3-D U-Net of Fed-IXI, counted layer by layer.

    A block is a 3x3x3 convolution, batch normalisation (scale and shift; a bias instead in the first block) and a
    PReLU with one slope. Each of the ``encodings`` doubles the channels in its second block.
    """

    def block(inputs: int, outputs: int, normalised: bool = True) -> int:
        return 27 * inputs * outputs + outputs * (2 if normalised else 1) + 1

    count, channels, skips = block(1, base, normalised=False) + block(base, 2 * base), 2 * base, []
    for _ in range(encodings - 1):
        skips.append(channels)
        count += block(channels, channels) + block(channels, 2 * channels)
        channels *= 2
    for skip in reversed(skips):
        count += block(skip + channels, skip) + block(skip, skip)
        channels = skip
    return count + (2 * channels + 2 if classifier else 0)


def parallel_unets(depth: tuple[int, int], latent: tuple[int, int]) -> int:
    """Two U-Nets without classifier under one 1x1x1 convolution to two classes (FENDA-FL, section 4.2)."""
    extractors = (unet(base, encodings=d, classifier=False) for d, base in zip(depth, latent, strict=True))
    return sum(extractors) + 2 * (2 * sum(latent)) + 2


def test_fed_ixi_counts_of_table_9_are_doubled():
    printed = PAPER["table9"]["fed_ixi"]
    assert printed["standard"] == 2 * unet(12)
    assert printed["apfl"] == 2 * (2 * unet(8))
    assert printed["fenda"] == 2 * parallel_unets((3, 3), (8, 8))


@pytest.mark.parametrize("row", PAPER["table12"], ids=lambda row: f"{row['method']} {row['depth']} {row['latent']}")
def test_counts_of_table_12_are_doubled(row):
    if row["method"] == "APFL":
        assert row["parameters"] == 2 * sum(unet(base) for base in row["latent"])
    else:
        assert row["parameters"] == 2 * parallel_unets(row["depth"], row["latent"])


def weights(*widths: int) -> int:
    """Weights of a chain of linear layers, biases not counted."""
    return sum(a * b for a, b in itertools.pairwise(widths))


def test_gemini_counts_of_tables_9_and_11_exclude_biases():
    """The printed counts equal those of these layer widths without biases (other widths may fit too)."""
    mortality, delirium = PAPER["table9"]["gemini_mortality"], PAPER["table9"]["gemini_delirium"]
    assert mortality["standard"] == weights(35, 512, 256, 256, 32, 2)
    assert mortality["apfl"] == 2 * weights(35, 256, 256, 128, 32, 1)
    assert mortality["fenda"] == 2 * weights(35, 256, 256) + weights(512, 128, 64, 1)
    assert delirium["standard"] == weights(8098, 1024, 512, 256, 128, 64, 1)
    assert delirium["apfl"] == 2 * weights(8098, 512, 512, 128, 128, 32, 1)
    deep, shallow = weights(8093, 512, 512, 256, 128), weights(8093, 512, 8)
    asymmetric = deep + shallow + weights(128 + 8, 1)
    assert delirium["fenda"] == asymmetric
    assert [row["parameters"] for row in PAPER["table11"]] == [
        2 * weights(8093, 512, 256, 128, 64) + weights(128, 1),
        # Without the 128 weights of the head, unlike the other rows.
        weights(8093, 512, 512, 256, 64) + weights(8093, 512, 64),
        asymmetric,
        weights(8093, 512, 512, 256, 64) + weights(8093, 512, 64),
        asymmetric,
    ]


def test_last_rows_of_table_11_print_the_same_results():
    results = [(row["accuracy"], row["auroc"]) for row in PAPER["table11"]]
    assert results[3] == results[4]
