"""Write docs/study-file.md, the reference of every key of a study file, from the classes that check the keys.

Usage: ``python scripts/write_study_reference.py``. Descriptions, types and defaults are written once, in
bench/spec/sections/ and in :class:`bench.types.Budget`.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal

from pydantic_core import PydanticUndefined

from bench import limits
from bench.spec.sections import joint, keys, study, tables
from bench.spec.sections.figures import FIGURES, CurveRow, Figure
from bench.types import Budget

PAGE = Path(__file__).parent.parent / "docs" / "study-file.md"
INTRODUCTION = """\
# Study files

<!-- Written by scripts/write_study_reference.py; edit that script, or the descriptions in bench/spec/sections. -->

A study file is a TOML file that names data, training budget, seeds, methods and what to search, and the tables and
figures to make. `silobench plan study.toml` checks it and estimates its run time; `silobench sweep study.toml` runs it.
Every key is checked before anything is downloaded or trained.

## A complete example

```toml
title = "FedAvg, FedProx and APFL on {data}"
seeds = [1, 2, 3]                          # or { from = 1, to = 3 }

[data]
name = "digits"                            # see `silobench list datasets`
label = "handwritten digits"               # {data} in titles; further keys are options of the data set
partition_seed = { from = "seed" }         # every seed has its own split

[budget]
rounds = 20
local_epochs = 1                           # or local_steps

[defaults]                                 # keys that all methods inherit
model = { name = "mlp", hidden = 16 }
grid.lr = [0.1, 0.3, 1.0]                  # every combination is tried

[methods.local]
label = "Silo"

[methods.fedavg]
label = "FedAvg"

[methods.fedprox_long]
label = "FedProx, long"
algorithm = "fedprox"                      # needed only if the key is not the algorithm's name
grid.mu = [0.01, 0.1]
grid."budget.local_epochs" = [1, 5]        # options of the algorithm, model, data or budget can be searched, too
budget.rounds = 40

[methods.apfl]
label = "APFL"
model.hidden = 8                           # the other options of the model are inherited
fixed.lr = 0.3                             # replaces the inherited grid of lr
range.alpha_lr = { low = 1e-3, high = 1.0, log = true }
search = { kind = "random", trials = 10 }

[profiles.short]                           # silobench sweep study.toml --profile short
seeds = [1]
budget.rounds = 2
methods."fed*".grid.lr = [0.3]             # a pattern over keys of methods

[[tables]]
id = "digits/accuracy"
metric = "accuracy"                        # rows: all methods, with the checkpoints that they have
ranks = true

[[figures]]
id = "digits/accuracy"
kind = "bars"
title = "Accuracy on {data}"
tables = ["digits/accuracy"]
```

## How a file is read

1. **Base file.** With `extends = "base.toml"`, the file is laid over another file in the same folder: tables are merged
   key by key, other values are replaced, tables and figures with the same `id` are merged and others are appended. A
   base file cannot extend another one. Keys of `methods` may be patterns, such as `methods."fed*"`, over the methods of
   the base file. In `experiments/`, files whose names begin with `base` are no studies.
2. **Profile.** A profile is laid over the result in the same way. Its keys of `methods` may be patterns, too. Later
   patterns win over earlier ones, and methods that are named win over patterns.
3. **Defaults.** Every method is laid over `[defaults]`, and its `budget` over `[budget]`. A hyper-parameter that a
   method gives in `grid`, `range` or `fixed` replaces the inherited one, wherever that is; `drop = ["mu"]` removes it.
   Options of a model or algorithm are inherited as long as its name stays the same. Local steps and local epochs
   replace each other. `search` is always replaced as a whole.
4. **Rows.** A row of a table is named after the method's `label`. It shows the checkpoints of the table that the
   algorithm has: personalised algorithms, local and central training have no server checkpoint.
5. **Placeholders.** In `title` and in all texts of tables and figures, `{data}` is the label of the data set,
   `{data.name}` its name and `{data.OPTION}` one of its options. `[placeholders]` adds others; a placeholder for a list
   is replaced by the entries of the list.

With several data sets (`[[data]]`), every method runs on each of them. Tables and figures are made for each; unless a
placeholder names the data set, its label is added to their `id` and `title`.

An error names the file, the key as it is written there, and what was expected.

## Limits

More than this is refused with one line. Larger studies are a likely mistake; divide them into several files.

| what | at most |
|---|---|
| size of a file | {MAX_STUDY_BYTES:,} bytes |
| tables and lists inside each other | {MAX_DEPTH} |
| a name: key, id, label, profile | {MAX_NAME} characters; ids and profiles: letters, digits, `-` and `_` |
| any other text | {MAX_TEXT:,} characters |
| whole numbers | 64 bits; {MAX_COUNT:,} in budgets and sizes of models |
| ends of a range | 1e30 on both sides of zero |
| methods, times data sets | {MAX_METHODS:,}, planned within a minute |
| seeds | {MAX_SEEDS:,} |
| settings of a grid; drawn by a search | {MAX_SETTINGS:,}; {MAX_TRIALS:,} |
| runs of a study | {MAX_STUDY_RUNS:,} |
| rows of all tables and figures | {MAX_ROWS:,} |

Before training, the models of all methods are built to check them against the data; of more than {MAX_CHECKED:,}
different combinations of data, algorithm, model and budget, the {MAX_CHECKED:,} that differ most.
"""
NAMED = {name: value for name, value in vars(limits).items() if name.startswith("MAX_")}
LIMIT = re.compile(r"\{(MAX_\w+)(?::,)?\}")
SCHEDULES = """\
### Schedules of the learning rate

