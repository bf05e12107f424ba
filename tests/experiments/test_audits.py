"""Findings of the audits compared with findings by hand, and their counts compared with counting."""

from __future__ import annotations

import math
import tomllib

import pandas as pd
import pytest
import torch

from bench import registry
from bench.data import load_dataset
from bench.report.audit.findings import Audit, AuditFinding, audit, papers
from bench.report.audit.text import render

DOES_NOT_FOLLOW = {
    "apple": {
        *("bold", "highest", "personalised_above_local", "above_personalised", "measured_separately"),
        *("state_of_the_art_when_limited", "overhead", "grid", "schedule_ends"),
    },
    "fenda": {
        *("distinct_splits", "heart_parameters_in_the_text", "ixi_local_checkpoints", "mortality_clients"),
        *("not_below_apfl", "latest_suboptimal", "local_suboptimal", "spread_suboptimal"),
        *("heart_parameters", "ixi_parameters", "table_12_parameters", "table_11_rows", "ixi_samples", "fedadam"),
    },
    "global_layers": {
        *("heart_row_totals", "centralised", "covertype_samples", "heart_samples", "heart_shares", "classes"),
        *("disjoint", "seeds", "covertype_seeds", "parameters_local", "d_global", "heart_d_global", "same_model"),
        *("radii", "deviations", "significant", "variance"),
        *("lift_over_the_better", "lift_over_the_worse", "cleveland_relative"),
    },
    "player": {
        *("ranks_1", "ranks_a5", "ranks_a6", "ranks_a7", "ranks_a8", "ranks_a10", "ranks_a11"),
        *("p_1", "p_a5", "p_a6", "p_a8", "p_a9", "p_a11", "p_a12", "significant_1"),
        *(
            "bold_a5",
            "bold_a8",
            "bold_a11",
            "clients",
            "learning_rates",
            "loss_unit",
            "threshold",
            "measured_separately",
        ),
    },
}
UNCHECKED = {
    "apple": {"chosen_decay", "fedavg_as_limit", "relationships"},
    "fenda": {
        *("best", "interval_formula", "latest_of_the_same_runs", "alpha_rates", "extreme_heterogeneity"),
        *("later_version", "gemini_parameters", "delirium_features", "table_11_head"),
    },
    "global_layers": {"metric", "fedavg_on_covertype", "fedavg_on_heart_cohorts", "fedavg_federates", "replicates"},
    "player": {"bold_elsewhere", "radii", "sensitivity"},
}


@pytest.fixture(scope="module")
def audits() -> dict[str, Audit]:
    return {paper: audit(paper) for paper in papers()}


def finding(audits, paper: str, claim: str) -> AuditFinding:
    (found,) = (found for found in audits[paper].findings if found.claim == claim)
    return found


def off(audits, paper: str, claim: str) -> dict[str, tuple[str, str]]:
    return {part.what: (part.printed, part.recomputed) for part in finding(audits, paper, claim).off}


@pytest.mark.parametrize("paper", sorted(DOES_NOT_FOLLOW))
def test_claims_that_do_not_follow(audits, paper):
    assert {found.claim for found in audits[paper].of("does not follow")} == DOES_NOT_FOLLOW[paper]


@pytest.mark.parametrize("paper", sorted(UNCHECKED))
def test_claims_that_cannot_be_checked(audits, paper):
    unchecked = audits[paper].of("cannot be checked")
    assert {found.claim for found in unchecked} == UNCHECKED[paper]
    assert all(found.why for found in unchecked)


@pytest.mark.parametrize("paper", papers())
def test_published_audits_are_current(audits, paper):
    published = registry.folder("experiments").parent / "results/published" / paper / "audit.txt"
    again = f"COLUMNS=100 silobench audit {paper} --full > results/published/{paper}/audit.txt"
    assert published.read_text(encoding="utf-8") == f"{render(audits[paper], 100, full=True)}\n", again


def test_every_paper_has_an_audit(audits):
    assert (
        set(audits)
        == set(DOES_NOT_FOLLOW)
        == {file.parent.name for file in registry.folder("experiments").glob("*/paper.toml")}
    )


# PLayer-FL ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "follow", "methods"),
    [
        *(("1", 3, 12), ("a5", 6, 10), ("a6", 4, 10), ("a7", 9, 12), ("a8", 9, 10)),
        *(("a9", 10, 10), ("a10", 8, 12), ("a11", 6, 10), ("a12", 10, 10)),
    ],
)
def test_mean_ranks_of_the_printed_medians(audits, table, follow, methods):
    found = finding(audits, "player", f"ranks_{table}")
    assert (sum(part.follows for part in found.parts), len(found.parts)) == (follow, methods)


