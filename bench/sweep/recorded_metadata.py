"""Metadata of data sets taken from records, for machines that hold the records but not the raw data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench import registry
from bench.data import SUBSAMPLE
from bench.data.flamby import PREFIX
from bench.data.metadata import Metadata
from bench.spec import Choice
from bench.types import DataError

Record = Mapping[str, Any]


class NoRecordError(DataError):
    """No record is of the data set with the options asked for."""


class RecordedMetadata:
    """Look up what a study must know of its data in the records of finished runs.

    ``sample`` of the result is 1: it only decides which runs are trained together.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_name: dict[str, dict[str, Record]] = {}
        for record in records:
            data = record["spec"]["data"]
            self._by_name.setdefault(data["name"], {}).setdefault(data["fingerprint"], record)

    def holds(self, name: str) -> bool:
        """Return whether any record is of the data set ``name``."""
        return name in self._by_name

    def __call__(self, data: Choice) -> Metadata:
        """Return the metadata of ``data``.

        Raise :class:`NoRecordError` if no record is of these options, :class:`DataError` if the records are of several
        versions of the raw files.
        """
        defaults = {} if data.name.startswith(PREFIX) else registry.defaults("datasets", data.name)
        wanted = {**defaults, **data.options}
        found = [
            record
            for record in self._by_name.get(data.name, {}).values()
            if _same(wanted, record["spec"]["data"]["options"])
        ]
        if not found:
            raise NoRecordError(f"data set {data.name}: no run with the options {dict(data.options)} is recorded")
        if len(found) > 1:
            raise DataError(
                f"data set {data.name}: the records are of {len(found)} versions of the raw files; "
                f"provide the raw files to choose one (`silobench data info {data.name}`)"
            )
        (record,) = found
        return Metadata(
            options=record["spec"]["data"]["options"],
            fingerprint=record["spec"]["data"]["fingerprint"],
            clients=tuple(record["clients"]),
            test_sizes=tuple(record["test_sizes"]),
            metrics=tuple(dict.fromkeys(name for *_, name, _ in record["scores"])),
            synthetic=record["synthetic"],
            sample=1,
        )


def _same(wanted: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Return whether recorded options are those wanted; an adapter may have recorded further options of its own."""
    return wanted.items() <= recorded.items() and SUBSAMPLE not in recorded.keys() - wanted.keys()
