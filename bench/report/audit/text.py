"""Text of an audit for the terminal."""

from __future__ import annotations

import textwrap
from typing import get_args

from bench.report.audit.findings import Audit, AuditFinding, Verdict

SHOWN = 12  # numbers of one claim, unless all are asked for


def render(audit: Audit, width: int = 100, *, full: bool = False) -> str:
    """Return the audit as text: claims that do not follow, that cannot be checked, and that follow.

    ``full`` shows every number of every claim.
    """
    counts = {verdict: len(audit.of(verdict)) for verdict in get_args(Verdict)}
    summary = (
        f"{len(audit.findings)} claims checked against the paper's own numbers: {counts['follows']} follow, "
        f"{counts['does not follow']} do not, {counts['cannot be checked']} cannot be checked."
    )
    lines = [audit.title, *textwrap.wrap(summary, width)]
    for verdict in ("does not follow", "cannot be checked", "follows"):
        if counts[verdict]:
            lines += ["", verdict.capitalize(), "-" * width]
            for finding in audit.of(verdict):
                lines += _lines(finding, width, full)
    return "\n".join(lines)


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
