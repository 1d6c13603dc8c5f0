"""Likelihood of a language model: L = −(1/M) Σ_t log p(x_t | x_<t), over the M real targets of a batch.

*Requirements.* `states[i]` is what the network knew before `targets[i]`: the caller has shifted one against
the other.

*Relations.* exp(L) is the perplexity a token. The [tokens, vocabulary] block of logits is never made
(`lexergy.engine.vocabulary`).

*Inputs.* The network's last states, its output matrix and bias, the next tokens, and which of them are real.

*Not to be confused with* the mean over texts of their mean: here every token weighs the same.

Example:

    loss, info = lm(states[:, :-1], head.weight, ids[:, 1:], mask[:, 1:])
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.core.laws import keeps
from lexergy.core.toy import Problem, TabularLM, Universe
from lexergy.engine.vocabulary import weighted_nll


@keeps("consistent")
def lm(
    states: Float[Tensor, "*batch width"],
    weight: Float[Tensor, "vocabulary width"],
    targets: Int[Tensor, "*batch"],
    mask: Bool[Tensor, "*batch"],
    bias: Float[Tensor, "vocabulary"] | None = None,
) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
    """The mean loss a real target in nats, and how many there were; other targets may hold any id."""
    if targets.shape != mask.shape or states.shape[:-1] != targets.shape:
        raise LexergyError(
            "lm needs a state, a target and a mask for each place; received "
            f"{tuple(states.shape)}, {tuple(targets.shape)} and {tuple(mask.shape)}."
        )
    count = mask.sum()
    # Padding keeps its row at a coefficient of 0: to pick rows out, a GPU would have to be waited for.
    coefficients = mask.flatten().to(torch.promote_types(states.dtype, torch.float32)) / count.clamp(min=1)
    known = targets.flatten().where(mask.flatten(), 0)
    loss = weighted_nll(states.flatten(0, -2), weight, known, coefficients, bias)
    return loss, {"tokens": count.detach()}


def tiny() -> Problem:
    """A table of logits, next token by what stands before it; the data are a tabular language model."""
    universe = Universe(vocabulary=3, length=2)
    data = TabularLM.random(universe, seed=1)
    beginnings = sorted(data.tables)
    optimum = torch.stack([data.next(begun) for begun in beginnings], dim=1)

    def expected_loss(table: Tensor) -> Tensor:
        total = table.new_zeros(())
        for row, log_prob in zip(universe.rows, data.log_prob, strict=True):
            before = torch.tensor([beginnings.index(row[:t]) for t in range(len(row))])
            states = torch.eye(len(beginnings), dtype=table.dtype)[before]
            loss, _ = lm(states, table, torch.tensor(row), torch.ones(len(row), dtype=torch.bool))
            total = total + torch.exp(log_prob) * loss
        return total

    return Problem(optimum=optimum, expected_loss=expected_loss, wrong=torch.zeros_like(optimum))
