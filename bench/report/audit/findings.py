"""Audit of a paper: its claims checked against its own printed numbers, without training.

``experiments/<paper>/audit.toml`` lists the claims, each with a kind; paper.toml and printed.csv hold the printed
numbers::

    [groups]
    personalised = ["APFL", "FENDA-FL"]            # a name for several methods

    [claims.heart_best]
    where = "section 4.1"
    says = "FENDA-FL is the best federated method on Fed-Heart-Disease"
    kind = "above"                                  # a function of bench.report.audit.*_claims
    cells = { table = "2", dataset = "fed_heart_disease", method = "FENDA-FL" }
    than = { table = "2", dataset = "fed_heart_disease", method = ["FedAvg", "APFL"] }

Further keys are the kind's arguments. ``note`` adds a remark.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError, validate_call

from bench.registry import folder
from bench.report.audit import (  # noqa: F401 - each registers its kinds
    comparison_claims,
    consistency_claims,
    count_claims,
    plausibility_claims,
    rank_claims,
    search_claims,
    sum_claims,
)
from bench.report.audit.claims import KINDS, ClaimPart, Printed
from bench.report.audit.printed_cells import printed_cells
from bench.spec import tables_named
from bench.spec.files.toml import parse
from bench.types import SpecError, nearest

Verdict = Literal["follows", "does not follow", "cannot be checked"]


@dataclass(frozen=True)
class AuditFinding:
    """A claim of a paper with its ``verdict``, the ``parts`` that were checked, and the reason (``why``).

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
        """Return the parts that do not follow."""
        return tuple(part for part in self.parts if not part.follows)


@dataclass(frozen=True)
class Audit:
    """All findings on a paper, in the order of audit.toml."""

    paper: str
    title: str
    findings: tuple[AuditFinding, ...]

    def of(self, verdict: Verdict) -> tuple[AuditFinding, ...]:
        """Return the findings with this verdict."""
        return tuple(finding for finding in self.findings if finding.verdict == verdict)


def papers() -> dict[str, Path]:
    """Return the folders of experiments/ with an audit.toml, by name."""
    return {file.parent.name: file.parent for file in sorted(folder("experiments").glob("*/audit.toml"))}


def audit(paper: str) -> Audit:
    """Check every claim of a paper; raise :class:`SpecError` for an unknown paper or a malformed claim."""
    known = papers()
    if paper not in known:
        raise SpecError(f"unknown paper {paper!r}: {nearest(paper, known)}")
    return audit_folder(known[paper])


def audit_folder(place: Path) -> Audit:
    """Check the claims in ``place``/audit.toml against paper.toml and the printed numbers that it names."""
    file = place / "audit.toml"
    declared = parse(file)
    for key in declared:
        if key not in ("groups", "claims"):
            raise SpecError(f"{file}: unknown key {key!r}: {nearest(key, ('groups', 'claims'))}")
    facts = parse(place / "paper.toml")
    cells = printed_cells(place / facts.get("printed", "printed.csv"), facts.get("percent", []))
    printed = Printed(facts, cells, declared.get("groups", {}))
    found = (_finding(file, name, entry, printed) for name, entry in declared.get("claims", {}).items())
    return Audit(place.name, facts.get("title", place.name), tuple(found))


def of_table(audit: Audit, name: str) -> Audit:
    """Return the findings on one printed table, named as in :func:`bench.spec.claimed`."""
    findings = (found for found in audit.findings if name in tables_named(audit.paper, found.where))
    return replace(audit, findings=tuple(findings))


def document(audit: Audit) -> dict[str, Any]:
    """Return the audit as plain values, for JSON."""
    return asdict(audit)


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
            f"{where}: an argument does not have the form that kind {entry['kind']!r} expects: {error!r}"
        ) from None
    verdict: Verdict = (
        "cannot be checked" if checked.follows is None else "follows" if checked.follows else "does not follow"
    )
    why = ". ".join(text for text in (checked.why, entry.get("note", "")) if text)
    return AuditFinding(name, entry["where"], entry["says"], verdict, checked.parts, why)


def _fault(kind: str, error: ValidationError) -> str:
    """Return a message for the first wrong argument of a claim."""
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
