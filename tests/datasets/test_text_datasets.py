"""Data sets of texts, on small files in the published formats."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from bench.data import load_dataset
from bench.data.readers import text
from bench.registry import load
from bench.train.build import build_model
from bench.types import DataError, SpecError

FILE = "training.1600000.processed.noemoticon.csv"
sent140 = load("datasets", "sent140").__globals__
mimic = load("datasets", "mimic3_mortality").__globals__


@pytest.fixture(autouse=True)
def _no_other_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_DATA", raising=False)


def test_hashed_words_by_hand():
    encode = text.tokenizer("", None)
    tokens = encode("Hello, hello WORLD!")
    assert tokens[0] == 1
    assert tokens[1] == tokens[3]
    assert len(set(tokens)) == 5
    assert all(2 <= token < 2**15 for token in tokens[1:])
    assert text.tokenizer("", None, 3)("Hello, hello WORLD!") == tokens[:3]


def test_hashes_do_not_change():
    """Records hold hashes of the data, so words must always get the same numbers."""
    assert text.tokenizer("", None)("the end .") == [1, 27230, 5343, 29020]


def test_padding_and_renumbering_by_hand():
    tokens, numbers = text.padded([[101, 7], [101, 2000, 7]])
    assert tokens.tolist() == [[2, 1, 0], [2, 3, 1]]
    assert numbers.tolist() == [0, 7, 101, 2000]
    assert text.padded([[5], []])[0].tolist() == [[1], [0]]


def tokenizer_file(folder: Path, padding: str = "[PAD]") -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    words = {padding: 0, "[UNK]": 1, "good": 5, "bad": 9, "[PAD]": 0 if padding == "[PAD]" else 2}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_padding(length=30)
    folder.mkdir(exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_a_tokenizer_from_a_file(tmp_path: Path):
    tokenizer_file(tmp_path / "words")
    encode = text.tokenizer("words/tokenizer.json", tmp_path)
    assert encode("good bad strange good") == [5, 9, 1, 5]
    assert text.tokenizer("words/tokenizer.json", tmp_path, 2)("good bad strange good") == [5, 9]


def test_other_tokenizers_are_refused(tmp_path: Path):
    tokenizer_file(tmp_path / "odd", padding="[NIL]")
    with pytest.raises(DataError, match=r"padding is token 2, expected token 0"):
        text.tokenizer("odd/tokenizer.json", tmp_path)
    (tmp_path / "odd" / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"tokenizer\.json: is not a tokenizer\.json"):
        text.tokenizer("odd/tokenizer.json", tmp_path)
    with pytest.raises(DataError, match=r"none\.json: not found in .*; put the tokenizer"):
        text.tokenizer("none.json", tmp_path)
    with pytest.raises(SpecError, match="tokenizer = 3: expected the path"):
        text.tokenizer(3, tmp_path)


def tweets(folder: Path, change: tuple[bytes, bytes] = (b"", b"")) -> Path:
    """51 users; user k tweets 60 - k times, in turns, so that the order of the file is not that of the users."""
    buffer = io.StringIO()
    write = csv.writer(buffer, quoting=csv.QUOTE_ALL)
    for turn in range(60):
        for user in range(51):
            if turn < 60 - user:
                words = f"tweet {turn} of u{user}, caf\u00e9"
                write.writerow([4 * (turn % 2), user * 100 + turn, "Mon Apr 06", "NO_QUERY", f"u{user}", words])
    raw = buffer.getvalue().encode("latin-1")
    (folder / FILE).write_bytes(raw.replace(*change, 1))
    return folder


def test_sent140(tmp_path: Path):
    federation = load_dataset("sent140", tweets(tmp_path))
    assert [client.name for client in federation.clients] == [f"user_{rank}" for rank in range(36, 51)]
    sizes = [(len(each.train), len(each.validation), len(each.test)) for each in federation.clients]
    assert sizes[0] == (16, 4, 5)  # 25 tweets of user 35
    assert [sum(size) for size in sizes] == list(range(25, 10, -1))
    assert (federation.task, federation.classes) == ("multiclass", 2)
    client = federation.clients[0]
    assert client.train.x.dtype == client.train.y.dtype == torch.int64
    assert client.train.x.shape[1] == 7  # start mark, "tweet", a number, "of", a user, a comma and a word
    assert (client.train.x != 0).all()
    assert client.train.x.max() < 2 + 60 + 50 + 5
    found = torch.cat([part.x for part in (client.train, client.validation, client.test)])
    assert len(torch.unique(found, dim=0)) == 25
    assert len(torch.unique(found[:, 4])) == 1


def test_sent140_of_the_top_15(tmp_path: Path):
    federation = load_dataset("sent140", tweets(tmp_path), users="top_15")
    assert [client.name for client in federation.clients] == [f"user_{rank}" for rank in range(1, 16)]
    first = federation.clients[0]
    assert len(first.train) + len(first.validation) + len(first.test) == 60
    with pytest.raises(SpecError, match="users = 'top15': did you mean 'top_15'"):
        load_dataset("sent140", tmp_path, users="top15")


def test_sent140_with_a_tokenizer(tmp_path: Path):
    tokenizer_file(tmp_path)
    federation = load_dataset("sent140", tweets(tmp_path), tokenizer="tokenizer.json")
    assert torch.unique(torch.cat([client.train.x for client in federation.clients])).tolist() == [1]


VECTORS = np.arange(20, dtype=np.float32).reshape(10, 2) + 1


def vectors_file(file: Path, name: str = "embeddings.word_embeddings.weight", matrix: np.ndarray = VECTORS) -> str:
    """Save a vector for each of ten tokens; return the file's SHA-256."""
    if file.suffix == ".npy":
        np.save(file, matrix)
    else:
        save_file({name: torch.from_numpy(matrix), "pooler.weight": torch.ones(3, 3)}, file)
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["vectors.npy", "vectors.safetensors"])
def test_models_begin_from_the_vectors_of_the_tokens_in_use(tmp_path: Path, name: str):
    tokenizer_file(tmp_path)
    digest = vectors_file(tmp_path / name)
    words = patients(tmp_path, notes=(charted(0, f"{DAY} 14:00:00", "Nursing", "good bad good strange patient is"),))
    options = {"source": "files", "tokenizer": "tokenizer.json", "embeddings": name}
    federation = load_dataset("mimic3_mortality", words, **options)
    # Tokens 0 (padding), 1 (unknown), 5 (good) and 9 (bad) are in use, and renumbered.
    assert federation.embeddings.tolist() == [[0, 0], [3, 4], [11, 12], [19, 20]]
    assert {**options, "embeddings_sha256": digest} == federation.options
    assert load_dataset("mimic3_mortality", words, **federation.options).fingerprint == federation.fingerprint
    assert federation.fingerprint != load_dataset("mimic3_mortality", words, **options | {"embeddings": ""}).fingerprint

    model = build_model("player_text", federation, {"width": 2})
    weight = model.token_embedding.weight
    ratios = torch.tensor([[1.0, 4 / 3], [1.0, 12 / 11], [1.0, 20 / 19]])
    torch.testing.assert_close(weight[1:] / weight[1:, :1], ratios)
    torch.testing.assert_close(weight[1:].norm(dim=1), torch.ones(3))
    assert not weight[0].any()
    assert weight.requires_grad
    with pytest.raises(SpecError, match="the model has width 768, its embeddings 2"):
        build_model("player_text", federation)
    with pytest.raises(SpecError, match="model logistic looks up no tokens: leave out the option embeddings"):
        build_model("logistic", federation)


