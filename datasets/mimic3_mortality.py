"""Death in hospital from the notes of the first day: four groups of diagnoses of MIMIC-III, as in PLayer-FL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split

from bench.data.files.download import Asset
from bench.data.files.user_files import find_any
from bench.data.readers import text
from bench.registry import register
from bench.types import Client, DataError, Federation, SpecError, Split, nearest

ASSETS: dict[str, Asset] = {}
SOURCES = ("synthetic", "files")
REMEDY = (
    "MIMIC-III needs credentials from https://physionet.org/content/mimiciii/1.4/; put ADMISSIONS.csv.gz and "
    "NOTEEVENTS.csv.gz there"
)
LICENCE = "PhysioNet Credentialed Health Data License"
CITATION = (
    "Johnson et al.: MIMIC-III, a freely accessible critical care database, Scientific Data (2016); clients as in "
    "Elhussein, Gürsoy: PLayer-FL: A Principled Approach to Personalized Layer-wise Cross-Silo Federated Learning "
    "(2025)"
)
# A diagnosis belongs to a group where it is exactly one of these. PLayer-FL's list for the brain also means "SUBDURAL
# HEMORRHAGE" and "STROKE;TELEMETRY", but a missing comma makes one text of them that nobody is diagnosed with.
DIAGNOSES = {
    "mi": (
        *("CORONARY ARTERY DISEASE", "CORONARY ARTERY DISEASE\\CATH", "CHEST PAIN", "CHEST PAIN;TELEMETRY"),
        *("ACUTE CORONARY SYNDROME", "MYOCARDIAL INFARCTION", "MYOCARDIAL INFARCTION\\CATH"),
        *("ACUTE MYOCARDIAL INFARCTION", "ACUTE MYOCARDIAL INFARCTION\\CATH", "UNSTABLE ANGINA"),
        *("UNSTABLE ANGINA\\CATH", "STEMI", "ST ELEVATED MYOCARDIAL INFARCTION"),
        "NON-ST SEGMENT ELEVATION MYOCARDIAL INFARCTION",
    ),
    "gi": (
        *("GASTROINTESTINAL BLEED", "UPPER GI BLEED", "ABDOMINAL PAIN"),
        *("UPPER GASTROINTESTINAL BLEED", "LOWER GASTROINTESTINAL BLEED"),
    ),
    "infection": (
        *("PNEUMONIA", "PNEUMONIA;CHRONIC OBST PULM DISEASE", "RESPIRATORY FAILURE", "SEPSIS"),
        *("URINARY TRACT INFECTION;PYELONEPHRITIS", "SEPSIS;TELEMETRY", "PNEUMONIA;TELEMETRY"),
        *("URINARY TRACT INFECTION", "UTI/PYELONEPHRITIS", "SEPTIC SHOCK"),
    ),
    "brain": (
        *("INTRACRANIAL HEMORRHAGE", "SUBARACHNOID HEMORRHAGE", "SUBDURAL HEMATOMA"),
        *("STROKE;TELEMETRY;TRANSIENT ISCHEMIC ATTACK", "ACUTE SUBDURAL HEMATOMA", "CEREBROVASCULAR ACCIDENT"),
        *("CARDIAC ARREST", "S/P CARDIAC ARREST", "INTRACRANIAL BLEED", "STROKE", "STROKE/TIA"),
    ),
}
ADMISSION = ("HADM_ID", "ADMITTIME", "ADMISSION_TYPE", "DIAGNOSIS", "HOSPITAL_EXPIRE_FLAG")
NOTE = ("HADM_ID", "CHARTTIME", "CATEGORY", "TEXT")
CATEGORIES = ("Nursing", "Physician", "Nursing/other")
CHUNK = 50_000  # rows read at a time
LONGEST = 512  # tokens of a note
SYNTHETIC = {"mi": 900, "gi": 600, "infection": 1000, "brain": 700}  # admissions; the authors print none
FEWEST = 5  # admissions of a group that can be split into three parts
SEED = 42


@register("mimic3_mortality")
def mimic3_mortality(
    root: Path | None = None,
    *,
    source: str = "synthetic",
    tokenizer: str = "",
    embeddings: str = "",
    embeddings_sha256: str = "",
) -> Federation:
    """Death in hospital (1) or not (0) from a note of the first day, four groups of diagnoses as clients.

    ``x`` is (n, length) int64 with at most 512 tokens, 0 is padding. ``source`` "files" reads MIMIC-III's tables,
    "synthetic" makes SYNTHETIC notes. ``tokenizer`` is the place of a tokenizer.json below the data folder; without
    one words are hashed (see :func:`bench.data.readers.text.tokenizer`). ``embeddings`` is the place of its vectors,
    from which models of tokens then begin (see :class:`bench.data.readers.text.Embeddings`).
    """
    if source not in SOURCES:
        raise SpecError(f"source = {source!r}: {nearest(str(source), SOURCES)}")
    vectors = text.Embeddings(embeddings, embeddings_sha256, tokenizer)
    encode = text.tokenizer(tokenizer, root, LONGEST)
    notes = synthetic() if source == "synthetic" else read(root)
    notes = longest(notes, [encode(note) for note in notes["text"]])
    tokens, numbers = text.padded(notes["tokens"].tolist())
    initial, found = vectors.read(numbers, root)
    x, y = torch.from_numpy(tokens), torch.tensor(notes["died"].tolist())
    clients = []
    for group in DIAGNOSES:
        rows = np.flatnonzero(notes["group"] == group)
        if len(rows) < FEWEST:
            raise DataError(f"group {group!r} has {len(rows)} admissions with a note, expected {FEWEST} at least")
        rest, test = train_test_split(rows, test_size=0.2, random_state=SEED)
        train, validation = train_test_split(rest, test_size=0.2, random_state=SEED)
        clients.append(
            Client(
                group,
                Split(x[train], y[train]),
                Split(x[test], y[test]),
                Split(x[validation], y[validation]),
            )
        )
    return Federation(
        "mimic3_mortality",
        tuple(clients),
        "multiclass",
        metrics=("macro_f1", "accuracy", "loss"),
        synthetic=source == "synthetic",
        licence="" if source == "synthetic" else LICENCE,
        citation=CITATION,
        options=found,
        embeddings=initial,
        loss={"name": "focal_all_classes", "gamma": 1.0, "alpha": [0.15, 0.85], "scale": 10.0},
    )


def read(root: Path | None) -> pd.DataFrame:
    """The notes of the first day of all admissions of the four groups: admission, group, died, text."""
    admissions = emergencies(_table("ADMISSIONS", ADMISSION, root))
    found = [first_day(chunk, admissions) for chunk in _chunks("NOTEEVENTS", NOTE, root)]
    notes = pd.concat(found).drop_duplicates(["CHARTTIME", "HADM_ID"])
    died = notes["HADM_ID"].map(admissions["HOSPITAL_EXPIRE_FLAG"]).astype(np.int64)
    group = notes["HADM_ID"].map(admissions["group"])
    return pd.DataFrame({"admission": notes["HADM_ID"], "group": group, "died": died, "text": notes["TEXT"]})


def emergencies(admissions: pd.DataFrame) -> pd.DataFrame:
    """The emergency admissions of the four groups without a missing cell, by their number, with their ``group``."""
    groups = {diagnosis: group for group, diagnoses in DIAGNOSES.items() for diagnosis in diagnoses}
    complete = admissions.assign(group=admissions["DIAGNOSIS"].map(groups)).dropna()
    kept = complete[complete["ADMISSION_TYPE"] == "EMERGENCY"].set_index("HADM_ID")
    if kept.empty:
        raise DataError("ADMISSIONS holds no emergency with a diagnosis of the four groups; download it again")
    return kept.assign(ADMITTIME=_times(kept["ADMITTIME"]))


def first_day(notes: pd.DataFrame, admissions: pd.DataFrame) -> pd.DataFrame:
    """Notes of nurses and physicians on ``admissions``, charted up to 24 hours after the admission."""
    # MIMIC stores "Physician " with a blank behind.
    wanted = notes["HADM_ID"].isin(admissions.index) & notes["CATEGORY"].str.strip().isin(CATEGORIES)
    kept = notes[wanted].dropna()
    since = _times(kept["CHARTTIME"]) - kept["HADM_ID"].map(admissions["ADMITTIME"])
    return kept[since <= pd.Timedelta(hours=24)]


def longest(notes: pd.DataFrame, tokens: list[list[int]]) -> pd.DataFrame:
    """Of every admission the note with the most tokens, the first of equals, with its ``tokens``."""
    counted = notes.assign(tokens=tokens, count=[len(each) for each in tokens])
    ordered = counted.sort_values("count", ascending=False, kind="stable").drop_duplicates("admission")
    return ordered.sort_values("admission", ignore_index=True)


def synthetic() -> pd.DataFrame:
    """SYNTHETIC notes of one admission each: 30 to 60 made-up words, some of them more common where patients die."""
    generator = np.random.default_rng(SEED)
    notes: list[tuple[int, str, int, str]] = []
    for group, admissions in SYNTHETIC.items():
        for _ in range(admissions):
            died = int(generator.random() < 0.15)
            drawn = generator.random(generator.integers(30, 61)) ** (1.5 if died else 1.0)
            words = (f"{group}{number}" if number % 3 else f"word{number}" for number in (drawn * 600).astype(int))
            notes.append((len(notes), group, died, " ".join(words)))
    return pd.DataFrame(notes, columns=["admission", "group", "died", "text"])


def _times(column: pd.Series) -> pd.Series:
    times = pd.to_datetime(column, errors="coerce")
    if times.isna().any():
        found = column[times.isna()].iloc[0]
        raise DataError(f"column {column.name}: found {found!r}, expected a time like 2101-10-20 19:08:00")
    return times


def _table(name: str, columns: Sequence[str], root: Path | None) -> pd.DataFrame:
    return pd.concat(_chunks(name, columns, root))


def _chunks(name: str, columns: Sequence[str], root: Path | None) -> Iterator[pd.DataFrame]:
    """A table of MIMIC-III as text, a part at a time: all notes together need more memory than many machines have."""
    places = [f"{folder}{name}.csv{packed}" for folder in ("mimic3/", "") for packed in (".gz", "")]
    file = find_any(places, root, REMEDY)
    try:
        yield from pd.read_csv(file, usecols=list(columns), dtype=str, chunksize=CHUNK)
    except (ValueError, OSError, EOFError) as error:  # errors of parser, decoder and decompression are among these
        reason = " ".join(str(error).split())
        raise DataError(f"{file} is not MIMIC-III's table {name} ({reason}); download it again") from error
