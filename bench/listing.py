"""What ``silobench list algorithms`` says of each: read from its source, so that it needs neither torch nor the paper.

The docstring of an algorithm ends with four sentences that begin a line each. "Paper:" names the source and where in
it the equations stand, "Variant:" what was chosen where that leaves a choice, "Defaults:" the hyper-parameters with
the ranges they are searched in, then the options, and "Travels:" what a client sends and receives in a round.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any

from bench import registry

LABELED = re.compile(
    r"^(Paper|Variant|Defaults|Travels): (.+?)(?=^(?:Paper|Variant|Defaults|Travels): |\Z)", re.M | re.S
)


def algorithms() -> list[dict[str, Any]]:
    """All algorithms by name, each with name, summary, paper, variant, hyper-parameters, options and what travels."""
    return [_algorithm(entry) for entry in registry.catalogue("algorithms").values()]


def _algorithm(entry: registry.Entry) -> dict[str, Any]:
    said = sentences(entry.name)
    ranges = registry.search_ranges(entry.name)
    return {
        "name": entry.name,
        "summary": entry.summary,
        "paper": said.get("Paper", ""),
        "variant": said.get("Variant", ""),
        "hyperparameters": [
            {"name": name, "default": default, "range": ranges[name]}
            for name, default in registry.hyperparameter_defaults(entry.name).items()
        ],
        "options": registry.defaults("algorithms", entry.name),
        "travels": said.get("Travels", ""),
    }


def sentences(algorithm: str) -> dict[str, str]:
    """The labelled sentences at the end of an algorithm's docstring, by label."""
    found = LABELED.findall(registry.docstring("algorithms", algorithm))
    return {label: " ".join(sentence.split()) for label, sentence in found}


def defaults(listed: dict[str, Any]) -> str:
    """An algorithm's hyper-parameters, with the ranges they are searched in, and its options, in one sentence."""
    parts = []
    for each in listed["hyperparameters"]:
        span = f" ({' to '.join(map(_shown, each['range']))})" if each["range"] else ""
        parts.append(f"{each['name']} = {_shown(each['default'])}{span}")
    parts += [f"{name} = {_shown(value)}" for name, value in listed["options"].items()]
    return f"{'; '.join(parts) or 'none'}."


def _shown(value: Any) -> str:
    """A value as in a study file, "none" where it says nothing."""
    if value is None:
        return "none"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return re.sub(r"e([+-])0*", lambda sign: f"e{sign[1].strip('+')}", f"{value:g}")
    return json.dumps(value, ensure_ascii=False)


def text(listed: dict[str, Any], width: int) -> str:
    """An algorithm's lines, at most ``width`` characters each: its name and summary, the rest indented."""
    rest = (
        ("Paper", listed["paper"]),
        ("Variant", listed["variant"]),
        ("Defaults", defaults(listed)),
        ("Travels", listed["travels"]),
    )
    lines = [f"{listed['name']}  {listed['summary']}", *(f"{label}: {said or 'not said.'}" for label, said in rest)]
    return "\n".join(
        textwrap.fill(line, width, initial_indent="    " if i else "", subsequent_indent="        ",
                      break_long_words=False, break_on_hyphens=False)
        for i, line in enumerate(lines)
    )  # fmt: skip
