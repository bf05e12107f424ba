"""Text output of `status`, `runs` and `show`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.cli.format import aligned, batches, brief, count, duration, exact, holder, number, stalled
from bench.types import CHECKPOINTS

if TYPE_CHECKING:
    from bench.sweep.query import Selection

SHORT = 8  # digits of a hash in lists


def of_state(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the state of a store (see :mod:`bench.sweep.status`) by line, with the progress of a study if given."""
    training, finished, snapshots = found["training"], found["finished"], found["snapshots"]
    runs = f"{count(finished['runs'], 'run')} in {batches(finished['run_batches'])}"
    yield found["store"]
    yield f"  training   {batches(len(training))}"
    yield from (f"    {line}" for line in aligned(map(_running, training)))
    yield f"  finished   {runs}{_diverged(finished)}, {duration(finished['seconds'])} of training"
    if snapshots:
        size, age = sum(each["bytes"] for each in snapshots) / 1e6, min(each["age"] for each in snapshots)
        yield f"  snapshots  {count(len(snapshots), 'file')}, {size:,.1f} MB, newest {duration(age)} old"
    if failed := found["failed"]:
        yield f"  failed     {batches(len(failed))}"
        yield from (f"    {line}" for line in aligned([[each["text"], each["file"]] for each in failed]))
    if found["damaged"]:
        yield f"  damaged    {count(len(found['damaged']), 'file')}"
    if study := found.get("study"):
        yield f"{study['file']}: {study['finished']:,} of {count(study['runs'], 'run')} finished{_diverged(study)}"
        methods = study["methods"].items()
        rows = ([name, f"{each['finished']:,} of {each['runs']:,}{_diverged(each)}"] for name, each in methods)
        yield from (f"  {line}" for line in aligned(rows))


def _running(lease: Mapping[str, Any]) -> list[str]:
    from bench.sweep.lease import QUIET_AFTER

    rounds = "starting" if lease["round"] is None else f"round {lease['round']} of {lease['rounds']}"
    loss = "" if lease["loss"] is None else f"best validation loss {lease['loss']:.4g}"
    running, trouble = f"running for {duration(lease['seconds'])}", ""
    if lease["stalled"]:
        trouble = f"stalled: {stalled(lease)}"
    elif lease["quiet"] >= QUIET_AFTER:
        trouble = f"no progress for {duration(lease['quiet'])}"
    return [lease["text"] or lease["run_batch"], rounds, loss, running, holder(lease), trouble]


def _diverged(counts: Mapping[str, int]) -> str:
    return f", {counts['diverged']:,} diverged" if counts["diverged"] else ""


def of_runs(found: Selection) -> Iterator[str]:
    """Yield a header and a line per run.

    Next to its hyper-parameters a line shows the options that differ between the listed runs of the same algorithm on
    the same data set.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for each in found.summaries:
        groups.setdefault((each["data"], each["algorithm"]), []).append(each["run"])
    differing = {group: _differing([found.settings[run] for run in runs]) for group, runs in groups.items()}
    rows = [["run", "data", "algorithm", "setting", "seed", "status", "loss", "metric", *CHECKPOINTS]]
    for each in found.summaries:
        options = {name: found.settings[each["run"]].get(name) for name in differing[each["data"], each["algorithm"]]}
        rows.append(
            [
                each["run"][:SHORT],
                f"{each['data']} (SYNTHETIC)" if each["synthetic"] else each["data"],
                each["algorithm"],
                " ".join(f"{name}={brief(value)}" for name, value in (each["setting"] | options).items()),
                str(each["seed"]),
                each["status"],
                number(each["loss"]),
                each["metric"] or "",
                *(number(each["scores"].get(rule)) for rule in CHECKPOINTS),
            ]
        )
    yield from aligned(rows)


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of options (not hyper-parameters or seeds) that differ between runs."""
    first = settings[0]
    return [
        name
        for name in first
        if (name == "model" or "." in name) and any(each.get(name) != first[name] for each in settings)
    ]


