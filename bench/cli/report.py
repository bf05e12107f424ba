"""Command `silobench report`: tables, figures and the report site rebuilt from records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import (
    INCOMPLETE,
    OUT,
    PAPER,
    SITE,
    STORE,
    DataOption,
    OutOption,
    ProfileOption,
    StoreOption,
)


def report(
    store: StoreOption = STORE,
    out: OutOption = OUT,
    site: Annotated[Path, typer.Option("--site", help="Folder for the report site.")] = SITE,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
) -> None:
    """Rebuild all tables, figures and the report site from finished runs, without training."""
    from bench.rebuild import rebuild

    if not rebuild(profile, store, out, data, site):
        raise typer.Exit(INCOMPLETE)