def test_vectors_of_sent140(tmp_path: Path):
    tokenizer_file(tmp_path)
    digest = vectors_file(tmp_path / "vectors.npy", matrix=VECTORS.astype(np.float16))
    federation = load_dataset("sent140", tweets(tmp_path), tokenizer="tokenizer.json", embeddings="vectors.npy")
    assert federation.embeddings.dtype == torch.float32
    assert federation.embeddings.tolist() == [[0, 0], [3, 4]]  # padding and the unknown word
    assert federation.options["embeddings_sha256"] == digest
    assert load_dataset("sent140", tmp_path).options["embeddings_sha256"] == ""


class Unsafe:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("a pickle was opened",)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("v.npy", VECTORS[:9], r"has vectors of 9 tokens, but the tokenizer uses token 9$"),
        ("v.npy", VECTORS[0], r"has shape \(2,\) of torch.float32, expected \(tokens, width\) of floats"),
        ("v.npy", VECTORS.astype(np.int64), r"of torch.int64, expected \(tokens, width\) of floats"),
        ("v.npy", np.where(VECTORS == 11, np.nan, VECTORS), "the vector of token 5 is not finite"),
        ("v.npy", np.array([[Unsafe()]], dtype=object), "has no word vectors: .* Python objects"),
        ("v.npy", b"\x93NUMPY", "has no word vectors: "),
        ("v.npy", b"", "has no word vectors: No data left in file"),
        ("v.safetensors", b"{}", "has no word vectors: "),
        ("v.safetensors", VECTORS, "0 of its 2 tensors are called ...word_embeddings.weight, expected one"),
        ("v.bin", b"", "expected a file in .safetensors or .npy"),
        (None, b"", r"v.npy: not found in .*; put the vectors there, or omit the option embeddings"),
    ],
)
def test_files_without_vectors_are_named(tmp_path: Path, file: str | None, content: np.ndarray | bytes, message: str):
    place = tmp_path / (file or "elsewhere")
    if isinstance(content, bytes):
        place.write_bytes(content)
    else:
        vectors_file(place, "other", content)
    with pytest.raises(DataError, match=message) as caught:
        text.Embeddings(file or "v.npy", "", "tokenizer.json").read(np.array([0, 1, 5, 9]), tmp_path)
    assert "\n" not in str(caught.value)