def of_run(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a complete record line by line."""
    from bench.sweep.summaries import environment

    spec, versions, floats, diverged = (record[key] for key in ("spec", "versions", "communication", "diverged"))
    state = record["status"]
    if diverged:
        state = f"diverged in round {diverged['round']} at client {diverged['client']}: {diverged['what']}"
    if "stopped" in record:
        state += f", stopped early after {record['stopped']} of {spec['budget']['rounds']} rounds"
    yield f"Run {record['run']}, {state}{', on SYNTHETIC DATA' if record['synthetic'] else ''}"
    yield ""
    about = {
        "data": _choice(spec["data"]),
        "fingerprint": spec["data"]["fingerprint"],
        "algorithm": _choice(spec["algorithm"]),
        "model": f"{_choice(spec['model'])}: {record['parameters']:,} parameters",
        "setting": _settings(spec["hyperparameters"]),
        "budget": _settings(spec["budget"]),
        "seed": str(spec["seed"]),
        "communication": f"{number(floats['up'])} floats uploaded, {number(floats['down'])} downloaded "
        "per client and round",
        "made by": f"silobench {versions['silobench']} with torch {versions['torch']} ({record['path']})",
        "environment": environment(record),
    }
    yield from (f"  {line}" for line in aligned([[name, value] for name, value in about.items()]))
    for metric in dict.fromkeys(metric for _, _, _, metric, _ in record["scores"]):
        yield ""
        yield f"{metric} on test samples"
        yield from (f"  {line}" for line in aligned(_scores(record, metric), numbers_from=1))
    yield ""
    yield "Validation loss by round (* lowest)"
    yield from (f"  {line}" for line in aligned(_losses(record), numbers_from=0))
    for metric, points in record["curves"].get("scores", {}).items():
        yield ""
        yield f"{metric} on test samples by finished rounds"
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
    """Return all settings that are not None."""
    return ", ".join(f"{name} = {exact(value)}" for name, value in values.items() if value is not None)


def _scores(record: Mapping[str, Any], metric: str) -> list[list[str]]:
    """Return a row per client, a row per model tested on another client, and their mean; a column per checkpoint."""
    from bench.sweep.summaries import means

    clients, sizes = record["clients"], record["test_sizes"]
    kept = [rule for rule in CHECKPOINTS if any(score[0] == rule for score in record["scores"])]
    pooled = len({model for _, model, *_ in record["scores"]}) == 1
    rows: dict[tuple[int, int], dict[str, float | None]] = {}
    for checkpoint, model, client, name, value in record["scores"]:
        if name == metric:
            rows.setdefault((client if pooled else model, client), {})[checkpoint] = value
    table = [["client", "samples", *kept]]
    for (model, client), values in sorted(rows.items(), key=lambda row: (row[0][0] != row[0][1], row[0])):
        name = clients[client] if model == client else f"{clients[client]}, model of {clients[model]}"
        table.append([name, str(sizes[client]), *(number(values.get(rule)) for rule in kept)])
    mean = {} if record["status"] == "diverged" else means(record, metric)
    return [*table, ["mean of own models", "", *(number(mean.get(rule)) for rule in kept)]]


def _losses(record: Mapping[str, Any]) -> list[list[str]]:
    """Return a row per round: the weighted mean loss and each client's loss."""
    known = [loss for loss in record["aggregated"] if loss is not None]
    table = [["round", "all", *record["clients"]]]
    for round_, (mean, losses) in enumerate(zip(record["aggregated"], record["validation"], strict=True)):
        mark = "*" if known and mean == min(known) else ""
        table.append([str(round_), f"{number(mean)}{mark}", *map(number, losses)])
    return table


def _last(record: Mapping[str, Any], rounds: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Return a traced quantity after the last round: a row per client, one or several numbers each."""
    values = (value if isinstance(value, list) else [value] for value in rounds[-1])
    return [[client, *map(number, each)] for client, each in zip(record["clients"], values, strict=False)]
