"""Hostile study files by name, each with what the error line must contain; they are variants of one small study."""

from __future__ import annotations

STUDY = """title = "T"
seeds = [1]
data = "digits"
[budget]
rounds = 2
local_steps = 2
batch_size = 8
[methods.fedavg]
model = "logistic"
fixed.lr = 0.1
"""
HUGE = "1" + "0" * 30  # beyond 64 bits
WHOLE = "whole number from 1 to 1,000,000"
BITS = "(64 bits)"
NESTED = "nested too deeply"
RANDOM = 'search = { kind = "random", trials = 5 }'
NAMES = {
    "of 300 letters": ("x" * 300, "at most 100"),
    "of 60,000 letters": ("x" * 60_000, "at most"),
    "of 1,000 folders": ("a/" * 999 + "b", "100"),
    "absolute": ("/x", "expected letters, digits"),
    "out of the folder": ("../x", "expected letters, digits"),
    "deep out of the folder": ("x/../../ESCAPED", "expected letters, digits"),
    "with an empty part": ("a//b", "expected letters, digits"),
    "with a null character": ("a\\u0000b", "expected letters, digits"),
    "with a colon": ("a:b", "expected letters, digits"),
    "with a star": ("a*b", "expected letters, digits"),
    "with a question mark": ("a?b", "expected letters, digits"),
    "with a leading dot": (".hidden", "expected letters, digits"),
    "with a trailing space": ("x ", "expected letters, digits"),
    "with a line break": ("a\\nb", "expected letters, digits"),
    "with an escape sequence": ("a\\u001b[31mb", "expected letters, digits"),
    "empty": ("", "expected letters, digits"),
}


def _with(old: str, new: str) -> str:
    assert old in STUDY
    return STUDY.replace(old, new)


def _method(lines: str) -> str:
    return _with("fixed.lr = 0.1", lines)


def _data(options: str) -> str:
    return _with('data = "digits"', f"data = {{ {options} }}")


def _own(path: str) -> str:
    return _data(f'name = "from_csv", path = "{path}", target = "a", site_column = "b"')


def _digits(count: int) -> str:
    return "1" * count