def test_vectors_of_another_file_than_pinned_are_refused(tmp_path: Path):
    digest = vectors_file(tmp_path / "v.npy")
    with pytest.raises(DataError, match=f"v.npy: expected sha256 {'0' * 64}, found {digest}"):
        text.Embeddings("v.npy", "0" * 64, "tokenizer.json").read(np.array([0, 1]), tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embeddings": "v.npy"}, "embeddings = 'v.npy': needs the option tokenizer; give the tokenizer"),
        ({"embeddings": 3, "tokenizer": "t"}, "embeddings = 3: expected the path of a file"),
        ({"embeddings_sha256": "00"}, "embeddings_sha256 = '00': expected 64 hexadecimal digits"),
        ({"embeddings_sha256": "0" * 64}, "embeddings_sha256: is given without embeddings"),
    ],
)
def test_bad_options_of_embeddings_are_refused(options: dict[str, object], message: str):
    for name in ("sent140", "mimic3_mortality"):
        with pytest.raises(SpecError, match=message):
            load_dataset(name, **options)


def test_users_with_equally_many_tweets_go_by_their_first():
    rows = [("0", user, "x") for user in ["late", *(f"u{number}" for number in range(49)), "last", "late", "u7"]]
    ranked = sent140["busiest"](pd.DataFrame(rows, columns=["target", "user", "text"]))
    order = ranked.drop_duplicates("user").set_index("rank")["user"].sort_index().tolist()
    assert order[:4] == ["late", "u7", "u0", "u1"]
    assert "last" not in order


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((b'"4","1"', b'"2","1"'), r"row 52, column .target.: found '2', expected 0 or 4"),
        ((b'"0","100","Mon Apr 06","NO_QUERY",', b'"0",'), r"row 2: has no text in its sixth column"),
        ((b'"0","100",', b'"0","100","100",'), r"is not a csv file of six columns"),
    ],
)
def test_damaged_tweets_are_named(tmp_path: Path, change: tuple[bytes, bytes], message: str):
    with pytest.raises(DataError, match=message) as caught:
        load_dataset("sent140", tweets(tmp_path, change))
    assert "\n" not in str(caught.value)


def test_too_few_users_and_no_file(tmp_path: Path):
    with pytest.raises(
        DataError, match=r"noemoticon\.csv\.zip: not found in .*; download .* from https://www.kaggle.com"
    ):
        load_dataset("sent140", tmp_path)
    (tmp_path / FILE).write_text('"0","1","d","q","u","words"\n')
    with pytest.raises(DataError, match="has 1 users, expected at least 50"):
        load_dataset("sent140", tmp_path)


