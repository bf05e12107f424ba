"""The audit of a paper: its claims held against the numbers that it prints itself. Nothing is trained.

``experiments/<paper>/audit.toml`` lists the claims, each with a kind, the paper's own numbers are those of paper.toml
and printed.csv::

    [groups]
    personalised = ["APFL", "FENDA-FL"]            # a name for several methods

    [claims.heart_best]
    where = "section 4.1"
    says = "FENDA-FL is the best federated method on Fed-Heart-Disease"
    kind = "above"                                  # a function of bench.report.audit.claims*
    cells = { table = "2", dataset = "fed_heart_disease", method = "FENDA-FL" }
    than = { table = "2", dataset = "fed_heart_disease", method = ["FedAvg", "APFL"] }

Further keys are the kind's arguments. ``note`` adds what no number says.
"""

from __future__ import annotations

import csv
import inspect
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ConfigDict, ValidationError, validate_call

from bench.registry import folder
from bench.report.audit import count_claims, rank_claims  # noqa: F401 - their kinds register themselves
from bench.report.audit.claims import COLUMN, KINDS, NAMES, ClaimPart, Printed, PrintedCell
from bench.report.audit.rank_claims import MEAN_RANK
from bench.spec import tables_named
from bench.spec.files.toml import parse
from bench.types import SpecError, nearest

Verdict = Literal["follows", "does not follow", "cannot be checked"]


@dataclass(frozen=True)
class AuditFinding:
    """A claim of a paper and what its own numbers say: the ``verdict``, its ``parts`` and ``why``.

    ``claim`` is the name in audit.toml, ``where`` the place in the paper, ``says`` the claim in our words.
    """

    claim: str
    where: str
    says: str
    verdict: Verdict
    parts: tuple[ClaimPart, ...]
    why: str

    @property
    def off(self) -> tuple[ClaimPart, ...]:
        """The parts that do not follow."""
        return tuple(part for part in self.parts if not part.follows)


@dataclass(frozen=True)
class Audit:
    """All findings on a paper, in the order of its audit.toml."""

    paper: str
    title: str
    findings: tuple[AuditFinding, ...]

    def of(self, verdict: Verdict) -> tuple[AuditFinding, ...]:
        """The findings with this verdict."""
        return tuple(finding for finding in self.findings if finding.verdict == verdict)


def papers() -> dict[str, Path]:
    """The papers that can be audited: the folders of experiments/ with an audit.toml, by name."""
    return {file.parent.name: file.parent for file in sorted(folder("experiments").glob("*/audit.toml"))}


def audit(paper: str) -> Audit:
    """Check every claim of a paper; raises :class:`SpecError` for an unknown one, or a claim that is no claim."""
    known = papers()
    if paper not in known:
        raise SpecError(f"unknown paper {paper!r}: {nearest(paper, known)}")
    return audit_folder(known[paper])


def audit_folder(place: Path) -> Audit:
    """Check the claims in ``place``/audit.toml, a folder with paper.toml and the numbers it names."""
    file = place / "audit.toml"
    declared = parse(file)
    for key in declared:
        if key not in ("groups", "claims"):
            raise SpecError(f"{file}: unknown key {key!r}: {nearest(key, ('groups', 'claims'))}")
    facts = parse(place / "paper.toml")
    cells = _cells(place / facts.get("printed", "printed.csv"), facts.get("percent", []))
    printed = Printed(facts, cells, declared.get("groups", {}))
    found = (_finding(file, name, entry, printed) for name, entry in declared.get("claims", {}).items())
    return Audit(place.name, facts.get("title", place.name), tuple(found))


def of_table(audit: Audit, name: str) -> Audit:
    """The findings on one printed table alone, called as in :func:`bench.spec.claimed`."""
    findings = (found for found in audit.findings if name in tables_named(audit.paper, found.where))
    return replace(audit, findings=tuple(findings))


def document(audit: Audit) -> dict[str, Any]:
    """The audit as plain values, for JSON."""
    return asdict(audit)


def render(audit: Audit, width: int = 100, *, full: bool = False) -> str:
    """The audit as text: what does not follow, number by number, what cannot be checked, and what follows.

    ``full`` shows every number of every claim.
    """
    counts = {verdict: len(audit.of(verdict)) for verdict in get_args(Verdict)}
    summary = (
        f"{len(audit.findings)} claims held against the paper's own numbers: {counts['follows']} follow, "
        f"{counts['does not follow']} do not, {counts['cannot be checked']} cannot be checked."
    )
    lines = [audit.title, *textwrap.wrap(summary, width)]
    for verdict in ("does not follow", "cannot be checked", "follows"):
        if counts[verdict]:
            lines += ["", verdict.capitalize(), "-" * width]
            for finding in audit.of(verdict):
                lines += _lines(finding, width, full)
    return "\n".join(lines)