CASES: dict[str, tuple[str | bytes, str]] = {
    "lists nested 5,000 deep": (STUDY + f"x = {'[' * 5000}{']' * 5000}", NESTED),
    "lists nested 300 deep in a hyper-parameter": (_method(f"fixed.x = {'[' * 300}{']' * 300}"), NESTED),
    "lists nested in data": (_data(f'name = "digits", x = {"[" * 400}{"]" * 400}'), NESTED),
    "tables nested 3,000 deep": (STUDY + f"x = {'{a=' * 3000}1{'}' * 3000}", NESTED),
    "a dotted key of 600 parts": ("a." * 600 + "b = 1\n" + STUDY, NESTED),
    "a dotted key of 60 KB": ("b." * 30_000 + "b = 1\n" + STUDY, NESTED),
    "a header of 60 KB": (STUDY + f"[{'b.' * 30_000}b]\nc = 1\n", NESTED),
    "a profile nested 400 deep": (STUDY + f"[profiles.short.methods.{'b.' * 400}b]\nc = 1\n", NESTED),
    "a key of 60 KB": ("b" * 60_000 + " = 1\n" + STUDY, "a key of 60,000 characters"),
    "a method's key of 60 KB": (_with("methods.fedavg", f"methods.{'b' * 60_000}"), "a key of 60,000 characters"),
    "a line break in a method's key": (_with("methods.fedavg", 'methods."fed\\navg"'), r"fed\navg"),
    "a line break in a key": ('"a\\nb" = 1\n' + STUDY, "unknown key"),
    "a line break in a hyper-parameter": (_method('fixed."l\\nr" = 0.1'), "no hyper-parameter"),
    "a line break in a label": (_method('label = "a\\nb"'), "methods.fedavg.label: expected a text"),
    "a line break in a model": (_with('"logistic"', '"logi\\nstic"'), "unknown model"),
    "a model's name of 60 KB": (_with('"logistic"', f'"{"l" * 60_000}"'), "a text of 60,000 characters"),
    "a title of 60 KB": (_with('"T"', f'"{"x" * 60_000}"'), "title: a text of 60,000 characters"),
    "10^18 rounds": (_with("rounds = 2", f"rounds = {10**18}"), WHOLE),
    "10^30 rounds": (_with("rounds = 2", f"rounds = {HUGE}"), BITS),
    "rounds of 400 digits": (_with("rounds = 2", f"rounds = {_digits(400)}"), BITS),
    "rounds of 5,000 digits": (_with("rounds = 2", f"rounds = {_digits(5000)}"), "line 5: expected a whole number"),
    "rounds of 5,000 hexadecimal digits": (_with("rounds = 2", f"rounds = 0x{'f' * 5000}"), BITS),
    "10^18 local steps": (_with("local_steps = 2", f"local_steps = {10**18}"), WHOLE),
    "10^18 local epochs": (_with("local_steps = 2", f"local_epochs = {10**18}"), WHOLE),
    "10^18 samples in a batch": (_with("batch_size = 8", f"batch_size = {10**18}"), WHOLE),
    "a curve every 10^18 rounds": (_with("batch_size = 8", f"test_every = {10**18}"), "up to 1,000,000"),
    "no sample to train on": (_with("batch_size = 8", "validation = 0.9999999999999999"), "give a smaller share"),
    "a share of nan": (_with("batch_size = 8", "validation = nan"), "expected a share"),
    "a width of 1.5": (_with('"logistic"', '{ name = "mlp", hidden = 1.5 }'), "expected a whole number"),
    "a width of 1.5 in a list": (_with('"logistic"', '{ name = "mlp", hidden = [1.5] }'), "expected a whole number"),
    "a width of 10^18": (_with('"logistic"', f'{{ name = "mlp", hidden = {10**18} }}'), "at most 1,000,000"),
    "a seed of 65 bits": (_with("seeds = [1]", f"seeds = [{2**64}]"), BITS),
    "a seed of 400 digits": (_with("seeds = [1]", f"seeds = [{_digits(400)}]"), BITS),
    "a seed of 5,000 digits": (_with("seeds = [1]", f"seeds = [{_digits(5000)}]"), BITS),
    "10^18 seeds": (_with("seeds = [1]", f"seeds = {{ from = 0, to = {10**18} }}"), "more than 10,000"),
    "20,000 seeds": (_with("seeds = [1]", f"seeds = {list(range(20_000))}"), "more than 10,000"),
    "a learning rate of 400 digits": (_method(f"fixed.lr = {_digits(400)}"), BITS),
    "a grid with 400 digits": (_method(f"grid.lr = [{_digits(400)}]"), BITS),
    "a learning rate of 1e400": (_method("fixed.lr = 1e400"), "expected a finite number"),
    "a range of +-1e308": (_method(f"range.lr = {{ low = -1e308, high = 1e308 }}\n{RANDOM}"), "-1e+30 to 1e+30"),
    "a range up to 1e308": (
        _method(f'algorithm = "fedprox"\nrange.mu = {{ low = 0.0, high = 1.7e308 }}\n{RANDOM}'),
        "-1e+30 to 1e+30",
    ),
    "a range of rounds up to 1e30": (
        _method(f'range."budget.rounds" = {{ low = 1.0, high = 1e30, whole = true }}\n{RANDOM}'),
        WHOLE,
    ),
    "10^18 trials": (
        _method('range.lr = { low = 0.1, high = 1.0 }\nsearch = { kind = "random", trials = 1000000000000000000 }'),
        "at most 10,000",
    ),
    "a million settings and more": (
        _method(f'grid.lr = {[i / 2000 for i in range(1, 2000)]}\ngrid."budget.rounds" = {list(range(1, 2000))}'),
        "more than 1,000,000",
    ),
    "rows that double 40 times": (
        STUDY + "[rows]\n" + "".join(f'a{i} = ["a{i + 1}", "a{i + 1}"]\n' for i in range(40)) + "a40 = []\n[[tables]]\n"
        'id = "t"\nrows = "a0"\n',
        "lists of rows inside each other",
    ),
    "rows that double 20 times": (
        STUDY
        + "[rows]\n"
        + "".join(f'a{i} = ["a{i + 1}", "a{i + 1}"]\n' for i in range(20))
        + 'a20 = ["fedavg"]\n[[tables]]\nid = "t"\nrows = "a0"\n',
        "more than 100,000 rows",
    ),
    "a placeholder that fills a megabyte": (
        STUDY + f'[placeholders]\na = "{"x" * 1000}"\n[[tables]]\nid = "t"\ntitle = "{"{a}" * 3000}"\n',
        "after its placeholders",
    ),
    "a placeholder of a table": (STUDY + "[placeholders]\na = { b = 1 }\n", "placeholders.a: expected a text"),
    "10,001 methods": (
        STUDY + "".join(f'[methods.m{i}]\nalgorithm = "fedavg"\nmodel = "logistic"\n' for i in range(10_000)),
        "10,001 methods",
    ),
    "a client of 5,000 digits": (
        STUDY + f'[[tables]]\nid = "t"\nrows = [{{ of = "fedavg", score = "model {_digits(5000)}" }}]\n',
        'expected "own"',
    ),
    "an id out of the folder by a label": (
        _data('name = "digits", label = "../../x"') + '[[tables]]\nid = "{data}"\n',
        "expected letters, digits",
    ),
    "a label of 500 letters": (_data(f'name = "digits", label = "{"x" * 500}"'), "data.label: expected a text"),
    "data of another kind": (_with('"digits"', '"x:y"'), "unknown data set 'x:y'"),
    "data with a colon only": (_with('"digits"', '":"'), "unknown data set ':'"),
    "a home that nobody has": (_own("~nosuchuser/x"), "Could not determine home directory"),
    "a path of 5,000 letters": (_own("a" * 5000), "it has 5,000 characters"),
    "a path of 2,500 folders": (_own("a/" * 2500), "it has 5,000 characters"),
    "a path with a null character": (_own("a\\u0000b"), "embedded null byte"),
    "a base file of 5,000 letters": (f'extends = "{"a" * 5000}"\n' + STUDY, "extends: expected the name"),
    "a paper out of the folder": (
        'paper = "../../x"\n' + STUDY + '[[tables]]\nid = "t"\nprinted = "a:b:c"\n',
        "has no printed numbers",
    ),
    "a list that is not closed": (STUDY + "x = [" + "1,\n" * 900, "line 11: not TOML"),
    "a byte order mark": ("\ufeff" + STUDY, "line 1: begins with a byte order mark"),
    "a null character": (STUDY + "\0\n", "line 11, column 1: not TOML"),
    "Latin-1": (STUDY.encode() + b"# \xff\n", "line 11: is not UTF-8 text (byte 0xff)"),
    "UTF-16": (STUDY.encode("utf-16"), "line 1: is not UTF-8 text"),
    "eleven megabytes": (STUDY + "#" + "x" * 11_000_000, "larger than 10,000,000 bytes"),
    "nothing": ("", "title: missing"),
}
CASES |= {
    f"a table's id {name}": (STUDY + f'[[tables]]\nid = "{text}"\n', said) for name, (text, said) in NAMES.items()
}
CASES |= {
    f"a profile's name {name}": (STUDY + f'[profiles."{text}"]\nseeds = [2]\n', said)
    for name, (text, said) in NAMES.items()
}
