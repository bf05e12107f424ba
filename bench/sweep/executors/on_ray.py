"""Run batches on a Ray cluster: an existing one, named by its address, or one of this machine alone.

All machines need the same packages, and nothing else: no shared folder and no raw data. Data are loaded here and put
into Ray's object store once; the workers of a machine read them from its memory without a copy. Records come back.
What dies is not tried again by Ray but reported as lost, so that the runner alone decides.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bench import registry
from bench.data import flamby
from bench.sweep import memory
from bench.sweep.executors.base import BatchResult, Progress, attempt, failure, throttled
from bench.sweep.plan import PlannedBatch
from bench.sweep.training import RecentCache, WorkerSettings, data_key, load
from bench.types import Federation, RunSpec, SilobenchError

if TYPE_CHECKING:
    import numpy as np
    from ray import ObjectRef
    from torch import Tensor

PER_GPU = 4  # run batches that share a GPU at most: small models leave most of one idle
DIED = "a worker or its machine died"


class RayExecutor:
    """Trains on a Ray cluster, one run batch for each core, or for each share of a GPU if the cluster has any.

    A run batch asks for the memory that it needs, too, so that a machine gets as many as it can hold; one that needs
    more than any machine has asks for all that the largest has. Without an ``address`` a cluster of this machine is
    started, and ended with the executor. At most ``workers`` run batches are in work at once, 0 for as many as the
    cluster has room for. Raises :class:`SilobenchError` where Ray is not installed or no cluster answers.
    """

    def __init__(self, address: str | None, site: WorkerSettings, progress: Progress, workers: int = 0) -> None:
        try:
            import ray
        except ImportError:
            raise SilobenchError("--executor ray needs the library ray: pip install 'silobench[ray]'") from None
        if site.snapshots is not None:
            site.snapshots.mkdir(parents=True, exist_ok=True)
            site = replace(site, snapshots=site.snapshots.absolute())  # workers have a working folder of their own
        self.site, self.workers, self._progress = site, workers, progress
        self._ray, self._ours = ray, not ray.is_initialized()
        if self._ours:
            _connect(address, workers)
        gpus = self._count("GPU")
        self._per_gpu = min(PER_GPU, math.ceil((workers or self._count("CPU")) / gpus)) if gpus else None
        needs = {"num_cpus": 1, "num_gpus": 1 / self._per_gpu if self._per_gpu else 0}
        self._where = "GPU" if self._per_gpu else "CPU"  # what a machine must have to train
        self._train = partial(ray.remote(_in_worker).options, **needs, max_retries=0)
        self._notes = self._here(_Notes).remote()
        self._news = self._notes.take.remote()
        self._data: RecentCache[ObjectRef[Any]] = RecentCache()  # in the object store
        self._running: dict[ObjectRef[Any], tuple[PlannedBatch, int]] = {}  # and the memory asked for, in bytes
        self._refused: list[BatchResult] = []

    def _here(self, kind: type) -> Any:
        """An actor class whose actors live on this machine, and use none of its cores."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        return self._ray.remote(kind).options(num_cpus=0, max_restarts=-1, scheduling_strategy=place)

    def _count(self, what: str) -> int:
        """What all machines have of it now: they come and go."""
        return int(self._ray.cluster_resources().get(what, 0))

    def _memory(self) -> list[int]:
        """What memory each machine has that can train."""
        resources = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return [int(each.get("memory", 0)) for each in resources if each.get(self._where)]

    @property
    def free(self) -> bool:
        """While there is no machine, one run batch waits for it."""
        shares = self._count("GPU") * self._per_gpu if self._per_gpu else math.inf
        room = self.workers or max(1, min(self._count("CPU"), shares))
        # What waits for memory at Ray is taken from other commands that share the store, and finished before a stop.
        return len(self._running) < room and sum(asked for _, asked in self._running.values()) <= sum(self._memory())

    def submit(self, run_batch: PlannedBatch) -> None:
        try:
            data = {data_key(run): self._data.of(run, self._put) for run in run_batch.first}
            _, federation = self._ray.get(next(iter(data.values())))
            needed = memory.needed(run_batch, federation)
        except Exception as error:
            self._refused.append(failure(run_batch, error))
        else:
            asked = min(needed, max(self._memory(), default=0))
            train = self._train(memory=asked)
            task = train.remote(run_batch, self.site, self._notes, list(data), *data.values())
            self._running[task] = run_batch, asked

    def _put(self, run: RunSpec) -> ObjectRef[Any]:
        federation = load(self.site.root, run)
        with _as_arrays():
            return self._ray.put((_Adapter(run.data["name"]), federation))

    def finished(self, timeout: float) -> list[BatchResult]:
        self._hear()
        done, self._refused = self._refused, []
        if done or not self._running:
            return done
        self._drop_hopeless()
        running = list(self._running)
        if self._ray.wait(running, timeout=timeout)[0]:
            ended, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
            done = [self._outcome(each) for each in ended]
        return done

    def _drop_hopeless(self) -> None:
        """Let go of what asks for more memory than is left since a machine died: nobody would ever train it."""
        largest = max(self._memory(), default=0)
        for task, (_, asked) in self._running.items():
            if asked > largest > 0:
                self._ray.cancel(task, force=True)

    def _hear(self) -> None:
        """Pass on what workers have told since last time."""
        if not self._ray.wait([self._news], timeout=0)[0]:
            return
        news: dict[str, tuple[int, int, float | None]] = {}
        with suppress(self._ray.exceptions.RayError):  # whoever keeps the notes died, and is started again
            news = self._ray.get(self._news)
        self._news = self._notes.take.remote()
        for run_batch, _ in self._running.values():
            if run_batch.name in news:
                self._progress(run_batch.name, *news[run_batch.name])

    def _outcome(self, ended: ObjectRef[Any]) -> BatchResult:
        errors = self._ray.exceptions
        run_batch, _ = self._running.pop(ended)
        try:
            done: BatchResult = self._ray.get(ended)
        except errors.RayTaskError as error:  # on the way to the training, which never raises
            cause = getattr(error.cause, "client_exc", error.cause)  # or what its data met when they were unpacked
            if not isinstance(cause, Exception):
                return failure(run_batch, error)
            if not isinstance(cause, errors.RayError):
                cause.__cause__ = error  # which knows the worker's traceback
                return failure(run_batch, cause)
        except errors.OutOfMemoryError:
            return BatchResult(run_batch, error="out of memory", lost=True)
        except errors.RayError:
            pass
        else:
            return done
        return BatchResult(run_batch, error=DIED, lost=True)

    def close(self, *, now: bool = False) -> None:
        running = list(self._running)
        if now:
            for each in running:
                self._ray.cancel(each, force=True)
        elif running:
            self._ray.wait(running, num_returns=len(running))
        self._ray.kill(self._notes)
        if self._ours:
            self._ray.shutdown()


