"""The words of the field as small frozen types; this file imports nothing of ours, and torch only when asked to.

Sizes: a client holds ``n`` samples; ``x`` is (n, ...) float32 and ``y`` is (n, 1) float32 for a binary task
or (n,) int64 for a multi-class task.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from torch import Tensor

Task = Literal["binary", "multiclass", "segmentation"]
CHECKPOINTS = ("latest", "global", "local")


class SilobenchError(Exception):
    """Something the user can mend. The message is one line: what, where, what was expected, what to do.

    ``status`` is the exit status of a command that it ends.
    """

    status: ClassVar[int] = 2


class DataError(SilobenchError):
    """A data set is missing, damaged or not what its adapter expects."""


class SpecError(SilobenchError):
    """A request (spec file, command or call) names or asks for something that cannot be run."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown ``name``: the closest known one, or the whole list when none is close."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def position(place: Sequence[int]) -> str:
    """The index of an array's entry in words, counting from 0."""
    row, *column = place
    return f"row {row}" + (f", column {', '.join(map(str, column))}" if column else "")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def content_hash(content: Mapping[str, Any]) -> str:
    """The first 16 hex digits of the SHA-256 of ``content`` written as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Split:
    """Samples of one client: inputs ``x`` (n, ...) and targets ``y`` (n, 1) or (n,)."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Client:
    """One site. A client without test samples trains and is shown as not scored.

    ``validation`` are samples fixed by the data set; without them a share of the training samples is held out for
    each seed. ``classes`` is the client's own number of classes where clients of a multi-class task differ; its
    targets count from 0.
    """

    name: str
    train: Split
    test: Split | None = None
    validation: Split | None = None
    classes: int | None = None