SHOWN = 12  # numbers of one claim, unless all are asked for


def _lines(finding: AuditFinding, width: int, full: bool) -> list[str]:
    parts = finding.parts if full or len(finding.parts) == 1 else finding.off if finding.verdict != "follows" else ()
    shown = parts if full else parts[:SHOWN]
    lines = textwrap.wrap(f"{finding.where}: {finding.says}", width, subsequent_indent="  ")
    widths = [max((len(getattr(part, key)) for part in shown), default=0) for key in ("what", "printed")]
    for part in shown:
        text = f"{part.what:<{widths[0]}}  printed {part.printed:<{widths[1]}}  recomputed {part.recomputed}"
        first = f"  {' ' if part.follows else '!'} "
        lines += textwrap.wrap(text, width, initial_indent=first, subsequent_indent=" " * 8)
    if len(shown) < len(parts):
        lines.append(f"    and {len(parts) - len(shown)} more (--full)")
    return lines + textwrap.wrap(finding.why, width, initial_indent="    ", subsequent_indent="    ")


def _finding(file: Path, name: str, entry: Any, printed: Printed) -> AuditFinding:
    where = f"{file}: claims.{name}"
    if not isinstance(entry, Mapping):
        raise SpecError(f"{where} = {entry!r}: expected a table")
    for key in ("where", "says", "kind"):
        if not isinstance(entry.get(key), str):
            raise SpecError(f"{where}.{key}: expected a text, found {entry.get(key)!r}")
    if entry["kind"] not in KINDS:
        raise SpecError(f"{where}.kind = {entry['kind']!r}: {nearest(entry['kind'], KINDS)}")
    arguments = {key: value for key, value in entry.items() if key not in ("where", "says", "kind", "note")}
    check = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(KINDS[entry["kind"]])
    try:
        checked = check(printed, **arguments)
    except ValidationError as error:
        raise SpecError(f"{where}: {_fault(entry['kind'], error)}") from None
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SpecError(
            f"{where}: what it names has not the form that kind {entry['kind']!r} asks for: {error!r}"
        ) from None
    verdict: Verdict = (
        "cannot be checked" if checked.follows is None else "follows" if checked.follows else "does not follow"
    )
    why = ". ".join(text for text in (checked.why, entry.get("note", "")) if text)
    return AuditFinding(name, entry["where"], entry["says"], verdict, checked.parts, why)


def _fault(kind: str, error: ValidationError) -> str:
    """The first thing that is wrong with a claim's arguments."""
    fault = error.errors()[0]
    key = ".".join(str(part) for part in fault["loc"])
    match fault["type"]:
        case "unexpected_keyword_argument":
            known = [name for name in inspect.signature(KINDS[kind]).parameters if name != "printed"]
            return f"kind {kind!r} has no key {key!r}: {nearest(key, known)}"
        case "missing_argument" | "missing":
            return f"{key} is missing"
        case _:
            return f"{key} = {fault['input']!r}: {fault['msg'].replace('Input should be', 'expected')}"


def _cells(file: Path, percent: Collection[str]) -> tuple[PrintedCell, ...]:
    """The rows of printed.csv; the digits of a column of a table are those of its value with most."""
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            reader = csv.DictReader(opened)
            rows = list(reader)
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}") from None
    for column in (*NAMES, "value", "ci95", "sd", "mark"):
        if column not in (reader.fieldnames or ()):
            raise SpecError(f"{file}: no column {column!r}: {nearest(column, reader.fieldnames or ())}")
    digits: dict[tuple[str, ...], int] = {}
    for row in rows:
        own = -1 if "e" in row["value"] else len(row["value"].partition(".")[2])
        digits[_column(row)] = max(own, digits.get(_column(row), -1))
    cells = []
    for line, row in enumerate(rows, start=2):
        try:
            cells.append(_cell(row, digits[_column(row)], percent))
        except (TypeError, ValueError):
            raise SpecError(
                f"{file}: line {line}: expected numbers in value, ci95 and sd (the last two or empty)"
            ) from None
    return tuple(cells)


def _column(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in COLUMN)


def _cell(row: Mapping[str, str], digits: int, percent: Collection[str]) -> PrintedCell:
    value, *spread = (float(row[column]) if row[column] else None for column in ("value", "ci95", "sd"))
    if value is None:
        raise ValueError("no value")
    share = row["metric"] in percent and row["dataset"] != MEAN_RANK
    names = {name: row[name] for name in NAMES}
    return PrintedCell(
        **names,
        value=value,
        ci95=spread[0],
        sd=spread[1],
        marks=tuple(row["mark"].split()),
        digits=digits,
        scale=100 if share else 1,
    )
