"""Command `silobench report`: tables, figures and the report site rebuilt from records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import INCOMPLETE, OUT, SITE, STORE, DataOption, OutOption, SiteOption, StoreOption
from bench.files import check_writable

PUBLISHED = Path("results/published")


def report(
    studies: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Include these study files; studies run with this store are included anyway.", show_default=False
        ),
    ] = None,
    store: StoreOption = STORE,
    out: OutOption = OUT,
    site: SiteOption = SITE,
    data: DataOption = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="Show only this profile.", show_default="all")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help=f"Use the records below {PUBLISHED} and rewrite their tables.")
    ] = False,
) -> None:
    """Rebuild all tables, figures and the report site from finished runs, without training."""
    from bench.rebuild.record_sets import own_records, published_records
    from bench.rebuild.report import rebuild

    check_writable(site)
    sets = published_records(PUBLISHED) if published else own_records(store, out, studies or ())
    if not rebuild(sets, PUBLISHED if published else out, site, data, None if profile is None else [profile]):
        raise typer.Exit(INCOMPLETE)
