"""An executor on a Ray cluster: an existing one, given by its address, or one that is started on this machine.

All machines need the same packages, but no shared folder and no raw data. Data are loaded here and put into Ray's
object store once; the workers of a machine read them from its memory without a copy. Records come back.
Ray retries nothing: a run batch whose worker dies is reported as lost, and the runner decides what to do.
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
from bench.sweep.cost import memory
from bench.sweep.executors.base import BatchResult, Progress, attempt, failure, throttled
from bench.sweep.plan import PlannedBatch
from bench.sweep.training import RecentCache, WorkerSettings, data_key, load
from bench.types import Federation, RunSpec, SilobenchError

if TYPE_CHECKING:
    import numpy as np
    from ray import ObjectRef
    from torch import Tensor

PER_GPU = 4  # run batches that share one GPU at most: small models leave most of it idle
DIED = "a worker or its machine died"
CONNECT_TIMEOUT = 10  # seconds


class RayExecutor:
    """Trains on a Ray cluster, one run batch per core, or per share of a GPU if the cluster has GPUs.

    A run batch also requests the memory that it needs, so that a machine gets as many as it can hold; one that needs
    more than any machine has requests all memory of the largest. Without an ``address`` a cluster is started on this
    machine, and stopped with the executor. At most ``workers`` run batches are in training at once; 0 means as many as
    the cluster has room for. Raise :class:`SilobenchError` if Ray is not installed or no cluster answers.
    """

    def __init__(self, address: str | None, worker: WorkerSettings, progress: Progress, workers: int = 0) -> None:
        try:
            import ray
        except ImportError:
            raise SilobenchError("--executor ray: the library ray is missing; pip install 'silobench[ray]'") from None
        if worker.snapshots is not None:
            worker.snapshots.mkdir(parents=True, exist_ok=True)
            worker = replace(worker, snapshots=worker.snapshots.absolute())  # workers have another working folder
        self.worker, self.workers, self._progress = worker, workers, progress
        self._ray, self._ours = ray, not ray.is_initialized()
        if self._ours:
            _connect(address, workers)
        gpus = self._count("GPU")
        self._per_gpu = min(PER_GPU, math.ceil((workers or self._count("CPU")) / gpus)) if gpus else None
        needs = {"num_cpus": 1, "num_gpus": 1 / self._per_gpu if self._per_gpu else 0}
        self._device = "GPU" if self._per_gpu else "CPU"  # the resource that a training machine must have
        self._train = partial(ray.remote(_in_worker).options, **needs, max_retries=0)
        self._board = self._here(_ProgressBoard).remote()
        self._news = self._board.take.remote()
        self._data: RecentCache[ObjectRef[Any]] = RecentCache()  # in the object store
        self._running: dict[ObjectRef[Any], tuple[PlannedBatch, int]] = {}  # with the memory requested, in bytes
        self._refused: list[BatchResult] = []

    def _here(self, kind: type) -> Any:
        """Return an actor class whose actors run on this machine and occupy no core."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        return self._ray.remote(kind).options(num_cpus=0, max_restarts=-1, scheduling_strategy=place)

    def _count(self, resource: str) -> int:
        """Return the current amount of a resource over all machines; machines may join and leave."""
        return int(self._ray.cluster_resources().get(resource, 0))

    def _memory(self) -> list[int]:
        """Return the memory of each machine that can train, in bytes."""
        resources = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return [int(each.get("memory", 0)) for each in resources if each.get(self._device)]

    @property
    def free(self) -> bool:
        """Whether another run batch can start; while there is no machine, one run batch may wait for it."""
        shares = self._count("GPU") * self._per_gpu if self._per_gpu else math.inf
        room = self.workers or max(1, min(self._count("CPU"), shares))
        # A run batch that waits for memory in Ray's queue is leased, so other commands that share the store cannot
        # train it, and it is still trained after a request to stop: queue as little as possible.
        return len(self._running) < room and sum(asked for _, asked in self._running.values()) <= sum(self._memory())

    def submit(self, run_batch: PlannedBatch) -> None:
        try:
            data = {data_key(run): self._data.get(run, self._put) for run in run_batch.first}
            _, federation = self._ray.get(next(iter(data.values())))
            needed = memory.bytes_needed(run_batch, federation)
        except Exception as error:
            self._refused.append(failure(run_batch, error))
        else:
            asked = min(needed, max(self._memory(), default=0))
            train = self._train(memory=asked)
            task = train.remote(run_batch, self.worker, self._board, list(data), *data.values())
            self._running[task] = run_batch, asked

    def _put(self, run: RunSpec) -> ObjectRef[Any]:
        federation = load(self.worker.root, run)
        with _as_arrays():
            return self._ray.put((_Adapter(run.data["name"]), federation))

    def finished(self, timeout: float) -> list[BatchResult]:
        self._report_progress()
        results, self._refused = self._refused, []
        if results or not self._running:
            return results
        self._cancel_oversized()
        running = list(self._running)
        if self._ray.wait(running, timeout=timeout)[0]:
            ended, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
            results = [self._result(each) for each in ended]
        return results

    def _cancel_oversized(self) -> None:
        """Cancel run batches that request more memory than any remaining machine has; Ray would let them wait."""
        largest = max(self._memory(), default=0)
        for task, (_, asked) in self._running.items():
            if asked > largest > 0:
                self._ray.cancel(task, force=True)

    def _report_progress(self) -> None:
        """Pass on what workers have posted since the last call."""
        if not self._ray.wait([self._news], timeout=0)[0]:
            return
        news: dict[str, tuple[int, int, float | None]] = {}
        with suppress(self._ray.exceptions.RayError):  # the board died; Ray restarts it
            news = self._ray.get(self._news)
        self._news = self._board.take.remote()
        for run_batch, _ in self._running.values():
            if run_batch.name in news:
                self._progress(run_batch.name, *news[run_batch.name])

    def _result(self, ended: ObjectRef[Any]) -> BatchResult:
        errors = self._ray.exceptions
        run_batch, _ = self._running.pop(ended)
        try:
            result: BatchResult = self._ray.get(ended)
        except errors.RayTaskError as error:  # raised before the training, which itself never raises
            cause = getattr(error.cause, "client_exc", error.cause)  # or raised while its data were unpacked
            if not isinstance(cause, Exception):
                return failure(run_batch, error)
            if not isinstance(cause, errors.RayError):
                cause.__cause__ = error  # keeps the worker's traceback
                return failure(run_batch, cause)
        except errors.OutOfMemoryError:
            return BatchResult(run_batch, error="out of memory", lost=True)
        except errors.RayError:
            pass
        else:
            return result
        return BatchResult(run_batch, error=DIED, lost=True)

    def close(self, *, now: bool = False) -> None:
        running = list(self._running)
        if now:
            for each in running:
                self._ray.cancel(each, force=True)
        elif running:
            self._ray.wait(running, num_returns=len(running))
        self._ray.kill(self._board)
        if self._ours:
            self._ray.shutdown()


