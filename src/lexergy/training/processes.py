"""Where a run runs: one process on one device, or several (`accelerate launch`, torchrun) that share steps.

Every process reads batches of its own; gradients, metrics and decisions are shared, and the first one writes.
"""

import importlib.util
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, broadcast_object_list
from torch import Tensor, nn

from lexergy.core.errors import LexergyError
from lexergy.engine.probe import Shape, plan
from lexergy.training.settings import Settings

_SHARED: Final = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)


class Processes:
    """The device of this process, the precision of its products, and the others it trains with."""

    def __init__(self, settings: Settings, out: Path | None, shape: Shape | None, dtype: str | None) -> None:
        """dtype: what "auto" stands for where an earlier part of the run has decided it."""
        device, precision = settings.device, dtype if settings.dtype == "auto" else settings.dtype
        if device == "auto" or precision is None:
            planned = plan(shape, device, precision)
            device, precision = planned.device, precision or planned.dtype
        self._accelerator = _accelerator(device, settings, out)
        self.count: int = self._accelerator.num_processes
        self.rank: int = self._accelerator.process_index
        self.first: bool = self._accelerator.is_main_process
        self.device = torch.device(device) if self.count == 1 else self._accelerator.device
        self.dtype: str = self.agreed(precision)

    def place(self, model: nn.Module) -> nn.Module:
        """Move a model to the device, in place, and wrap it where several processes train it."""
        model.to(self.device)
        for parameter in model.parameters():
            if parameter.requires_grad:  # the masters are float32; autocast makes what the products read
                parameter.data = parameter.data.float()
        return model if self.count == 1 else self._accelerator.prepare_model(model, device_placement=False)

    def autocast(self) -> AbstractContextManager[Any]:
        """Products in bf16 where the dtype says so."""
        if self.dtype == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def unsynchronised(self, model: nn.Module, apart: bool) -> AbstractContextManager[Any]:
        """Where `apart`, gradients stay in their process: more of this step's are still to come."""
        return self._accelerator.no_sync(model) if apart and self.count > 1 else nullcontext()

    def mean(self, values: Tensor) -> Tensor:
        """The mean over processes."""
        return values if self.count == 1 else self._accelerator.reduce(values, "mean")  # pyright: ignore[reportReturnType]

    def agreed(self, value: Any) -> Any:
        """The first process's value, in every process."""
        return value if self.count == 1 else broadcast_object_list([value])[0]

    def wait(self) -> None:
        """Until every process is here: what the first one has written can be read."""
        if self.count > 1:  # a sum, not accelerate's barrier, which looks for a GPU a process even on CPUs
            float(self.mean(torch.zeros((), device=self.device)))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Hand numbers to TensorBoard, where it was asked for."""
        self._accelerator.log(dict(values), step=step)

    def close(self) -> None:
        """Close what logs. The process group stays: another run may follow in the same processes."""
        for tracker in self._accelerator.trackers:
            tracker.finish()


def _accelerator(device: str, settings: Settings, out: Path | None) -> Accelerator:
    if settings.log and out is None:
        raise LexergyError("log=True needs a place for TensorBoard's files: give out.")
    if settings.log and importlib.util.find_spec("tensorboard") is None:
        raise LexergyError("log=True needs TensorBoard: pip install 'lexergy[log]'.")
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    try:
        accelerator = Accelerator(
            mixed_precision="no",  # autocast is ours: accelerate's copies every output to float32
            cpu=several and device == "cpu",
            log_with="tensorboard" if settings.log else None,
            project_dir=out if settings.log else None,
        )
    except ValueError as error:
        raise LexergyError(
            f"accelerate was set up otherwise in this process ({error}). Train in a process of its own."
        ) from error
    if accelerator.distributed_type not in _SHARED:
        raise LexergyError(
            "Training runs in one process or data-parallel; accelerate is set to "
            f"{accelerator.distributed_type}. Launch with `accelerate launch --multi_gpu`, or torchrun."
        )
    if settings.log:
        accelerator.init_trackers("tensorboard")
    return accelerator
