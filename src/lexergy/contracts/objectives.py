"""Objectives: the expected gradient, summed over the toy universe, vanishes where the law says and nowhere
else.

*consistent*: zero where the model equals the data. *biased*: not zero there, or the mark is wrong.
*surrogate*: nothing is asked there. All: finite everywhere, and from a wrong point a step downhill leads
towards the data.
"""

import torch
from torch import Tensor

from lexergy.contracts.broken import require
from lexergy.core.toy import Problem

ZERO = 1e-8
"""Gradients are sums of a few hundred float64 terms of order one; a wrong term is of order one."""


def check(problem: Problem, law: str) -> None:
    """One objective on its own problem."""
    at_data, at_wrong = gradient(problem, problem.optimum), gradient(problem, problem.wrong)
    for name, found in (("the data", at_data), ("a wrong point", at_wrong)):
        require(
            bool(torch.isfinite(found).all()),
            "gradients are finite",
            f"at {name} the gradient is {found.tolist()}",
            "exp or log of an energy outside log space",
        )
    size = float(at_data.abs().max())
    if law == "consistent":
        require(
            size <= ZERO,
            "the expected gradient is zero where the model equals the data",
            f"its largest entry there is {size:.3g} (tolerance {ZERO:g})",
            "the sign of the energy, a missing log k or log q, a mean for a sum, a detached term",
        )
    elif law == "biased":
        require(
            size > ZERO,
            "an objective marked biased has a gradient where the model equals the data",
            f"its largest entry there is {size:.3g}",
            "the mark: this objective is consistent, so say so",
        )
    descent = float((at_wrong * (problem.wrong - problem.optimum)).sum())
    require(
        descent > ZERO,
        "from a wrong point, a step downhill leads towards the data",
        f"gradient · (wrong − optimum) = {descent:.3g}",
        "the sign of the loss or of the energy, or a loss cut off from its parameters",
    )


def gradient(problem: Problem, at: Tensor) -> Tensor:
    """The gradient of the expected loss; zero where the loss does not read its parameters at all."""
    parameters = at.detach().clone().double().requires_grad_(True)
    loss = problem.expected_loss(parameters)
    if not loss.requires_grad:
        return torch.zeros_like(parameters)
    (found,) = torch.autograd.grad(loss, parameters)
    return found
