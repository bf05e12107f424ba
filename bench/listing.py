"""Text and JSON of ``silobench list algorithms``.

The docstring of an algorithm ends with three sentences that begin a line each. "Paper:" names the source and where its
equations are, "Variant:" what was chosen where the paper leaves a choice, and "Communication cost:" the floats that a
client uploads and downloads in a round. Hyper-parameters and options come from the class.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from bench import registry
from bench.registry import Option

LABELS = ("Paper", "Variant", "Communication cost")
_LABEL = "|".join(LABELS)
LABELED = re.compile(rf"^({_LABEL}): (.+?)(?=^(?:{_LABEL}): |\Z)", re.M | re.S)


def algorithms() -> list[dict[str, Any]]:
    """Return all algorithms by name: summary, paper, variant, hyper-parameters, options and communication cost."""
    return [_algorithm(entry) for entry in registry.catalogue("algorithms").values()]


def _algorithm(entry: registry.Entry) -> dict[str, Any]:
    found = sentences(entry)
    own = registry.hyperparameters(entry.name)
    options = registry.declaration("algorithms", entry.name).options
    return {
        "name": entry.name,
        "summary": entry.summary,
        "paper": found.get("Paper", ""),
        "variant": found.get("Variant", ""),
        "hyperparameters": [
            {"name": name, "default": each.default, "allowed": _allowed(each), "searched": each.log}
            for name, each in own.items()
        ],
        "options": [
            {"name": name, "default": each.default, "allowed": _allowed(each)}
            for name, each in options.items()
            if name not in own
        ],
        "communication_cost": found.get("Communication cost", ""),
    }


def _allowed(option: Option) -> str:
    """Return the allowed values in words, "" if any value of the type is allowed."""
    if option.allowed.among:
        return " or ".join(map(shown, option.allowed.among))
    bounds = option.allowed.bounds
    return f"{bounds}, or none" if bounds and "none" in option.allowed.types else bounds


def sentences(entry: registry.Entry) -> dict[str, str]:
    """Return the labelled sentences at the end of an algorithm's docstring, by label."""
    return {label: " ".join(sentence.split()) for label, sentence in LABELED.findall(entry.docstring)}


def values(listed: list[dict[str, Any]]) -> str:
    """Return hyper-parameters or options in one sentence: defaults, allowed values, and the interval to search."""
    parts = []
    for each in listed:
        searched = f"searched from {' to '.join(map(shown, each['searched']))}" if each.get("searched") else ""
        more = "; ".join(filter(None, (each["allowed"], searched)))
        parts.append(f"{each['name']} = {shown(each['default'])}" + (f" ({more})" if more else ""))
    return f"{', '.join(parts) or 'none'}."


def shown(value: Any) -> str:
    """Return a value as a study file has it, None as "none"."""
    if value is None:
        return "none"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return re.sub(r"e([+-])0*", lambda sign: f"e{sign[1].strip('+')}", f"{value:g}")
    return json.dumps(value, ensure_ascii=False)


def text(listed: Mapping[str, Any], width: int) -> str:
    """Return an algorithm's lines, at most ``width`` characters each: its name and summary, the rest indented."""
    rest = {
        "Paper": listed["paper"],
        "Variant": listed["variant"],
        "Hyper-parameters": values(listed["hyperparameters"]),
        "Options": values(listed["options"]),
        "Communication cost": listed["communication_cost"],
    }
    lines = [f"{listed['name']}  {listed['summary']}"]
    lines += [f"{label}: {sentence or 'not documented.'}" for label, sentence in rest.items()]
    return "\n".join(
        textwrap.fill(line, width, initial_indent="    " if i else "", subsequent_indent="        ",
                      break_long_words=False, break_on_hyphens=False)
        for i, line in enumerate(lines)
    )  # fmt: skip