@dataclass(frozen=True)
class Federation:
    """The clients of one task, ready to train on; raises :class:`DataError` when the arrays cannot be used.

    ``metrics`` are names known to :mod:`bench.metrics`, the first one is the task's own.
    ``synthetic`` federations say so in the title of every table and figure made from them. ``loss`` names the
    training loss and its constants where it is not the task's cross-entropy, e.g. {"name": "focal", "gamma": 2.0,
    "alpha": [...]}. ``prepare`` turns stored inputs into what the model sees, (n, ...) -> (n, ...) (bytes to
    normalised floats, say); in local steps ``augment(x, keys)`` takes its place, which also changes them at random, one
    key per sample.
    ``embeddings`` (tokens, width) float32 are the vectors that models begin from which look up the tokens ``x``.
    Two federations with equal arrays and ``options`` must have equal ``prepare`` and ``augment``.
    """

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
            raise DataError(f"{self.name}: client names must differ, {', '.join(twice)} stands more than once")
        for client in self.clients:
            for part in ("train", "validation", "test"):
                split = getattr(client, part)
                if split is not None:
                    where = f"{self.name}: client {client.name!r}, {part}"
                    _check(where, split, self.task, client.classes or self.classes)
            if not len(client.train):
                raise DataError(f"{self.name}: client {client.name!r} has no training samples")

    @classmethod
    def from_arrays(
        cls,
        clients: Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]],
        *,
        name: str = "own_data",
        task: Task | None = None,
        metrics: Sequence[str] = ("accuracy",),
        synthetic: bool = False,
    ) -> Federation:
        """A federation of your own arrays.

        ``clients`` maps a client's name to ``{"x", "y"}`` or ``{"train": (x, y), "test": (x, y)}``
        (arrays, tensors or nested lists); a plain sequence of such mappings names the clients 0, 1, ....
        The task is binary when every target is 0 or 1, multi-class when targets are class numbers from 0.
        """
        from bench.data.arrays import federation_from_arrays

        return federation_from_arrays(clients, name=name, task=task, metrics=tuple(metrics), synthetic=synthetic)

    @property
    def test_sizes(self) -> tuple[int, ...]:
        """How many test samples each client has, 0 for one that is not scored."""
        return tuple(len(client.test) if client.test else 0 for client in self.clients)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over names, shapes and bytes of everything a run can see; it stands in every record."""
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
    """Refuse samples that would poison a run: ragged, NaN, infinite, or targets outside the task."""
    import torch

    if len(split.x) != len(split.y):
        raise DataError(f"{where}: {len(split.x)} inputs but {len(split.y)} targets; they must be as many")
    if split.x.is_floating_point() and not bool(torch.isfinite(split.x).all()):
        place = torch.nonzero(~torch.isfinite(split.x))[0].tolist()
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
    """Return a field of a dataclass with a description; ``more`` are the arguments of :func:`dataclasses.field`."""
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

    def __post_init__(self) -> None:
        optional = ("local_steps", "local_epochs", "batches")
        for key in ("rounds", "batch_size", *optional):
            value = getattr(self, key)
            if (value is None and key in optional) or (key == "batch_size" and value == "full"):
                continue
            if not _whole(value) or value < 1:
                or_full = ', or "full"' if key == "batch_size" else ""
                raise SpecError(f"{key} = {value!r}: expected a whole number of at least 1{or_full}")
        if (self.local_steps is None) == (self.local_epochs is None):
            raise SpecError("give exactly one of local_steps and local_epochs")
        for key, known in (
            ("optimizer", ("adamw", "sgd")),
            ("optimizer_state", ("keep", "reset")),
            ("evaluate", ("aggregated", "trained")),
            ("draws", ("keyed", "torch")),
        ):
            if (value := getattr(self, key)) not in known:
                raise SpecError(f"{key} = {value!r}: {nearest(str(value), known)}")
        share = self.validation
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise SpecError(f"validation = {share!r}: expected a share of at least 0 and below 1")
        if not _whole(self.test_every) or self.test_every < 0:
            raise SpecError(f"test_every = {self.test_every!r}: expected a whole number of rounds, or 0 for no curves")
        if self.draws == "torch" and (self.batches is None or self.local_epochs != 1):
            raise SpecError('draws = "torch" follows a loop over epochs; give batches and local_epochs = 1')

    def working(self, *, steps: int | None = None, epochs: int | None = None) -> Budget:
        """The budget with other local work in a round; its mini-batches are keyed, for no script draws them."""
        return replace(self, local_steps=steps, local_epochs=epochs, draws="keyed")

    @property
    def tested(self) -> tuple[int, ...]:
        """After how many rounds the learning curves have their points."""
        if not self.test_every:
            return ()
        return (*range(self.test_every, self.rounds, self.test_every), self.rounds)


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides one run's numbers; its hash names the run's record.

    ``hyperparameters`` holds every per-run number that reached the algorithm or the optimiser, defaults included.
    """

    data: Mapping[str, Any]  # name, options, fingerprint
    algorithm: Mapping[str, Any]  # name, options
    model: Mapping[str, Any]  # name, options
    hyperparameters: Mapping[str, float]
    budget: Budget
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Plain containers, as written into the record."""
        # asdict would copy every option of ten thousand runs that share them, and look for more within every number.
        budget = dict(vars(self.budget))
        if self.budget.draws == "keyed":
            # Younger than the records: left out, so that a run keeps the name that it has had.
            del budget["draws"]
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
    """What one finished (or diverged) run measured; plain numbers only, so that it can be written as JSON.

    ``scores`` holds (checkpoint, model, client, metric, value): the model that client number ``model`` ended
    with, tested on client number ``client``; ``value`` is None where the metric is undefined or the run diverged.
    ``validation`` is, per round, each client's validation loss; ``aggregated`` their mean weighted by the number
    of validation samples. ``communication`` counts the floats one client sends ("up") and receives ("down") a round,
    the mean over clients and rounds. ``client_parameters`` are the trained numbers of each client's model.

    ``curves`` holds {"rounds": [...], "scores": {metric: [[value of each client] at each point]}}: each client's own
    model (a pooled one: the model of all) on the client's test samples, after so many rounds; empty without
    ``Budget.test_every``. ``traces`` holds what an algorithm watches, {name: [[number or list of each client] of each
    round]}. Neither decides anything. ``untuned`` is the aggregated loss of the last round before a tuning that no
    other round has: what a longer run would have had there.
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

    @property
    def parameters(self) -> int:
        """The trained numbers of the first client's model."""
        return self.client_parameters[0]


@dataclass(frozen=True)
class Chosen:
    """The setting a selection rule picked for one method of a study, with the record of each of its seeds.

    ``records`` are the dictionaries of the store (see :mod:`bench.sweep.store`), one per seed in seed order,
    None where a run is missing. ``settings`` counts the settings searched, ``loss`` is what the rule minimised.
    """

    method: str
    rule: str
    hyperparameters: Mapping[str, float]
    records: tuple[Mapping[str, Any] | None, ...]
    seeds: tuple[int, ...]
    settings: int
    loss: float | None
