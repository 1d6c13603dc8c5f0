"""AdamW over a model's trained parameters: weight decay on matrices only, fused where torch has it.

Inputs: vectors (biases, the scales of normalisations) are not decayed: shrinking them regularises nothing.
"""

from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, get_total_norm
from torch.optim import AdamW, Optimizer

from lexergy.core.errors import LexergyError
from lexergy.training.settings import Settings

_FUSED = ("cpu", "cuda", "xpu", "mps")


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, each once under its first name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def adamw(model: nn.Module, settings: Settings) -> AdamW:
    """The optimiser of a model that is already on its device."""
    parameters = list(trained(model).values())
    if not parameters:
        raise LexergyError("No parameter of this model requires a gradient: there is nothing to train.")
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=all(p.device.type in _FUSED for p in parameters),
    )


def set_learning_rate(optimiser: Optimizer, rate: float) -> None:
    """The rate of the next update."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def clip(model: nn.Module, largest: float) -> Tensor:
    """Scale the gradient down to a norm of `largest` (0: leave it); return the norm it had, on its device."""
    parameters = [p for p in model.parameters() if p.grad is not None]
    if largest > 0:
        return clip_grad_norm_(parameters, largest)
    return get_total_norm([p.grad for p in parameters if p.grad is not None])