ADMISSIONS = "ROW_ID,SUBJECT_ID,HADM_ID,ADMITTIME,ADMISSION_TYPE,DIAGNOSIS,HOSPITAL_EXPIRE_FLAG"
NOTES = "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CHARTTIME,STORETIME,CATEGORY,DESCRIPTION,CGID,ISERROR,TEXT"
DAY = "2101-10-20"
GROUPS = {"mi": "STEMI", "gi": "ABDOMINAL PAIN", "infection": "SEPSIS", "brain": "STROKE/TIA"}


def charted(admission: int, time: str, category: str, words: str) -> str:
    return f'1,1,{admission},{DAY},{time},,{category},Report,1,,"{words}"'


def patients(folder: Path, admissions: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> Path:
    """Ten admissions of each group with one note of two lines each, followed by the given rows."""
    everybody = [(100 * place + number, GROUPS[group]) for place, group in enumerate(GROUPS) for number in range(10)]
    rows = [f'1,1,{key},{DAY} 12:00:00,EMERGENCY,"{diagnosis}",{key % 2}' for key, diagnosis in everybody]
    texts = [charted(key, f"{DAY} 13:00:00", "Nursing", f"patient {key}\nis calm") for key, _ in everybody]
    (folder / "mimic3").mkdir(exist_ok=True)
    (folder / "mimic3" / "ADMISSIONS.csv").write_text("\n".join([ADMISSIONS, *rows, *admissions]) + "\n")
    packed = gzip.compress(("\n".join([NOTES, *texts, *notes]) + "\n").encode())
    (folder / "mimic3" / "NOTEEVENTS.csv.gz").write_bytes(packed)
    return folder


def test_mimic3(tmp_path: Path):
    federation = load_dataset("mimic3_mortality", patients(tmp_path), source="files")
    assert [client.name for client in federation.clients] == ["mi", "gi", "infection", "brain"]
    assert not federation.synthetic
    for client in federation.clients:
        assert [len(part) for part in (client.train, client.validation, client.test)] == [6, 2, 2]
        assert client.train.x.shape[1] == 5
        assert sum(int(part.y.sum()) for part in (client.train, client.validation, client.test)) == 5
    assert dict(federation.loss) == {"name": "focal_all_classes", "gamma": 1.0, "alpha": [0.15, 0.85], "scale": 10.0}
    assert federation.metrics == ("macro_f1", "accuracy", "loss")
    assert federation.embeddings is None


def emergency(diagnosis: str, kind: str = "EMERGENCY", died: str = "0") -> str:
    return f'1,1,999,{DAY} 12:00:00,{kind},"{diagnosis}",{died}'


@pytest.mark.parametrize(
    ("admission", "expected"),
    [
        (emergency("STEMI"), "mi"),
        (emergency("CORONARY ARTERY DISEASE\\CATH"), "mi"),
        (emergency("SEPSIS;TELEMETRY"), "infection"),
        (emergency("STROKE;TELEMETRY;TRANSIENT ISCHEMIC ATTACK"), "brain"),
        (emergency("STROKE;TELEMETRY"), None),
        (emergency("SUBDURAL HEMORRHAGE"), None),
        (emergency("SEPSIS ?"), None),
        (emergency("STEMI", kind="ELECTIVE"), None),
        (emergency("STEMI", died=""), None),
    ],
)
def test_which_admissions_count(tmp_path: Path, admission: str, expected: str | None):
    folder = patients(tmp_path, (admission,), (charted(999, f"{DAY} 13:00:00", "Nursing", "a note"),))
    federation = load_dataset("mimic3_mortality", folder, source="files")
    sizes = {each.name: sum(map(len, (each.train, each.validation, each.test))) for each in federation.clients}
    assert sizes == {group: 11 if group == expected else 10 for group in GROUPS}


@pytest.mark.parametrize(
    ("time", "category", "counts"),
    [
        (f"{DAY} 12:30:00", "Nursing", True),
        (f"{DAY} 12:30:00", "Nursing/other", True),
        (f"{DAY} 12:30:00", "Physician ", True),
        (f"{DAY} 12:30:00", "Radiology", False),
        ("2101-10-21 12:00:00", "Nursing", True),
        ("2101-10-21 12:00:01", "Nursing", False),
        ("2101-10-01 00:00:00", "Nursing", True),
        ("", "Nursing", False),
    ],
)
def test_which_notes_count(tmp_path: Path, time: str, category: str, counts: bool):
    folder = patients(tmp_path, (emergency("STEMI"),), (charted(999, time, category, "a note"),))
    notes = mimic["read"](folder)
    assert ("999" in set(notes["admission"])) == counts


def test_the_longest_note_of_an_admission_counts(tmp_path: Path):
    extra = (
        charted(0, f"{DAY} 14:00:00", "Nursing", "a longer note of eight words in all"),
        charted(0, f"{DAY} 14:00:00", "Nursing", "written at the same time and so not counted as another one"),
        charted(0, f"{DAY} 15:00:00", "Nursing", "an equal note of eight words as well"),
    )
    notes = mimic["read"](patients(tmp_path, notes=extra))
    kept = mimic["longest"](notes, [note.split() for note in notes["text"]])
    assert kept.loc[kept["admission"] == "0", "text"].tolist() == ["a longer note of eight words in all"]
    assert len(kept) == 40


def test_long_notes_are_cut(tmp_path: Path):
    note = charted(0, f"{DAY} 14:00:00", "Nursing", "word " * 600)
    federation = load_dataset("mimic3_mortality", patients(tmp_path, notes=(note,)), source="files")
    assert federation.clients[0].train.x.shape[1] == 512


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("ADMISSIONS.csv", "HADM_ID,DIAGNOSIS\n1,STEMI\n", r"is not the table of admissions of MIMIC-III .*ADMITTIME"),
        (
            "ADMISSIONS.csv",
            ADMISSIONS + "\n1,1,5,never,EMERGENCY,STEMI,0\n",
            "column .ADMITTIME.: found 'never', expected",
        ),
        ("ADMISSIONS.csv", ADMISSIONS + "\n", "has no emergency with a diagnosis of the four"),
        ("NOTEEVENTS.csv.gz", "no gzip", "is not the table of notes of MIMIC-III"),
    ],
)
def test_damaged_tables_are_named(tmp_path: Path, file: str, content: str, message: str):
    folder = patients(tmp_path)
    (folder / "mimic3" / file).write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        load_dataset("mimic3_mortality", folder, source="files")
    assert "\n" not in str(caught.value)