def test_mean_ranks_of_table_1(audits):
    recomputed = {part.what: part.recomputed.split()[0] for part in finding(audits, "player", "ranks_1").parts}
    assert recomputed["FedAvg"] == recomputed["LocalAdaptation"] == "6.86"
    assert recomputed["PLayer-FL"] == "3.00"
    assert recomputed["pFedLA"] == "10.00"
    assert recomputed["FedBABU"] == "4.07"


@pytest.mark.parametrize(
    ("table", "misprint"),
    [
        ("a5", "7 would if FedProx on sent140 had 0.041 for 0.0041"),
        ("a6", "9 would if FedLP on mimic3_mortality had 0 for 0.5"),
        ("a8", "10 would if FedLAMA on isic2019_4class had 0.042 for 0.0042"),
        ("a11", "8 would if Ditto on cifar10 had 0.0023 for 0.00023"),
    ],
)
def test_single_misprints_that_explain_more(audits, table, misprint):
    assert misprint in finding(audits, "player", f"ranks_{table}").why


@pytest.mark.parametrize(
    ("table", "proper", "turned"),
    [
        ("1", "0.0126", "7.02e-10"),
        ("a5", "0.602", "9.66e-10"),
        ("a6", "0.0667", "0.0191"),
        ("a7", "0.00129", "6.61e-11"),
        ("a8", "0.0321", "2.71e-10"),
        ("a9", "0.0187", "0.00241"),
        ("a10", "0.000972", "6.79e-12"),
        ("a11", "0.107", "3.91e-10"),
        ("a12", "0.0274", "0.0834"),
    ],
)
def test_p_values(audits, table, proper, turned):
    found = finding(audits, "player", f"p_{table}")
    assert found.parts[0].recomputed == proper
    assert f"data sets taken for methods {turned}" in found.why


def test_other_findings_of_player(audits):
    assert "of the printed mean ranks 0.000832" in finding(audits, "player", "p_1").why
    assert len(finding(audits, "player", "significant_1").off) == 9
    assert set(off(audits, "player", "bold_a5")) == {"emnist", "sent140"}
    assert set(off(audits, "player", "bold_a8")) == {"isic2019_4class", "fed_heart_disease_5class"}
    assert off(audits, "player", "bold_a11") == {"fed_heart_disease_5class": ("PLayer-FL 1.4e-02", "pFedMe 1.3e-02")}
    assert off(audits, "player", "clients") == {"clients of fed_heart_disease_5class": ("5", "the shares are of 4")}
    assert set(off(audits, "player", "learning_rates")) == {
        *("isic2019_4class, pFedMe", "isic2019_4class, PLayer-FL", "isic2019_4class, PLayer-FL-1"),
        *("fed_heart_disease_5class, pFedMe", "mimic3_mortality, pFedMe"),
    }
    assert set(off(audits, "player", "measured_separately")) == {
        "PLayer-FL and PLayer-FL-Random (isic2019_4class)", "FedAvg and FedProx (sent140)",
    }  # fmt: skip


# Global Layers ------------------------------------------------------------------------------------------------


def test_findings_of_global_layers(audits):
    assert off(audits, "global_layers", "heart_row_totals") == {
        "cleveland": ("304", "303"),
        "faisalabad": ("299", "300"),
    }
    assert off(audits, "global_layers", "centralised") == {
        "train": ("11,340", "11,341"), "validation": ("3,780", "3,781"), "total": ("581,012", "581,014"),
    }  # fmt: skip
    assert off(audits, "global_layers", "classes") == {"centralized": ("6", "7")}
    assert off(audits, "global_layers", "disjoint")["cleveland and faisalabad"] == ("nothing shared", "age, sex")
    assert off(audits, "global_layers", "radii") == {"16, Centralized": ("6.63", "6.651 from 15.55")}
    assert "normal intervals fit 65 of 66 radii, t intervals 4" in finding(audits, "global_layers", "radii").why
    assert off(audits, "global_layers", "deviations") == {
        "Tables 15 and 16": ("apart", "1 of 22 alike: covertype GL neota")
    }
    assert len(off(audits, "global_layers", "variance")) == 5
    lifts = finding(audits, "global_layers", "lift_over_the_better").parts
    assert [float(part.recomputed) for part in lifts] == [4.48, 0.86, 2.51, 0.77, 7.38, 1.65]
    assert set(off(audits, "global_layers", "lift_over_the_worse")) == {
        "covertype, auroc", "heart_cohorts, balanced_accuracy",
    }  # fmt: skip


# APPLE --------------------------------------------------------------------------------------------------------


def test_findings_of_apple(audits):
    bold = {"pathmnist:pathological": ("APPLE, mu != 0 97.51", "APFL 98.98")}
    assert off(audits, "apple", "bold") == bold
    assert len(off(audits, "apple", "highest")) == 1
    assert off(audits, "apple", "measured_separately") == {
        "FedAvg-local and APFL": ("apart", "2 of 8 alike"),
        "FedAvg-FT and FedProx-FT": ("apart", "7 of 8 alike"),
    }
    assert {part.printed for part in finding(audits, "apple", "grid").off} == {"0.001"}
    assert len(finding(audits, "apple", "grid").off) == 3


