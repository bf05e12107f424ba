"""The printed numbers of all papers: one format, no duplicates, and unchanged since they were checked."""

from __future__ import annotations

import csv
import tomllib
from decimal import Decimal

import pytest

from bench import registry

FOLDER = registry.folder("experiments")
COLUMNS = ["table", "dataset", "metric", "method", "checkpoint", "value", "ci95", "client", "sd", "mark"]
# Numbers of rows, and sums of values and radii, of a second, independent transcription of the papers.
TOTALS = {
    "apple": {"1": (80, "69.7353", "0"), "2": (80, "72.7356", "0")},
    "fenda": {
        "2": (49, "36.4112", "0.3185"),
        "3": (38, "32.3410", "0.0589"),
        "4": (36, "28.3345", "0.3099"),
        "10": (48, "41.3182", "0.1264"),
        "figure2": (60, "30.6847", "0"),
    },
    "global_layers": {
        "2": (44, "34.7907", "0"),
        "15": (22, "18.1328", "0.2937"),
        "16": (22, "16.6579", "0.2884"),
        "17": (22, "14.0396", "0.4252"),
    },
    "player": {
        "1": (96, "124.674", "1.251"),
        "2": (20, "110.0", "0"),
        "A.5": (80, "56.12380", "0"),
        "A.6": (80, "68.735", "0"),
        "A.7": (96, "140.074", "0.799"),
        "A.8": (80, "56.367210", "0"),
        "A.9": (80, "69.368", "0"),
        "A.10": (96, "5346.0", "156.8"),
        "A.11": (80, "60.29463", "0"),
        "A.12": (80, "76.666", "0"),
    },
}
PAPERS = sorted(TOTALS)


def rows(paper: str) -> list[dict[str, str]]:
    with (FOLDER / paper / "printed.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def facts(paper: str) -> dict:
    return tomllib.loads((FOLDER / paper / "paper.toml").read_text(encoding="utf-8"))


def test_these_are_all_the_papers():
    assert sorted(file.parent.name for file in FOLDER.glob("*/paper.toml")) == PAPERS
    assert sorted(file.parent.name for file in FOLDER.glob("*/printed.csv")) == PAPERS


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_has_the_same_format(paper):
    printed = rows(paper)
    assert list(printed[0]) == COLUMNS
    key = ["table", "dataset", "metric", "method", "checkpoint", "client"]
    assert len({tuple(row[column] for column in key) for row in printed}) == len(printed)
    for row in printed:
        assert all(row[column] for column in [*key, "value"]), row
        assert row["checkpoint"] in ("latest", "global", "local", "best-test (oracle)")
        assert set(row["mark"].split()) <= {"bold", "star", "underline"}
        assert all(Decimal(row[column]) >= 0 for column in ("value", "ci95", "sd") if row[column])


@pytest.mark.parametrize("paper", PAPERS)
def test_no_number_has_changed(paper):
    found: dict[str, tuple[int, Decimal, Decimal]] = {}
    for row in rows(paper):
        count, values, radii = found.get(row["table"], (0, Decimal(0), Decimal(0)))
        found[row["table"]] = (count + 1, values + Decimal(row["value"]), radii + Decimal(row["ci95"] or 0))
    assert found == {table: (n, Decimal(a), Decimal(b)) for table, (n, a, b) in TOTALS[paper].items()}


@pytest.mark.parametrize("paper", PAPERS)
def test_data_sets_have_registered_names(paper):
    named = {row["dataset"].partition(":")[0] for row in rows(paper)} - {"mean_rank"}
    assert named <= set(registry.catalogue("datasets"))


@pytest.mark.parametrize("paper", PAPERS)
def test_percentages_of_papers_are_stored_as_shares(paper):
    shares = facts(paper).get("percent", [])
    assert set(shares) <= {row["metric"] for row in rows(paper)}
    for row in rows(paper):
        if row["metric"] in shares and row["dataset"] != "mean_rank":
            assert Decimal(row["value"]) <= 1, row


def test_spot_values():
    """One number of each kind, as printed."""

    def value(paper: str, *place: str) -> list[str]:
        key = ("table", "dataset", "metric", "method", "client")
        (row,) = (row for row in rows(paper) if tuple(row[column] for column in key) == place)
        return [row[column] for column in ("value", "ci95", "sd", "mark")]

    neota = ("16", "covertype", "balanced_accuracy", "GL", "neota")
    assert value("global_layers", *neota) == ["0.8113", "0.0081", "0.0190", "bold"]
    path = ("1", "pathmnist:pathological", "accuracy", "APFL", "all")
    assert value("apple", *path) == ["0.9898", "", "", ""]
    fedprox = ("A.5", "sent140", "macro_f1_variance", "FedProx", "all")
    assert value("player", *fedprox) == ["4.1e-3", "", "", ""]
    ranks = ("1", "mean_rank", "macro_f1", "pFedLA", "all")
    assert value("player", *ranks) == ["11.4", "", "", ""]
    apfl = ("2", "fed_heart_disease", "accuracy", "APFL", "all")
    assert value("fenda", *apfl) == ["0.801", "0.006", "", "star underline"]