def test_without_the_tables_the_error_says_how_to_get_them(tmp_path: Path):
    with pytest.raises(
        DataError, match=r"ADMISSIONS\.csv: not found in .*; MIMIC-III needs credentials from https://physionet"
    ):
        load_dataset("mimic3_mortality", tmp_path, source="files")
    with pytest.raises(SpecError, match="source = 'file': did you mean 'files'"):
        load_dataset("mimic3_mortality", tmp_path, source="file")


def test_the_mimic_stand_in():
    federation = load_dataset("mimic3_mortality")
    assert federation.synthetic
    sizes = {each.name: sum(map(len, (each.train, each.validation, each.test))) for each in federation.clients}
    assert sizes == mimic["SYNTHETIC"]
    assert all(0.1 < client.train.y.float().mean() < 0.2 for client in federation.clients)
    lengths = torch.cat([(client.train.x != 0).sum(dim=1) for client in federation.clients])
    assert (int(lengths.min()), int(lengths.max())) == (31, 61)
    assert np.isin(federation.clients[0].test.y.numpy(), (0, 1)).all()


def test_a_group_without_notes_is_named(tmp_path: Path):
    folder = patients(tmp_path)
    file = folder / "mimic3" / "ADMISSIONS.csv"
    file.write_text(file.read_text().replace("STROKE/TIA", "HEADACHE"))
    with pytest.raises(DataError, match="group 'brain' has 0 admissions with a note, expected at least 5"):
        load_dataset("mimic3_mortality", folder, source="files")
