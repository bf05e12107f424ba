"""A study file for one run, from the specification in its record."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from bench.spec.method import BY_SEED

BARE = re.compile(r"[A-Za-z0-9_-]+")


def study_text(spec: Mapping[str, Any], *, title: str) -> str:
    """Return the study whose only run has the specification of a record (see :class:`bench.types.RunSpec`).

    Keys whose value is None are left out: TOML cannot write them, and no study can have given them.
    """
    algorithm, model, seeded = spec["algorithm"], spec["model"], spec["data"]["by_seed"]
    options = {name: BY_SEED if name in seeded else value for name, value in spec["data"]["options"].items()}
    lines = [
        _line("title", title),
        _line("seeds", [spec["seed"]]),
        "\n[data]",
        *_lines({"name": spec["data"]["name"], **options}),
        "\n[budget]",
        *_lines(spec["budget"]),
        f"\n[methods.{_key(algorithm['name'])}]",
        _line("algorithm", {"name": algorithm["name"], **algorithm["options"]}),
        _line("model", {"name": model["name"], **model["options"]}),
        _line("fixed", spec["hyperparameters"]),
    ]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [_line(key, value) for key, value in table.items() if value is not None]


def _line(key: str, value: Any) -> str:
    return f"{_key(key)} = {_written(value)}"


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _text(key)


def _written(value: Any) -> str:
    """Return a value as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(map(_written, value))}]"
        case Mapping():
            return f"{{ {', '.join(_lines(value))} }}" if value else "{}"
        case _:
            return repr(value)


def _text(value: str) -> str:
    """Return a basic string of TOML, which is a string of JSON with DEL escaped, too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
