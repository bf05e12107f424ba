"""Record sets: a store of your own or a published one, with the folder of its tables and its study files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.data.metadata import Metadata, dataset_metadata
from bench.spec import Choice, published
from bench.sweep import noted
from bench.sweep.recorded_metadata import RecordedMetadata
from bench.sweep.search.method import Records
from bench.sweep.study import Lookup
from bench.types import DataError, SpecError


@dataclass(frozen=True)
class RecordSet:
    """A store, and the folder ``out`` for the tables and figures made from it.

    A published store belongs to one ``paper``, and its tables lie directly in ``out``. ``studies`` are files of your
    own beside those of experiments/.
    """

    store: Path
    out: Path
    paper: str | None = None
    studies: tuple[Path, ...] = ()

    def stem(self, name: str) -> Path:
        """Return the path, without ending, for the files of a table or figure."""
        return self.out / (name.rpartition("/")[2] if self.paper else name)

    def files(self) -> list[Path]:
        """Return the study files that the store may hold records of."""
        if self.paper:
            return [file for file in experiment_files() if file.parent.name == self.paper]
        own = [file.resolve() for file in (*self.studies, *noted.studies(self.store))]
        known = {file.resolve() for file in experiment_files()}
        return [*experiment_files(), *dict.fromkeys(file for file in own if file not in known)]

    def metadata(self, records: Records, data: Path | None) -> Lookup | None:
        """Return a lookup of data sets: from raw files, else from the ``records``; None for published records."""
        recorded = RecordedMetadata(records.values())

        def look(choice: Choice) -> Metadata:
            try:
                return dataset_metadata(choice.name, data, choice.options)
            except DataError:
                return recorded(choice)

        return None if self.paper else look


def experiment_files() -> list[Path]:
    """Return the study files of experiments/."""
    entries = [*published("tables").values(), *published("figures").values()]
    return list(dict.fromkeys(entry.file for entry in entries))


def own_records(store: Path, out: Path, studies: Iterable[Path] = ()) -> list[RecordSet]:
    """Return the record set of a store of your own; raise :class:`SpecError` for a study file that does not exist."""
    files = tuple(studies)
    for file in files:
        if not file.is_file():
            raise SpecError(f"{file}: no such study file")
    return [RecordSet(store, out, studies=files)]


def published_records(root: Path) -> list[RecordSet]:
    """Return the published record sets below ``root``, such as results/published; their tables lie beside them."""
    stores = sorted(file.parent for file in root.glob("*/**/records") if file.is_dir())
    if not stores:
        raise SpecError(f"{root}: no published records; run this in a checkout of silobench, or name another folder")
    return [RecordSet(store, store, store.relative_to(root).parts[0]) for store in stores]
