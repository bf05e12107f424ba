"""What the commands print of a store, for people: its state, its runs a line each, and one run in full."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.cli.progress import duration
from bench.types import CHECKPOINTS

SHORT = 8  # digits of a hash that tell a run from some thousand others


def of_state(found: Mapping[str, Any]) -> Iterator[str]:
    """The state of a store (:func:`bench.sweep.state.state`), with the progress of a study if that is in it."""
    training, finished, snapshots = found["training"], found["finished"], found["snapshots"]
    runs = f"{count(finished['runs'], 'run')} in {count(finished['run_batches'], 'run_batch')}"
    yield found["store"]
    yield f"  training   {count(len(training), 'run_batch')}"
    yield from (f"    {line}" for line in aligned(map(_in_work, training)))
    yield f"  finished   {runs}{_diverged(finished)}, {duration(finished['seconds'])} of training"
    if snapshots:
        size, age = sum(each["bytes"] for each in snapshots) / 1e6, min(each["age"] for each in snapshots)
        yield f"  snapshots  {len(snapshots)}, {size:,.1f} MB, the newest {duration(age)} old"
    if failed := found["failed"]:
        yield f"  failed     {count(len(failed), 'run_batch')}"
        yield from (f"    {line}" for line in aligned([[each["text"], each["file"]] for each in failed]))
    if found["damaged"]:
        yield f"  damaged    {count(len(found['damaged']), 'file')}"
    if study := found.get("study"):
        yield f"{study['file']}: {study['finished']:,} of {count(study['runs'], 'run')} finished{_diverged(study)}"
        methods = study["methods"].items()
        rows = ([name, f"{each['finished']:,} of {each['runs']:,}{_diverged(each)}"] for name, each in methods)
        yield from (f"  {line}" for line in aligned(rows))


def _in_work(lease: Mapping[str, Any]) -> list[str]:
    rounds = "beginning" if lease["round"] is None else f"round {lease['round']} of {lease['rounds']}"
    loss = "" if lease["loss"] is None else f"best validation loss {lease['loss']:.4g}"
    whose = f"process {lease['pid']} on {lease['host']}"
    return [lease["text"] or lease["run_batch"], rounds, loss, f"for {duration(lease['seconds'])}", whose]


def _diverged(counts: Mapping[str, int]) -> str:
    return f", {counts['diverged']:,} diverged" if counts["diverged"] else ""


def of_runs(listed: Sequence[Mapping[str, Any]], named: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A line for each run: summaries (:func:`bench.sweep.reading.summary`), and by hash all that decided them.

    Besides its hyper-parameters a line shows what else differs between the runs of an algorithm on a data set.
    """
    kinds: dict[tuple[str, str], list[str]] = {}
    for each in listed:
        kinds.setdefault((each["data"], each["algorithm"]), []).append(each["run"])
    differing = {kind: _differing([named[run] for run in members]) for kind, members in kinds.items()}
    rows = [["run", "data", "algorithm", "setting", "seed", "status", "loss", "metric", *CHECKPOINTS]]
    for each in listed:
        more = {name: named[each["run"]].get(name) for name in differing[each["data"], each["algorithm"]]}
        rows.append(
            [
                each["run"][:SHORT],
                f"{each['data']} (SYNTHETIC)" if each["synthetic"] else each["data"],
                each["algorithm"],
                " ".join(f"{name}={_bare(value)}" for name, value in (each["setting"] | more).items()),
                str(each["seed"]),
                each["status"],
                number(each["loss"]),
                each["metric"] or "",
                *(number(each["scores"].get(rule)) for rule in CHECKPOINTS),
            ]
        )
    yield from aligned(rows)


