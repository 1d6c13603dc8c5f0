"""Batches on their way to the device: made one ahead in a thread where a GPU would else wait for them."""

import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

Batch = TypeVar("Batch")


def moved(batch: Any, device: torch.device) -> Any:
    """Every tensor in a batch on the device: in lists, tuples, mappings and dataclasses, however deep."""
    if isinstance(batch, Tensor):
        if batch.device == device:
            return batch
        # From pinned memory the copy is queued like any other work, and nothing waits for it.
        pin = device.type == "cuda" and batch.device.type == "cpu"
        return (batch.pin_memory() if pin else batch).to(device, non_blocking=pin)
    if isinstance(batch, Mapping):
        return {key: moved(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        values = [moved(value, device) for value in batch]
        return values if isinstance(batch, list) else tuple(values) if type(batch) is tuple else type(batch)(*values)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        fields = {f.name: getattr(batch, f.name) for f in dataclasses.fields(batch) if f.init}
        return dataclasses.replace(batch, **{name: moved(value, device) for name, value in fields.items()})
    return batch


def feed(batches: Callable[[int], Batch], indices: Sequence[int], device: torch.device) -> Generator[Batch]:
    """The batches of some indices, in their order, on the device."""
    if device.type == "cpu":  # the cores that would look ahead are the ones that train
        yield from map(batches, indices)
        return
    with ThreadPoolExecutor(max_workers=1) as thread:
        coming: Future[Batch] | None = None
        for index in indices:
            ready, coming = coming, thread.submit(lambda i: moved(batches(i), device), index)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()
