"""Docstrings of algorithms (equations, their place in the paper, communication cost) and ``silobench list``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from bench import listing, registry
from bench.settings import fitting
from bench.train import build, engine
from bench.types import Budget
from tests.train.toy import federation

NAMES = list(registry.catalogue("algorithms"))
LISTED = {each["name"]: each for each in listing.algorithms()}
PLACE = re.compile(r"\b(equations?|algorithms?|lines?|sections?|appendix|table) ([A-Z]\.?)?\d|appendix [A-Z]\b")
# What these upload depends on numbers; tests/algorithms/test_layerwise.py counts it.
BY_NUMBERS = ("fedlama", "fedlp", "player_fl", "player_fl_random")
OPTIONS = {"global_layers": {"layers": ("base",)}}  # its own are the layers of its paper's model


@pytest.mark.parametrize("name", NAMES)
def test_the_paper_is_named_with_a_year_and_a_place_in_it(name: str) -> None:
    paper = LISTED[name]["paper"]
    assert re.search(r"\b(19|20)\d\d\b", paper)
    assert PLACE.search(paper)


@pytest.mark.parametrize("name", NAMES)
def test_equations_stand_before_the_labelled_sentences(name: str) -> None:
    entry = registry.find("algorithms", name)
    summary, *paragraphs, labelled = entry.docstring.split("\n\n")
    assert summary.endswith(".")
    assert re.search(r"[\w}] = |F_i\(", "".join(paragraphs))
    assert tuple(re.findall(r"^([A-Z][\w ]+): ", labelled, re.MULTILINE)) == listing.LABELS
    assert all(sentence.endswith(".") for sentence in listing.sentences(entry).values())


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_do_not_repeat_defaults(name: str) -> None:
    """They are written once, in the class."""
    assert not re.search(r"\bdefaults?\b[^.]*\d", registry.find("algorithms", name).docstring, re.IGNORECASE)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_NUMBERS])
def test_the_communication_cost_is_what_is_counted(name: str) -> None:
    fed = federation()
    kind = registry.load("algorithms", name)
    (outcome,) = engine.train(
        fed, algorithm=name, algorithm_options=OPTIONS.get(name), model="mlp", model_options={"hidden": 4},
        settings=[{"lr": 0.01}], seeds=[1], budget=Budget(1, 1, batch_size=4, optimizer=kind.optimizers[0]),
    )  # fmt: skip
    weights = build.build_model(fitting(name, "mlp"), fed, {"hidden": 4}).state_dict().items()
    d, clients = sum(weight.numel() for _, weight in weights), len(fed.clients)
    part = sum(weight.numel() for weight_name, weight in weights if _shared(weight_name, kind))
    floats = {
        "d": d, "d floats": d, "2d": 2 * d, "d - d_bn": d, "nothing": 0, "(C - 1) d or M d": (clients - 1) * d,
        "d_base": part, "d_head": part, "d_global": part, "|omega|": part,
    }  # fmt: skip
    up, _, down = LISTED[name]["communication_cost"].rstrip(".").removesuffix(" down").partition(" up, ")
    assert outcome.communication == {"up": floats[up], "down": floats[down or up]}


def _shared(weight: str, kind: Any) -> bool:
    if kind.parallel:
        return weight.startswith("global_extractor.")
    return weight.startswith("head." if kind.registered_name == "lg_fedavg" else "base.")


def test_the_list_says_everything_of_an_algorithm_without_importing_it() -> None:
    code = (
        "import atexit, sys; from bench.cli.main import main\n"
        "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\nmain()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "list", "algorithms", "--json"], capture_output=True, text=True, check=True
    )
    assert run.stderr == "False\n"
    assert json.loads(run.stdout) == json.loads(json.dumps(list(LISTED.values())))
    (fedprox,) = (each for each in json.loads(run.stdout) if each["name"] == "fedprox")
    assert fedprox == {
        "name": "fedprox",
        "summary": "FedAvg whose local loss is regularised towards the weights at the start of the round.",
        "paper": "Li et al., 2020, algorithm 2, line 7.",
        "variant": "every client does the same amount of local work, and the mean is FedAvg's.",
        "hyperparameters": [{"name": "mu", "default": 0.1, "allowed": "at least 0", "searched": [0.001, 1.0]}],
        "options": [],
        "communication_cost": "d up, d down.",
    }


def test_lines_keep_to_the_width_of_the_terminal() -> None:
    text = listing.text(LISTED["apple"], 60)
    assert max(map(len, text.splitlines())) <= 60
    assert text.startswith("apple  A personal model")
    assert "Options: budget = none (at least 1, or none)," in " ".join(text.split())


def test_values_are_written_as_a_study_file_has_them() -> None:
    listed = [
        {"name": "a", "default": 1e6, "allowed": "above 0", "searched": (1e-5, 0.5)},
        {"name": "b", "default": 3, "allowed": "", "searched": None},
        {"name": "c", "default": None, "allowed": ""},
        {"name": "d", "default": True, "allowed": ""},
        {"name": "e", "default": "word", "allowed": '"word" or "other"'},
        {"name": "f", "default": ("g", "h"), "allowed": ""},
    ]
    expected = 'a = 1e6 (above 0; searched from 1e-5 to 0.5), b = 3, c = none, d = true, e = "word" ("word" or "other")'
    assert listing.values(listed) == f'{expected}, f = ["g", "h"].'
    assert listing.values([]) == "none."