def _connect(address: str | None, workers: int) -> None:
    """Join the cluster or start one here; keep the signal handler, which Ray would replace for SIGTERM."""
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
    """Raise an error if nothing listens at the address; Ray itself would try for minutes."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT).close()
    except (OSError, ValueError) as error:
        hint = "expected host:port of a running cluster (`ray start --head` prints it), or auto on one of its machines"
        raise SilobenchError(f"--address {address}: no Ray cluster answers there ({error}); {hint}") from None


@contextmanager
def _as_arrays() -> Iterator[None]:
    """Serialise tensors as arrays inside the block: Ray shares arrays without a copy, but would copy tensors."""
    import torch
    from ray.util import deregister_serializer, register_serializer

    register_serializer(torch.Tensor, serializer=torch.Tensor.numpy, deserializer=_tensor)
    try:
        yield
    finally:
        deregister_serializer(torch.Tensor)


class _Adapter:
    """Imports a data set's file where it is unpacked: the data that follow may refer to functions of that file."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return (registry.load, ("datasets", self.name)) if not self.name.startswith(flamby.PREFIX) else (str, ())


def _tensor(array: np.ndarray) -> Tensor:
    """Return a tensor in the array's memory, which other workers read too; it must not be written to."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(array)


# The rest runs in a worker ----------------------------------------------------------------------------------------


class _ProgressBoard:
    """The latest progress of each run batch: posted by workers, taken by the executor."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, int, float | None]] = {}

    def put(self, run_batch: str, finished: int, rounds: int, best: float | None) -> None:
        self._latest[run_batch] = finished, rounds, best

    def take(self) -> dict[str, tuple[int, int, float | None]]:
        latest, self._latest = self._latest, {}
        return latest


@dataclass(frozen=True)
class _WorkerWithData(WorkerSettings):
    """Settings of a worker that received its data together with the run batch."""

    federations: Mapping[str, Federation] = field(default_factory=dict)

    def federation(self, run: RunSpec) -> Federation:
        return self.federations[data_key(run)]


def _in_worker(
    run_batch: PlannedBatch, worker: WorkerSettings, board: Any, keys: Sequence[str], *data: tuple[Any, Federation]
) -> BatchResult:
    # Without a shared folder no other machine could continue from a snapshot.
    snapshots = worker.snapshots if worker.snapshots is not None and worker.snapshots.is_dir() else None
    federations = {key: federation for key, (_, federation) in zip(keys, data, strict=True)}
    own = _WorkerWithData(worker.root, snapshots, worker.every_rounds, worker.every_seconds, federations)
    return attempt(run_batch, own, throttled(partial(board.put.remote, run_batch.name)))