# FENDA-FL -----------------------------------------------------------------------------------------------------


def test_findings_of_fenda(audits):
    stars = finding(audits, "fenda", "stars")
    assert stars.why == "109 cells; 1 star on an exact tie; 5 of Central pass the rule without a star"
    assert off(audits, "fenda", "heart_parameters") == {"standard, large": ("152", "151")}
    assert finding(audits, "fenda", "ixi_parameters").why == "all are printed 2 times as large"
    assert finding(audits, "fenda", "table_12_parameters").why == "all are printed 2 times as large"
    assert "with their biases left out 6 of 6 are as printed" in finding(audits, "fenda", "gemini_parameters").why
    assert off(audits, "fenda", "fedadam") == {"after 30 rounds": ("-0.204", "-0.2046")}
    assert len(off(audits, "fenda", "distinct_splits")) == 15


# Counts ---------------------------------------------------------------------------------------------


def counted_items():
    for paper, place in papers().items():
        claims = tomllib.loads((place / "audit.toml").read_text(encoding="utf-8"))["claims"]
        for name, claim in claims.items():
            for item in claim["items"] if claim["kind"] == "counted" else ():
                yield pytest.param(item, id=f"{paper}-{name}-{item['what']}")


@pytest.mark.parametrize("item", [each for each in counted_items() if "model" in each.values[0]])
def test_counted_parameters_are_those_of_the_models(item):
    options = dict(item["model"])
    build, inputs, outputs = registry.load("models", options.pop("name")), options.pop("inputs"), options.pop("outputs")
    with torch.device("meta"):
        model = build(tuple(inputs), outputs, **options)
    children = item.get("children", [name for name, _ in model.named_children()])
    weights = [w for name, w in model.named_parameters() if w.requires_grad and name.split(".")[0] in children]
    assert sum(w.numel() for w in weights) == item["counted"]


def counted(paper: str, claim: str) -> list[int]:
    text = (papers()[paper] / "audit.toml").read_text(encoding="utf-8")
    return [item["counted"] for item in tomllib.loads(text)["claims"][claim]["items"]]


def test_counted_samples_are_those_of_the_data_sets(bench_data):
    hearts = load_dataset("heart_cohorts", bench_data).clients
    sizes = [len(client.train) + len(client.validation) + len(client.test) for client in hearts]
    assert sizes == counted("global_layers", "heart_samples")
    forests = load_dataset("covertype", bench_data, source="prepared").clients
    sizes = [len(client.train) for client in forests] + [len(client.validation) for client in forests]
    assert [*sizes, *(len(client.test) for client in forests if client.test)] == counted(
        "global_layers", "covertype_samples"
    )
    centres = load_dataset("fed_heart_disease", bench_data).clients
    sizes = [len(client.train) for client in centres] + [len(client.test) for client in centres]
    assert sizes == counted("fenda", "heart_samples")


def test_counted_photographs_and_volumes_are_those_of_the_split_tables(bench_data):
    volumes = pd.read_csv(bench_data / "flamby_splits/fed_ixi_metadata_tiny.csv")
    sizes = volumes.groupby(["Split", "Manufacturer"]).size()
    assert [*sizes["train"], *sizes["test"]] == counted("fenda", "ixi_samples")
    photographs = pd.read_csv(bench_data / "flamby_splits/fed_isic2019_train_test_split")
    (part,) = finding({"fenda": audit("fenda")}, "fenda", "isic_samples").parts
    assert f"{len(photographs):,}" == part.recomputed


def test_fedadam_equals_its_closed_sums():
    """Three rounds of Algorithm 1 by hand: m and v are sums over the rounds before."""
    from bench.report.audit.claims import Printed
    from bench.report.audit.plausibility_claims import fedadam

    x, deltas = 2.0, []
    for _ in range(3):
        deltas.append(0.1 - x)
        m = sum(0.1 * 0.9**age * delta for age, delta in enumerate(reversed(deltas)))
        v = sum(0.1 * 0.9**age * delta**2 for age, delta in enumerate(reversed(deltas)))
        x += 0.1 * m / math.sqrt(v + 1e-9)
    case = {"start": 2.0, "update": 0.1, "server_lr": 0.1, "beta1": 0.9, "beta2": 0.9, "tau": 1e-9, "rounds": 3}
    (part,) = fedadam(Printed({"case": case | {"printed": round(x, 3)}}), of="case").parts
    assert part.follows
    assert part.recomputed == f"{x:.4f}"


@pytest.mark.parametrize("paper", sorted(DOES_NOT_FOLLOW))
def test_the_readme_states_the_number_of_claims(audits, paper):
    text = (papers()[paper] / "README.md").read_text(encoding="utf-8")
    assert f"silobench audit {paper}\n\nchecks {len(audits[paper].findings)} claims" in text
