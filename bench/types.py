"""Core types of federated learning: clients, federations, splits, budgets, runs and their outcomes.

A client holds n samples. Inputs ``x`` are (n, ...) float32. Targets ``y`` are (n, 1) float32 for a binary task, (n,)
int64 for a multi-class task, and one-hot masks (n, classes, ...) for segmentation. This module imports neither torch
nor other modules of silobench but the limits.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bench.limits import MAX_COUNT

if TYPE_CHECKING:
    from torch import Tensor

Task = Literal["binary", "multiclass", "segmentation"]
KNOWN_SHOWN = 12  # names in a hint
CHECKPOINTS = ("latest", "global", "local")
# Keys of a budget that were added after records existed. A default is left out of the record, so that hashes stay.
LATER_KEYS = ("draws", "last_batch", "schedule", "patience")


class SilobenchError(Exception):
    """An error that the user can fix. The message is one line: where, what is wrong, what was expected or what to do.

    ``status`` is the exit status of a command that ends with this error.
    """

    status: ClassVar[int] = 2


class DataError(SilobenchError):
    """A data set is missing, damaged, or not in the format that its adapter expects."""


class SpecError(SilobenchError):
    """A request (study file, command or call) asks for something unknown or something that cannot be run."""


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a hint for an unknown ``name``: the closest known one, or the first known ones if none is close."""
    known = sorted(known)
    close = difflib.get_close_matches(str(name), known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f" and {len(known) - KNOWN_SHOWN} more" if len(known) > KNOWN_SHOWN else ""
    return f"expected one of {', '.join(known[:KNOWN_SHOWN])}{more}"


def position(place: Sequence[int]) -> str:
    """Return the index of an array's entry in words, counting from 0."""
    row, *column = place
    return f"row {row}" + (f", column {', '.join(map(str, column))}" if column else "")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def content_hash(content: Mapping[str, Any]) -> str:
    """Return the first 16 hex digits of the SHA-256 of ``content``, written as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Split:
    """Samples of one client: inputs ``x`` (n, ...) and targets ``y`` (n, 1), (n,) or (n, classes, ...)."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Client:
    """One site. A client without test samples takes part in training and has no scores.

    ``validation`` holds samples that the data set fixes; without them a share of the training samples is held out for
    each seed. ``classes`` is the client's own number of classes, if clients of a multi-class task differ in it; its
    targets count from 0.
    """

    name: str
    train: Split
    test: Split | None = None
    validation: Split | None = None
    classes: int | None = None


@dataclass(frozen=True)
class Federation:
    """The clients of one task. Raises :class:`DataError` for arrays that cannot be trained on.

    ``metrics`` are names from :mod:`bench.metrics`; the first one is the main metric. ``synthetic`` federations are
    marked in the title of every table and figure. ``loss`` names the training loss and its constants, if it is not
    cross-entropy, e.g. {"name": "focal", "gamma": 2.0, "alpha": [...]}.

    ``prepare`` converts stored inputs to model inputs, (n, ...) -> (n, ...), for example bytes to normalised floats. In
    local steps ``augment(x, keys)`` is called instead, which also changes each sample at random, with one key per
    sample. ``embeddings`` (tokens, width) float32 are the initial vectors of models that look up tokens. Two
    federations with equal arrays and ``options`` must have equal ``prepare`` and ``augment``.

    ``from_arrays`` makes a federation of your own arrays, see :func:`bench.data.arrays.from_arrays`.
    """

    from_arrays: ClassVar[Callable[..., Federation]]  # assigned by bench.data, which knows how to convert arrays

    name: str
    clients: tuple[Client, ...]
    task: Task
    metrics: tuple[str, ...] = ("accuracy",)
    classes: int = 2
    synthetic: bool = False
    licence: str = ""
    citation: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    loss: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[Tensor], Tensor] | None = None
    augment: Callable[[Tensor, Tensor], Tensor] | None = None
    embeddings: Tensor | None = None

    def __post_init__(self) -> None:
        if not self.clients:
            raise DataError(f"{self.name}: a federation needs at least one client")
        names = [client.name for client in self.clients]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"{self.name}: client names must differ, {', '.join(twice)} occurs more than once")
        for client in self.clients:
            for part in ("train", "validation", "test"):
                split = getattr(client, part)
                if split is not None:
                    where = f"{self.name}: client {client.name!r}, {part}"
                    _check(where, split, self.task, client.classes or self.classes)
            if not len(client.train):
                raise DataError(f"{self.name}: client {client.name!r} has no training samples")

    @property
    def test_sizes(self) -> tuple[int, ...]:
        """The number of test samples of each client, 0 for a client without scores."""
        return tuple(len(client.test) if client.test else 0 for client in self.clients)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of names, shapes and bytes of all data that a run can see; every record holds it."""
        digest = hashlib.sha256(f"{self.name}|{self.task}|{self.classes}".encode())
        for client in self.clients:
            splits = (
                (client.train, client.test)
                if client.validation is None
                else (client.train, client.validation, client.test)
            )
            for split in splits:
                digest.update(f"|{client.name}".encode())
                for array in () if split is None else (split.x, split.y):
                    digest.update(f"|{tuple(array.shape)}|{array.dtype}|".encode())
                    digest.update(array.contiguous().numpy().data)
        if self.embeddings is not None:
            digest.update(f"|embeddings|{tuple(self.embeddings.shape)}|".encode())
            digest.update(self.embeddings.contiguous().numpy().data)
        return digest.hexdigest()


def _check(where: str, split: Split, task: Task, classes: int) -> None:
    """Raise :class:`DataError` for unequal lengths, NaN or infinite inputs, and targets outside the task."""
    if len(split.x) != len(split.y):
        raise DataError(
            f"{where}: {len(split.x)} inputs but {len(split.y)} targets; there must be one target per input"
        )
    if split.x.is_floating_point() and not bool(split.x.isfinite().all()):
        place = (~split.x.isfinite()).nonzero()[0].tolist()
        value = split.x[tuple(place)].item()
        raise DataError(f"{where}: x is {value} in {position(place)}; drop or impute such rows first")
    if task == "binary":
        ok = split.y.shape == (len(split.x), 1) and bool(((split.y == 0) | (split.y == 1)).all())
        expected = "(n, 1) with values 0 and 1"
    elif task == "segmentation":
        ok = split.y.dim() == split.x.dim() and split.y.shape[2:] == split.x.shape[2:]
        expected = "one-hot masks (n, classes, ...) of the inputs' size"
    else:
        ok = split.y.dim() == 1 and bool(((split.y >= 0) & (split.y < classes)).all())
        expected = f"(n,) with class numbers 0 to {classes - 1}"
    if not ok:
        values = f" with values {split.y.min():g} to {split.y.max():g}" if split.y.numel() else ""
        found = f"{tuple(split.y.shape)}{values}"
        raise DataError(f"{where}: targets of a {task} task must be {expected}, found {found}")


def described(text: str, **more: Any) -> Any:
    """Return a field of a dataclass with a description; ``more`` are the arguments of ``dataclasses.field``."""
    return field(metadata={"description": text}, **more)


@dataclass(frozen=True)
class Budget:
    """Length and kind of training; exactly one of ``local_steps`` and ``local_epochs`` is set.

    The fields are also the keys of ``[budget]`` in a study file. Raises :class:`SpecError` for a value no run can have.
    """

    rounds: int = described("Number of rounds.")
    local_steps: int | None = described("Local steps of a client in a round.", default=None)
    local_epochs: int | None = described("Local epochs of a client in a round, in place of local steps.", default=None)
    batch_size: int | Literal["full"] = described(
        'Samples in a mini-batch; "full" takes all training samples of the client in every step.', default=32
    )
    optimizer: Literal["adamw", "sgd"] = described("Optimiser of the clients.", default="sgd")
    validation: float = described("Share of each client's training samples held out, rounded down.", default=0.2)
    batches: int | None = described(
        "Mini-batches in an epoch of every client, floor(n / batches) samples each, in place of the batch size; the "
        "rest is dropped.",
        default=None,
    )
    optimizer_state: Literal["keep", "reset"] = described(
        "Whether optimisers keep their state (moments, momentum) over rounds or reset it at the start of each.",
        default="keep",
    )
    evaluate: Literal["aggregated", "trained"] = described(
        "Model of a round that is validated, kept and tested: after aggregation, or as local training left it.",
        default="aggregated",
    )
    test_every: int = described(
        "Rounds between the points of learning curves on test samples, which select nothing; 0 for no curves.",
        default=0,
    )
    draws: Literal["keyed", "torch"] = described(
        'Random numbers: "keyed" by seed and purpose, or drawn as a "torch" script with this seed draws them, which '
        "needs batches and one local epoch.",
        default="keyed",
    )
    last_batch: Literal["keep", "drop", "merge"] = described(
        "What to do with a last mini-batch smaller than the batch size: keep it, drop it, or merge it with the one "
        "before. Batch-norm cannot train on a mini-batch of one sample.",
        default="keep",
    )
    schedule: Literal["constant", "step", "exponential", "cosine"] = described(
        "Schedule of the learning rate, see below; its options are hyper-parameters. Without the option `lr_decay`, an "
        "exponential schedule is constant.",
        default="exponential",
    )
    patience: int = described(
        "Rounds without a lower aggregated validation loss after which a run stops early; 0 to train all rounds.",
        default=0,
    )

    def __post_init__(self) -> None:
        optional = ("local_steps", "local_epochs", "batches")
        for key in ("rounds", "batch_size", *optional):
            value = getattr(self, key)
            if (value is None and key in optional) or (key == "batch_size" and value == "full"):
                continue
            if not _whole(value) or not 1 <= value <= MAX_COUNT:
                or_full = ', or "full"' if key == "batch_size" else ""
                raise SpecError(f"{key} = {value!r}: expected a whole number from 1 to {MAX_COUNT:,}{or_full}")
        if (self.local_steps is None) == (self.local_epochs is None):
            raise SpecError("give exactly one of local_steps and local_epochs")
        for key, known in (
            ("optimizer", ("adamw", "sgd")),
            ("optimizer_state", ("keep", "reset")),
            ("evaluate", ("aggregated", "trained")),
            ("draws", ("keyed", "torch")),
            ("last_batch", ("keep", "drop", "merge")),
            ("schedule", ("constant", "step", "exponential", "cosine")),
        ):
            if (value := getattr(self, key)) not in known:
                raise SpecError(f"{key} = {value!r}: {nearest(value, known)}")
        share = self.validation
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise SpecError(f"validation = {share!r}: expected a share of at least 0 and below 1")
        if not _whole(self.test_every) or not 0 <= self.test_every <= MAX_COUNT:
            expected = f"a whole number of rounds up to {MAX_COUNT:,}, or 0 for no curves"
            raise SpecError(f"test_every = {self.test_every!r}: expected {expected}")
        if not _whole(self.patience) or not 0 <= self.patience <= MAX_COUNT:
            expected = f"a whole number of rounds up to {MAX_COUNT:,}, or 0 to train all rounds"
            raise SpecError(f"patience = {self.patience!r}: expected {expected}")
        if self.patience and self.schedule == "cosine":
            what = "the cosine schedule depends on the number of rounds, which early stopping shortens"
            raise SpecError(f"patience = {self.patience!r}: {what}; use another schedule, or leave patience out")
        if self.draws == "torch" and (self.batches is None or self.local_epochs != 1):
            raise SpecError('draws = "torch" follows a loop over epochs; give batches and local_epochs = 1')
        if self.last_batch != "keep" and self.batches is not None:
            raise SpecError(f"last_batch = {self.last_batch!r}: batches already drops the rest; leave last_batch out")

    def working(self, *, steps: int | None = None, epochs: int | None = None) -> Budget:
        """Return the budget with other local work in a round; its mini-batches are keyed, as no script draws them."""
        return replace(self, local_steps=steps, local_epochs=epochs, draws="keyed")

    @property
    def tested(self) -> tuple[int, ...]:
        """The numbers of rounds after which learning curves have a point."""
        if not self.test_every:
            return ()
        return (*range(self.test_every, self.rounds, self.test_every), self.rounds)


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides the numbers of one run; its hash names the run's record.

    ``hyperparameters`` holds all hyper-parameters of the algorithm and the optimiser, defaults included.
    """

    data: Mapping[str, Any]  # name, options, fingerprint
    algorithm: Mapping[str, Any]  # name, options
    model: Mapping[str, Any]  # name, options
    hyperparameters: Mapping[str, float]
    budget: Budget
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain containers, as written into the record."""
        # asdict would copy the options that ten thousand runs share.
        budget = {
            each.name: value
            for each in fields(Budget)
            if (value := getattr(self.budget, each.name)) != each.default or each.name not in LATER_KEYS
        }
        return {
            "data": self.data,
            "algorithm": self.algorithm,
            "model": self.model,
            "hyperparameters": self.hyperparameters,
            "budget": budget,
            "seed": self.seed,
        }

    @cached_property
    def hash(self) -> str:
        return content_hash(self.as_dict())


@dataclass(frozen=True)
class Outcome:
    """The results of one finished or diverged run, as plain numbers that JSON can hold.

    ``scores`` holds (checkpoint, model, client, metric, value): the personal model of client number ``model``, tested
    on client number ``client``; ``value`` is None if the metric is undefined or the run diverged. ``validation`` holds
    each client's validation loss after each round, and ``aggregated`` their mean weighted by the numbers of validation
    samples. ``communication`` is the number of floats that a client uploads ("up") and downloads ("down") in a round,
    mean over clients and rounds. ``client_parameters`` is the number of trained weights of each client's model.

    ``curves`` holds {"rounds": [...], "scores": {metric: [[value of each client] at each point]}}, the scores of each
    client's own model (the common model of a pooled algorithm) on its test samples; it is empty without
    ``Budget.test_every``. ``traces`` holds the traced quantities, {name: [[number or list of each client] of each
    round]}. Nothing is selected by either. ``untuned`` is the aggregated loss of the last round without the tuning that
    only this round has; a longer run would have it in this round. ``stopped`` is the number of rounds after which early
    stopping ended the run, None if it trained all rounds.
    """

    hyperparameters: Mapping[str, float]
    seed: int
    status: Literal["finished", "diverged"]
    diverged: Mapping[str, Any] | None  # {"round", "client", "what"} of the first bad number
    scores: tuple[tuple[str, int, int, str, float | None], ...]
    validation: tuple[tuple[float | None, ...], ...]
    aggregated: tuple[float | None, ...]
    communication: Mapping[str, float]
    client_parameters: tuple[int, ...]
    path: Literal["stack", "loop"]
    curves: Mapping[str, Any] = field(default_factory=dict)
    traces: Mapping[str, Any] = field(default_factory=dict)
    untuned: float | None = None
    stopped: int | None = None

    @property
    def parameters(self) -> int:
        """The number of trained weights of the first client's model."""
        return self.client_parameters[0]


@dataclass(frozen=True)
class Chosen:
    """The setting that a selection rule has selected for one method of a study, with the record of each seed.

    ``records`` are dictionaries of the store (:mod:`bench.sweep.store`), one per seed in the order of seeds, None for a
    missing run. ``settings`` is the number of settings searched, ``loss`` the value that the rule minimised.
    """

    method: str
    rule: str
    hyperparameters: Mapping[str, float]
    records: tuple[Mapping[str, Any] | None, ...]
    seeds: tuple[int, ...]
    settings: int
    loss: float | None