def _differing(named: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of what decides a run the names, other than hyper-parameters and seeds, that differ among these."""
    first = named[0]
    return [
        name
        for name in first
        if (name == "model" or "." in name) and any(each.get(name) != first[name] for each in named)
    ]


def of_run(record: Mapping[str, Any]) -> Iterator[str]:
    """A record in full."""
    spec, versions, travels, bad = record["spec"], record["versions"], record["communication"], record["diverged"]
    state = f"diverged in round {bad['round']}: {bad['what']} of client {bad['client']}" if bad else record["status"]
    yield f"Run {record['run']}, {state}{', on SYNTHETIC DATA' if record['synthetic'] else ''}"
    yield ""
    facts = {
        "data": _choice(spec["data"]),
        "fingerprint": spec["data"]["fingerprint"],
        "algorithm": _choice(spec["algorithm"]),
        "model": f"{_choice(spec['model'])}: {record['parameters']:,} parameters",
        "setting": _settings(spec["hyperparameters"]),
        "budget": _settings(spec["budget"]),
        "seed": str(spec["seed"]),
        "travels": f"{number(travels['up'])} floats up, {number(travels['down'])} down, each client and round",
        "made": f"{record['path']}, by silobench {versions['silobench']} with torch {versions['torch']}",
    }
    yield from (f"  {line}" for line in aligned([[name, value] for name, value in facts.items()]))
    for metric in dict.fromkeys(metric for _, _, _, metric, _ in record["scores"]):
        yield ""
        yield f"{metric} on test samples"
        yield from (f"  {line}" for line in aligned(_scores(record, metric), numbers_from=1))
    yield ""
    yield "Validation loss by round (* lowest)"
    yield from (f"  {line}" for line in aligned(_losses(record), numbers_from=0))
    for metric, points in record["curves"].get("scores", {}).items():
        yield ""
        yield f"{metric} on test samples by rounds finished"
        rows = zip(map(str, record["curves"]["rounds"]), points, strict=True)
        table = [["rounds", *record["clients"]], *([rounds, *map(number, values)] for rounds, values in rows)]
        yield from (f"  {line}" for line in aligned(table, numbers_from=0))
    for name, rounds in record["traces"].items():
        yield ""
        yield f"{name} at the end of the last round"
        yield from (f"  {line}" for line in aligned(_last(record, rounds)))


def _choice(part: Mapping[str, Any]) -> str:
    options = _settings(part["options"])
    return f"{part['name']} ({options})" if options else part["name"]


def _settings(values: Mapping[str, Any]) -> str:
    """What is set, without what is None."""
    return ", ".join(f"{name} = {shown(value)}" for name, value in values.items() if value is not None)


def _scores(record: Mapping[str, Any], metric: str) -> list[list[str]]:
    """A row for each client, and each client's model on another one, with a column for each checkpoint kept."""
    from bench.sweep.reading import means

    clients, sizes = record["clients"], record["test_sizes"]
    kept = [rule for rule in CHECKPOINTS if any(score[0] == rule for score in record["scores"])]
    pooled = len({model for _, model, *_ in record["scores"]}) == 1
    rows: dict[tuple[int, int], dict[str, float | None]] = {}
    for checkpoint, model, client, name, value in record["scores"]:
        if name == metric:
            rows.setdefault((client if pooled else model, client), {})[checkpoint] = value
    table = [["client", "samples", *kept]]
    for (model, client), values in sorted(rows.items(), key=lambda row: (row[0][0] != row[0][1], row[0])):
        who = clients[client] if model == client else f"{clients[client]}, model of {clients[model]}"
        table.append([who, str(sizes[client]), *(number(values.get(rule)) for rule in kept)])
    mean = {} if record["status"] == "diverged" else means(record, metric)
    return [*table, ["mean of own models", "", *(number(mean.get(rule)) for rule in kept)]]


def _losses(record: Mapping[str, Any]) -> list[list[str]]:
    known = [loss for loss in record["aggregated"] if loss is not None]
    table = [["round", "all", *record["clients"]]]
    for round_, (mean, losses) in enumerate(zip(record["aggregated"], record["validation"], strict=True)):
        mark = "*" if known and mean == min(known) else ""
        table.append([str(round_), f"{number(mean)}{mark}", *map(number, losses)])
    return table


def _last(record: Mapping[str, Any], rounds: Sequence[Sequence[Any]]) -> list[list[str]]:
    """What an algorithm watched of each client, a number or a list of them."""
    values = (value if isinstance(value, list) else [value] for value in rounds[-1])
    return [[client, *map(number, each)] for client, each in zip(record["clients"], values, strict=False)]


def aligned(rows: Iterable[Sequence[str]], numbers_from: int | None = None) -> list[str]:
    """Rows as lines whose columns stand below each other; those from ``numbers_from`` on end below each other."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=False)]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.ljust(width) if numbers_from is None or place < numbers_from else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [line(row) for row in rows]


def count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def shown(value: Any) -> str:
    """A value as in a study file, to its last digit."""
    short = f"{value:g}" if isinstance(value, float) else ""
    return short if short and float(short) == value else json.dumps(value, ensure_ascii=False)


def _bare(value: Any) -> str:
    """A value in a few letters."""
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else shown(value)