A schedule multiplies every learning rate of the clients by f(r): lr_r = lr f(r) in round r, counted from 0, of R
rounds. The learning rate is the same in all local steps of a round. Learning rates of the server do not change.

| `schedule` | f(r) | hyper-parameters | defaults |
|---|---|---|---|
| `"constant"` | 1 | | |
| `"step"` | lr_decay^floor(r / decay_every) | `lr_decay`, `decay_every` (rounds) | 0.1, 10 |
| `"exponential"` | lr_decay^r | `lr_decay` | constant |
| `"cosine"` | lr_final + (1 - lr_final) (1 + cos(pi r / R)) / 2 | `lr_final` (a share of lr) | 0 |
| every one | the above times min(1, (r + 1) / warmup) | `warmup` (rounds) | no warm-up |

The hyper-parameters are given and searched like any other, in `fixed`, `grid` or `range`; `grid."budget.schedule"`
tries several schedules. To search options that only some schedules have, write one method for each schedule. Successive
halving shortens runs, so it refuses the cosine schedule.
"""
CHOICES = {keys.Choice: "name, or table", list[keys.Choice]: "name, table, or list of both"}
TYPES = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "value"}


def page() -> str:
    """Return the text of the page."""
    parts = [
        LIMIT.sub(lambda found: f"{NAMED[found[1]]:,}", INTRODUCTION),
        *_section("Top level", "", study.StudySection),
        *_budget(),
        *_section("`[defaults]`", "", study.DefaultsSection),
        *_section("`[methods.KEY]`", "", study.MethodSection),
        *_section("`range.NAME`", "", study.RangeSection, level=3),
        *_section("`[search]`", "Of the study or of a method.", study.SearchSection),
        *_section("`[select]`", "", study.SelectSection),
        *_section("`[profiles.NAME]`", "", study.ProfileSection),
        *_section("`[[tables]]`", "", tables.TableSection),
        *_section("Rows of a table", "", tables.RowSection, level=3),
        *_section("`[[figures]]`", "", Figure),
        *(part for figure in FIGURES for part in _figure(figure)),
        *_section("Lines of a figure of curves", "", CurveRow, level=3),
        "## Joint tables\n\nA file in `experiments/` with `[[joint]]` has tables over several studies.\n",
        *_section("Top level of a file of joint tables", "", joint.JoinedSection, level=3),
        *_section("`[[joint]]`", "", joint.JointSection, level=3),
        *_section("Columns of a joint table", "", joint.ColumnSection, level=3),
    ]
    return "\n".join(parts)


def _section(
    title: str, text: str, section: type[keys.Section], *, level: int = 2, inherited: type[keys.Section] | None = None
) -> Iterator[str]:
    """Yield heading, description and table of keys of a section, without those that it inherits."""
    description = " ".join(filter(None, (" ".join((section.__doc__ or "").split()), text)))
    yield f"{'#' * level} {title}\n\n{description}\n"
    hints = typing.get_type_hints(section, include_extras=True)
    rows = []
    for name, field in section.model_fields.items():
        if inherited is not None and (name in inherited.model_fields or name == "kind"):
            continue
        about = field.description or ""
        derived = not field.is_required() or "by default" in about
        default = _default(field.get_default(call_default_factory=True)) if derived else "required"
        rows.append((f"`{name}`", "list, or name" if name == "rows" else _type(hints[name]), default, about))
    if rows:
        yield _table(rows)


def _figure(figure: type[Figure]) -> Iterator[str]:
    (kind,) = typing.get_args(figure.model_fields["kind"].annotation)
    yield from _section(f'`kind = "{kind}"`', "", figure, level=3, inherited=Figure)


def _budget() -> Iterator[str]:
    hints = typing.get_type_hints(Budget)
    rows = []
    for field in fields(Budget):
        default = "required" if field.default is MISSING else _default(field.default)
        rows.append((f"`{field.name}`", _type(hints[field.name]), default, field.metadata["description"]))
    text = "Exactly one of `local_steps` and `local_epochs` is needed. A method's `budget` has the same keys."
    yield f"## `[budget]`\n\nLength and kind of training. {text}\n"
    yield _table(rows)
    yield SCHEDULES


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join(
        [*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows), ""]
    )


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined or isinstance(value, keys.Section) or value in ([], {}):
        return ""
    return f"`{json.dumps(value)}`"


def _type(hint: Any) -> str:
    """Return a type in words."""
    if typing.get_origin(hint) is typing.Annotated:
        return _type(typing.get_args(hint)[0])
    if hint in CHOICES or hint in TYPES:
        return CHOICES.get(hint) or TYPES[hint]
    arguments = [each for each in typing.get_args(hint) if each is not types.NoneType]
    match typing.get_origin(hint):
        case origin if origin is Literal:
            return " or ".join(f"`{json.dumps(each)}`" for each in arguments)
        case origin if origin is types.UnionType or origin is typing.Union:
            named = all(isinstance(each, type) and issubclass(each, keys.Section) for each in arguments)
            return "table" if named else " or ".join(map(_type, arguments))
        case origin if origin is list:
            return f"list of {_plural(_type(arguments[0]))}"
        case origin if origin is dict:
            return "table"
    return "table" if isinstance(hint, type) and issubclass(hint, keys.Section) else str(hint)


def _plural(words: str) -> str:
    return words if words.startswith("`") or words == "true or false" else f"{words}s"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
