"""Plain-English lint: banned phrases in text files, and first words of docstrings."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUFFIXES = {".py", ".c", ".md", ".toml", ".j2", ".js", ".css", ".html", ".cff"}
NAMES = {"Makefile", ".ci/run"}
# Published tables are rebuilt from records with each release; the licence is not ours.
EXCLUDED = ("results/published/", "LICENSE", "tests/test_language.py")

# A phrase (regular expression; a space matches line breaks and comment marks too) and what to write instead.
BANNED = {
    r"travel(s|led|ling)?": "communication cost; uploaded, downloaded",
    r"begins? apart|apart = (true|false)": "independent initialisation",
    r"is watched|are watched": "traced quantities",
    r"(?<![\"'])populations?(?![\"'])": "run batch",
    r"the hearts": "the heart cohorts; Fed-Heart-Disease",
    r"mend(s|ed|ing)?": "fix",
    r"stands? (in|beside|for|behind|by)": "is in, is next to, means",
    r"stood (in|beside|for|behind)": "was in, was next to, meant",
    r"(is|are|was) said": "is printed, is reported, is documented",
    r"by heart(?! (?:failure|disease))": "overfits",
    r"tiny numbers count": "denormals are flushed to zero",
    r"last digits are others": "results differ in the last digits",
    r"so many": "n, the number of ...",
    r"rising numbers": "strictly increasing",
    r"at hand": "available",
    r"on record": "recorded",
    r"the like": "name the others",
    r"save for|none but": "except",
    r"slip of the pen": "a likely mistake",
    r"what there is": "name the thing",
    r"to be had": "available",
    r"of the clients alone|of which the others": "rewrite the sentence",
    r"go(es)? on": "continue, resume",
    r"went on": "continued, resumed",
    r"forth and back": "forward and backward",
    r"in all likelihood": "probably",
    r"for want of": "because there is no",
    r"with sense": "name the definition",
    r"(its|their) kin": "name them",
    r"the words of the field": "terms, types",
    r"(the rules of|in) the house": "project rules",
    r"h(e|o)ld(s|ing)? (\w+ ){0,3}against": "check against, compare with",
    r"hung on|hangs on": "depends on",
    r"out of line|columns in line": "misaligned, aligned",
    r"made anew|makes anew|drawn anew|anew": "again",
    r"nobody else'?s?": "rewrite the sentence",
    r"is heard of": "reported",
    r"(run batch|runs|process|batch)(es)? in work": "running",
    r"seal(s|ed|ing)?": "checksum",
    r"holdings": "inventory",
    r"lies there|lies where|lie where": "is in",
    r"memory fetched ahead|sums in registers": "say what changes for the user",
}
ADVICE = list(BANNED.values())
PHRASES = [rf"(?P<p{number}>{phrase})".replace(" ", r"[\s#>*]+") for number, phrase in enumerate(BANNED)]
PATTERN = re.compile(rf"(?<![\w-])(?:{'|'.join(PHRASES)})(?![\w-])", re.IGNORECASE)
# "Whether" is left out: it describes truth values.
FIRST_WORDS = ("What", "How", "Which", "Who", "Where", "Why")


def texts() -> Iterator[tuple[str, str]]:
    """Tracked text files and their content, without excluded ones."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: tracked files are unknown")
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listing.stdout.splitlines():
        ours = Path(name).suffix in SUFFIXES or name in NAMES
        if ours and not name.startswith(EXCLUDED) and (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(encoding="utf-8")


def hits(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, matched text and advice for each banned phrase in ``text``."""
    for match in PATTERN.finditer(text):
        advice = ADVICE[int(str(match.lastgroup)[1:])]
        yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), advice


@pytest.mark.parametrize(
    "text",
    [
        "Floats that travel.",
        "Each\npopulation is trained.",
        "# it stands\n# beside the table",
        "A slip of the pen",
        "The row goes on.",
        "methods.x.apart = true",
    ],
)
def test_banned_phrases_are_found(text):
    assert len(list(hits(text))) == 1


@pytest.mark.parametrize("text", ["A stand-in for real data.", "Standard deviation.", "The recommended setting."])
def test_other_words_are_not_banned(text):
    assert list(hits(text)) == []


def test_texts_have_no_banned_phrase():
    found = [
        f"{name}:{line}: {phrase!r}; write: {advice}" for name, text in texts() for line, phrase, advice in hits(text)
    ]
    assert not found, "\n".join(found)


def test_docstrings_start_with_a_noun_phrase_or_an_imperative():
    found = []
    for name, text in texts():
        for node in ast.walk(ast.parse(text)) if name.endswith(".py") else ():
            documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            docstring = ast.get_docstring(node) if documented else None
            if docstring and docstring.split()[0] in FIRST_WORDS:
                found.append(f"{name}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}")
    assert not found, "\n".join(found)
