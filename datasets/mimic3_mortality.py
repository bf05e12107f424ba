"""Death in hospital from notes of the first day: four groups of diagnoses of MIMIC-III, as in PLayer-FL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split

from bench.data.files.cards import raw_files
from bench.data.files.locate import locate
from bench.data.readers import text
from bench.registry import register
from bench.types import Client, DataError, Federation, SpecError, Split, nearest

FILES = raw_files(__file__)
SOURCES = ("synthetic", "files")
# An admission belongs to a group if its diagnosis is exactly one of these. PLayer-FL's list for the brain also names
# "SUBDURAL HEMORRHAGE" and "STROKE;TELEMETRY", but a missing comma joins them to a diagnosis that does not occur.
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
MAX_TOKENS = 512  # of a note
SYNTHETIC = {"mi": 900, "gi": 600, "infection": 1000, "brain": 700}  # admissions; the authors do not print theirs
MIN_ADMISSIONS = 5  # of a group, so that it can be split into three parts
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
    """Death in hospital (1) or not (0) from a note of the first day; the clients are four groups of diagnoses.

    ``x`` is (n, length) int64 with at most 512 tokens and 0 as padding. ``source`` "files" reads MIMIC-III's tables;
    "synthetic" generates SYNTHETIC notes. ``tokenizer`` is the path of a tokenizer.json below the data folder; without
    it words are hashed (see :func:`bench.data.readers.text.tokenizer`). ``embeddings`` is the path of word vectors,
    with which models of tokens are initialised (see :class:`bench.data.readers.text.Embeddings`).
    """
    if source not in SOURCES:
        raise SpecError(f"source = {source!r}: {nearest(str(source), SOURCES)}")
    vectors = text.Embeddings(embeddings, embeddings_sha256, tokenizer)
    encode = text.tokenizer(tokenizer, root, MAX_TOKENS)
    notes = synthetic() if source == "synthetic" else read(root)
    notes = longest(notes, [encode(note) for note in notes["text"]])
    tokens, numbers = text.padded(notes["tokens"].tolist())
    initial, found = vectors.read(numbers, root)
    x, y = torch.from_numpy(tokens), torch.tensor(notes["died"].tolist())
    clients = []
    for group in DIAGNOSES:
        rows = np.flatnonzero(notes["group"] == group)
        if len(rows) < MIN_ADMISSIONS:
            raise DataError(
                f"mimic3_mortality: group {group!r} has {len(rows)} admissions with a note, "
                f"expected at least {MIN_ADMISSIONS}"
            )
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
        options=found,
        embeddings=initial,
        loss={"name": "focal_all_classes", "gamma": 1.0, "alpha": [0.15, 0.85], "scale": 10.0},
    )


def read(root: Path | None) -> pd.DataFrame:
    """Return the first day's notes of all admissions of the four groups: admission, group, died, text."""
    admissions = emergencies(pd.concat(_chunks("admissions", ADMISSION, root)))
    found = [first_day(chunk, admissions) for chunk in _chunks("notes", NOTE, root)]
    notes = pd.concat(found).drop_duplicates(["CHARTTIME", "HADM_ID"])
    died = notes["HADM_ID"].map(admissions["HOSPITAL_EXPIRE_FLAG"]).astype(np.int64)
    group = notes["HADM_ID"].map(admissions["group"])
    return pd.DataFrame({"admission": notes["HADM_ID"], "group": group, "died": died, "text": notes["TEXT"]})


def emergencies(admissions: pd.DataFrame) -> pd.DataFrame:
    """Return the emergency admissions of the four groups without missing cells, by number, with their ``group``."""
    groups = {diagnosis: group for group, diagnoses in DIAGNOSES.items() for diagnosis in diagnoses}
    complete = admissions.assign(group=admissions["DIAGNOSIS"].map(groups)).dropna()
    kept = complete[complete["ADMISSION_TYPE"] == "EMERGENCY"].set_index("HADM_ID")
    if kept.empty:
        raise DataError("ADMISSIONS: has no emergency with a diagnosis of the four groups; download it again")
    return kept.assign(ADMITTIME=_times(kept["ADMITTIME"]))


def first_day(notes: pd.DataFrame, admissions: pd.DataFrame) -> pd.DataFrame:
    """Return the notes of nurses and physicians on ``admissions`` up to 24 hours after the admission."""
    # MIMIC stores "Physician " with a trailing blank.
    wanted = notes["HADM_ID"].isin(admissions.index) & notes["CATEGORY"].str.strip().isin(CATEGORIES)
    kept = notes[wanted].dropna()
    since = _times(kept["CHARTTIME"]) - kept["HADM_ID"].map(admissions["ADMITTIME"])
    return kept[since <= pd.Timedelta(hours=24)]


def longest(notes: pd.DataFrame, tokens: list[list[int]]) -> pd.DataFrame:
    """Return each admission's note with the most tokens (the first of several), with its ``tokens``."""
    counted = notes.assign(tokens=tokens, count=[len(each) for each in tokens])
    ordered = counted.sort_values("count", ascending=False, kind="stable").drop_duplicates("admission")
    return ordered.sort_values("admission", ignore_index=True)


def synthetic() -> pd.DataFrame:
    """Return SYNTHETIC notes, one per admission, of 30 to 60 invented words whose frequency depends on the outcome."""
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
        raise DataError(f'column "{column.name}": found {found!r}, expected a time like 2101-10-20 19:08:00')
    return times


def _chunks(name: str, columns: Sequence[str], root: Path | None) -> Iterator[pd.DataFrame]:
    """A table of MIMIC-III as text, in chunks, because all notes together need too much memory."""
    file = locate(FILES[name], root)
    try:
        yield from pd.read_csv(file, usecols=list(columns), dtype=str, chunksize=CHUNK)
    except (ValueError, OSError, EOFError) as error:  # these include the errors of parser and decompression
        reason = " ".join(str(error).split())
        raise DataError(f"{file}: is not the table of {name} of MIMIC-III ({reason}); download it again") from error
