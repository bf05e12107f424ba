"""A table from records: one row per method, one cell per checkpoint rule, the printed number beside ours.

A cell is the mean over clients in each run, then the mean over runs, as FENDA-FL's results are averaged. Metrics are
read as "higher is better".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from bench.report import compare, stats
from bench.types import CHECKPOINTS, Chosen, SpecError, nearest

if TYPE_CHECKING:
    import pandas as pd

Record = Mapping[str, Any]
HEADINGS = {"latest": "Latest", "global": "Server (global)", "local": "Local"}
COLUMNS = ["table", "dataset", "metric", "method", "checkpoint", "client"]
COLUMNS += ["mean", "ci95", "n_seeds", "printed", "printed_ci95", "verdict"]


@dataclass(frozen=True)
class Row:
    """One line of a table: ``method`` as printed, made from the chosen setting named ``of``.

    ``score`` "own" tests client i's model on client i (the one model of a pooled run on every client); "model 0" tests
    client 0's model on every client.
    """

    method: str
    of: str
    score: str = "own"
    checkpoints: tuple[str, ...] = ("global", "local")

    def __post_init__(self) -> None:
        kind, _, number = self.score.partition(" ")
        if self.score != "own" and not (kind == "model" and number.isdecimal()):
            raise SpecError(f'row {self.method}: score = {self.score!r}: expected "own" or "model <client number>"')
        for checkpoint in self.checkpoints:
            if checkpoint not in CHECKPOINTS:
                raise SpecError(f"row {self.method}: checkpoint {checkpoint!r}: {nearest(checkpoint, CHECKPOINTS)}")
        if not self.checkpoints:
            raise SpecError(f"row {self.method}: checkpoints is empty; name some of {', '.join(CHECKPOINTS)}")

    @property
    def model(self) -> int | None:
        """The one client whose model is tested everywhere; None for "own"."""
        return None if self.score == "own" else int(self.score.split()[1])


@dataclass(frozen=True)
class TableSpec:
    """What a table shows. ``silo`` names the row others are held against, ``baselines`` those never given an asterisk.

    ``ranks`` adds rank tests over the clients; ``digits`` are the decimals shown (csv keeps them all). ``one_run``
    says that each printed number is of a single run, whatever the paper says of repetitions: it is then held against
    the interval in which one further run of ours would fall.
    """

    id: str
    title: str
    dataset: str
    metric: str
    rows: tuple[Row, ...]
    silo: str | None = "Silo"
    baselines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ranks: bool = False
    digits: int = 3
    one_run: bool = False

    def __post_init__(self) -> None:
        names = [row.method for row in self.rows]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not names or twice:
            fault = f"row {twice[0]!r} stands twice" if twice else "no rows"
            raise SpecError(f"table {self.id}: {fault}; give one row for each method")
        for baseline in self.baselines:
            if baseline not in names:
                raise SpecError(f"table {self.id}: baselines: no row {baseline!r}: {nearest(baseline, names)}")


@dataclass(frozen=True)
class Cell:
    """One number or the reason why there is none.

    ``client`` is "all" or a client number. ``mean`` is None unless every run finished; ``state`` then says what went
    wrong and ``note`` how often ("diverged 1/5"). ``ci95`` and ``normal95`` are the radii of the t and the normal
    interval, None for a single run. ``n_seeds`` counts the runs behind the mean.
    """

    method: str
    checkpoint: str
    client: str = "all"
    mean: float | None = None
    ci95: float | None = None
    normal95: float | None = None
    n_seeds: int = 0
    state: Literal["", "missing", "diverged", "undefined", "not scored"] = ""
    note: str = ""
    above_silo: bool = False
    printed: float | None = None
    printed_ci95: float | None = None
    printed_above_silo: bool = False
    verdict: str = ""


@dataclass(frozen=True)
class Table:
    """The cells of a :class:`TableSpec` in row order, each "all" cell followed by those of the single clients.

    ``foot`` says how the numbers came about, ``clients`` are the names behind the client numbers.
    """

    spec: TableSpec
    cells: tuple[Cell, ...]
    clients: tuple[str, ...]
    synthetic: bool
    foot: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The spec's title, marked where any record comes from a synthetic stand-in."""
        return titled(self.spec.title, self.synthetic)

    def cell(self, method: str, checkpoint: str, client: str = "all") -> Cell | None:
        """The cell at this place; None where the row does not show the checkpoint."""
        wanted = (method, checkpoint, client)
        return next((cell for cell in self.cells if (cell.method, cell.checkpoint, cell.client) == wanted), None)

    @property
    def overall(self) -> tuple[Cell, ...]:
        """The cells over all clients."""
        return tuple(cell for cell in self.cells if cell.client == "all")

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoint rules shown by any row, in the order latest, global, local."""
        shown = {cell.checkpoint for cell in self.cells}
        return tuple(checkpoint for checkpoint in CHECKPOINTS if checkpoint in shown)

    @property
    def incomplete(self) -> tuple[Cell, ...]:
        """Cells over all clients without a number because of missing or diverged runs."""
        return tuple(cell for cell in self.overall if cell.state in ("missing", "diverged"))

    def frame(self) -> pd.DataFrame:
        """All cells, unrounded, in the columns of the csv."""
        import pandas as pd

        shared = {"table": self.spec.id, "dataset": self.spec.dataset, "metric": self.spec.metric}
        return pd.DataFrame([shared | asdict(cell) for cell in self.cells], columns=COLUMNS)


def build(spec: TableSpec, chosen: Mapping[str, Chosen], printed: Iterable[Mapping[str, Any]] = ()) -> Table:
    """The table of ``chosen`` settings by method key, beside ``printed`` numbers {method, checkpoint, value, ci95}.

    Raises :class:`SpecError` for a row whose method was not chosen, a score the records do not hold, records of
    different clients, and a printed number that belongs to no cell.
    """
    for row in spec.rows:
        if row.of not in chosen:
            hint = nearest(row.of, chosen)
            raise SpecError(f"table {spec.id}: row {row.method}: nothing chosen for {row.of!r}: {hint}")
    used = {row.of: chosen[row.of] for row in spec.rows}
    records = [record for choice in used.values() for record in choice.records if record is not None]
    clients, unscored = _clients(spec, records)
    cells: list[Cell] = []
    for row in spec.rows:
        for checkpoint in row.checkpoints:
            cells += _cells(spec, row, checkpoint, chosen[row.of], len(clients), unscored)
    cells = compare.judge(spec, _beside(spec, cells, printed))
    synthetic = any(record["synthetic"] for record in records)
    table = Table(spec, tuple(cells), clients, synthetic)
    made = (*_made(spec, used, clients, unscored), *_undefined(spec, used, clients))
    return replace(table, foot=(*made, *compare.remarks(table), *spec.notes))


def titled(title: str, synthetic: bool) -> str:
    """``title``, saying SYNTHETIC when it stands over numbers from a synthetic stand-in."""
    return f"SYNTHETIC DATA: {title}" if synthetic else title


def client_scores(record: Record, metric: str, checkpoint: str, model: int | None = None) -> dict[int, float | None]:
    """Scores by client of each client's own model, or of client ``model``'s everywhere; None where undefined.

    A pooled run has one model only, which is everybody's own. Raises :class:`SpecError` when the record holds no such
    score.
    """
    models = {scored for _, scored, _, _, _ in record["scores"]}
    if model is None and len(models) == 1:
        (model,) = models
    found = {
        client: value
        for rule, scored, client, name, value in record["scores"]
        if (rule, name) == (checkpoint, metric) and scored == (client if model is None else model)
    }
    if not found:
        have = sorted({f"{rule} {name}" for rule, _, _, name, _ in record["scores"]})
        whose = "each client's own model" if model is None else f"model {model}"
        raise SpecError(f"record {record['run']}: no {checkpoint} {metric} of {whose}; it holds {', '.join(have)}")
    return found


def run_mean(record: Record | None, metric: str, checkpoint: str, model: int | None = None) -> float | None:
    """The mean over the clients on which the metric is defined; None without any, and for a missing or diverged run."""
    if record is None or record["status"] == "diverged":
        return None
    defined = stats.defined(client_scores(record, metric, checkpoint, model).values())
    return stats.mean(defined) if defined else None


def _clients(spec: TableSpec, records: Sequence[Record]) -> tuple[tuple[str, ...], frozenset[int]]:
    """The names of the clients, and the numbers of those without test samples."""
    seen = {(tuple(record["clients"]), tuple(record["test_sizes"])) for record in records}
    if len(seen) > 1:
        one, other = sorted(seen, key=str)[:2]
        raise SpecError(f"table {spec.id}: records of different clients or test sizes: {one} and {other}")
    names, sizes = next(iter(seen), ((), ()))
    return names, frozenset(number for number, size in enumerate(sizes) if not size)


def _cells(
    spec: TableSpec, row: Row, checkpoint: str, choice: Chosen, clients: int, unscored: frozenset[int]
) -> list[Cell]:
    """The cell over all clients, then one for each client."""
    names = ["all", *map(str, range(clients))]
    runs = len(choice.records)
    missing = sum(record is None for record in choice.records)
    records = [record for record in choice.records if record is not None]
    diverged = sum(record["status"] == "diverged" for record in records)
    if missing or diverged:
        counts = (("missing", missing), ("diverged", diverged))
        note = ", ".join(f"{what} {count}/{runs}" for what, count in counts if count)
        empty = Cell(row.method, checkpoint, state="missing" if missing else "diverged", note=note)
        return [replace(empty, client=name) for name in names]
    overall = [run_mean(record, spec.metric, checkpoint, row.model) for record in records]
    cells = [_cell(row, checkpoint, "all", overall)]
    scores = [client_scores(record, spec.metric, checkpoint, row.model) for record in records]
    for number in range(clients):
        if number in unscored:
            cells.append(Cell(row.method, checkpoint, str(number), state="not scored", note="not scored"))
            continue
        if any(number not in score for score in scores):
            place = f"{checkpoint} {spec.metric} on client {number}"
            raise SpecError(f"row {row.method}: score = {row.score!r}: the records hold no {place}")
        cells.append(_cell(row, checkpoint, str(number), [score[number] for score in scores]))
    return cells


def _cell(row: Row, checkpoint: str, client: str, values: Sequence[float | None]) -> Cell:
    """Mean and radii over the runs in which the metric is defined."""
    defined = stats.defined(values)
    if not defined:
        return Cell(row.method, checkpoint, client, state="undefined", note="undefined")
    return Cell(
        row.method,
        checkpoint,
        client,
        mean=stats.mean(defined),
        ci95=stats.t_radius(defined),
        normal95=stats.normal_radius(defined),
        n_seeds=len(defined),
    )


def _beside(spec: TableSpec, cells: Sequence[Cell], printed: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """``cells`` with the printed numbers put beside those over all clients."""
    known = {(cell.method, cell.checkpoint): f"{cell.method} {cell.checkpoint}" for cell in cells}
    numbers: dict[tuple[str, str], Mapping[str, Any]] = {}
    for entry in printed:
        place = (entry["method"], entry["checkpoint"])
        if place in numbers:
            raise SpecError(f"table {spec.id}: two printed numbers for {' '.join(place)!r}; keep one")
        if place not in known:
            hint = nearest(" ".join(place), known.values())
            raise SpecError(f"table {spec.id}: printed number for {' '.join(place)!r} has no cell: {hint}")
        numbers[place] = entry
    return [
        replace(cell, printed=number["value"], printed_ci95=number["ci95"])
        if cell.client == "all" and (number := numbers.get((cell.method, cell.checkpoint)))
        else cell
        for cell in cells
    ]


def _made(
    spec: TableSpec, used: Mapping[str, Chosen], clients: Sequence[str], unscored: frozenset[int]
) -> Iterable[str]:
    """How the numbers were chosen, averaged and spread."""
    names = {row.of: row.method for row in reversed(spec.rows)}
    rules = sorted({choice.rule for choice in used.values()})
    common = set.intersection(*(set(choice.hyperparameters.items()) for choice in used.values()))
    everywhere = f", all with {_settings(common).rstrip()}" if common else ""
    settings = (
        f"{names[key]} {_settings(set(choice.hyperparameters.items()) - common)}({choice.settings} searched)"
        for key, choice in used.items()
    )
    yield f"Selection rule: {', '.join(rules)}. Chosen settings{everywhere}: {'; '.join(settings)}."
    travels = [
        f"{names[key]} {' / '.join(f'{_travelled(choice, way):,.0f}' for way in ('up', 'down'))}"
        for key, choice in used.items()
        if any(choice.records)
    ]
    yield f"Travels (floats up / down, each client and round): {'; '.join(travels)}."
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for key, choice in used.items():
        by_seeds.setdefault(choice.seeds, []).append(names[key])
    for seeds, methods in by_seeds.items():
        whose = f" ({', '.join(methods)})" if len(by_seeds) > 1 else ""
        yield f"Seeds{whose}: {', '.join(map(str, seeds))}."
    yield f"Averaging: {spec.metric}, mean over clients in each run, then mean over runs."
    for runs in sorted({len(choice.seeds) for choice in used.values()}):
        if runs < 2:
            yield "Spread: none, an interval needs at least two runs."
        else:
            yield (
                f"Spread: ± is the radius of the 95 % t interval over {runs} runs ({runs - 1} degrees of freedom); "
                f"the radius of a normal interval is {stats.normal_share(runs):.3f} times that."
            )
    if unscored:
        yield f"Not scored, for want of test samples: {', '.join(clients[number] for number in sorted(unscored))}."


def _travelled(choice: Chosen, way: str) -> float:
    return stats.mean([record["communication"][way] for record in choice.records if record is not None])


def _settings(values: Collection[tuple[str, float]]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in sorted(values)) + " " * bool(values)


def _undefined(spec: TableSpec, used: Mapping[str, Chosen], clients: Sequence[str]) -> Iterable[str]:
    """Where the metric could not be computed, with the number of scores left out."""
    scores: dict[int, list[float | None]] = {}
    for row in spec.rows:
        for finished in (run for run in used[row.of].records if run and run["status"] == "finished"):
            for checkpoint in row.checkpoints:
                for client, score in client_scores(finished, spec.metric, checkpoint, row.model).items():
                    scores.setdefault(client, []).append(score)
    for client, values in sorted(scores.items()):
        if None in values:
            count = f"{values.count(None)} of {len(values)} scores"
            yield f"{spec.metric} is undefined on {clients[client]} in {count}; left out of the means."