def _connect(address: str | None, workers: int) -> None:
    """Join the cluster, or start one here; signals stay with whoever handles them now, Ray would take SIGTERM."""
    import ray

    if address is not None and ":" in address:
        _reach(address)
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address or "local", num_cpus=None if address else workers or os.cpu_count(), **common)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise SilobenchError(f"Ray at {address or 'this machine'}: {' '.join(str(error).split())}") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _reach(address: str) -> None:
    """Ray itself tries for minutes."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        hint = "expected host:port of a running cluster (`ray start --head` prints it), or auto on one of its machines"
        raise SilobenchError(f"--address {address}: no Ray cluster answers there ({error}); {hint}") from None


@contextmanager
def _as_arrays() -> Iterator[None]:
    """Until the block ends, tensors travel as arrays: these Ray hands out without a copy, tensors it would copy."""
    import torch
    from ray.util import deregister_serializer, register_serializer

    register_serializer(torch.Tensor, serializer=torch.Tensor.numpy, deserializer=_tensor)
    try:
        yield
    finally:
        deregister_serializer(torch.Tensor)


class _Adapter:
    """Loads the file of a data set where it arrives: functions of it may be part of the data that follow."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return (registry.load, ("datasets", self.name)) if not self.name.startswith(flamby.PREFIX) else (str, ())


def _tensor(array: np.ndarray) -> Tensor:
    """A tensor of the array's own memory, which others read, too, and nobody may write to."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(array)


# What follows runs in a worker ------------------------------------------------------------------------------------


class _Notes:
    """How far each run batch has come: told by workers, taken by the executor."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, int, float | None]] = {}

    def put(self, run_batch: str, finished: int, rounds: int, best: float | None) -> None:
        self._latest[run_batch] = finished, rounds, best

    def take(self) -> dict[str, tuple[int, int, float | None]]:
        latest, self._latest = self._latest, {}
        return latest


@dataclass(frozen=True)
class _Handed(WorkerSettings):
    """A site whose data came with the run batch."""

    federations: Mapping[str, Federation] = field(default_factory=dict)

    def federation(self, run: RunSpec) -> Federation:
        return self.federations[data_key(run)]


def _in_worker(
    run_batch: PlannedBatch, site: WorkerSettings, notes: Any, keys: Sequence[str], *data: tuple[Any, Federation]
) -> BatchResult:
    # Without a shared folder nothing could go on from a snapshot.
    snapshots = site.snapshots if site.snapshots is not None and site.snapshots.is_dir() else None
    federations = {key: federation for key, (_, federation) in zip(keys, data, strict=True)}
    handed = _Handed(site.root, snapshots, site.every_rounds, site.every_seconds, federations)
    return attempt(run_batch, handed, throttled(partial(notes.put.remote, run_batch.name)))
