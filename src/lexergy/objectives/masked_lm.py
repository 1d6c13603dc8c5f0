"""Likelihood of a masked language model: L = −(1/M) Σ_{t masked} log p(y_t | the rest), over M masked tokens.

The MLM row of spec 4's table of objectives; which tokens are masked is `lexergy.engine.masking`'s part, anew
each time.

*Requirements.* The choice of masked places does not look at the tokens there. A place chosen but shown as
itself or as another token counts like any other.

*Relations.* With one place masked a text, the loss is the mean negative pseudo-log-likelihood a token. Only
masked rows meet the vocabulary.

*Inputs.* The network's last states over the masked ids, its output matrix and bias, the **original** ids,
and the places chosen.

*Not to be confused with* maximum likelihood: these conditionals need not belong to any one law over texts.

Example:

    ids, chosen = mask_tokens(tokens, rng, mask_id, eligible)
    loss, info = masked_lm(network(ids), head.weight, tokens.ids, chosen)
"""

import itertools

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.core.laws import keeps
from lexergy.core.toy import MASKED, Problem, TabularLM, TabularMasked, Universe
from lexergy.engine.vocabulary import weighted_nll


@keeps("consistent")
def masked_lm(
    states: Float[Tensor, "*batch width"],
    weight: Float[Tensor, "vocabulary width"],
    targets: Int[Tensor, "*batch"],
    chosen: Bool[Tensor, "*batch"],
    bias: Float[Tensor, "vocabulary"] | None = None,
) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
    """The mean loss a chosen token in nats (0 where none is chosen), and how many there were."""
    if targets.shape != chosen.shape or states.shape[:-1] != targets.shape:
        raise LexergyError(
            "masked_lm needs a state, a target and a choice for each place; received "
            f"{tuple(states.shape)}, {tuple(targets.shape)} and {tuple(chosen.shape)}."
        )
    rows = chosen.flatten().nonzero().squeeze(1)
    count = rows.shape[0]
    picked = states.flatten(0, -2).index_select(0, rows)
    coefficients = torch.full_like(
        picked[:, 0], 1 / max(count, 1), dtype=torch.promote_types(states.dtype, torch.float32)
    )
    loss = weighted_nll(picked, weight, targets.flatten().index_select(0, rows), coefficients, bias)
    return loss, {"tokens": torch.tensor(count)}


def tiny() -> Problem:
    """A table of logits, token by masked context; the data are a tabular law, each place masked in turn."""
    universe = Universe(vocabulary=2, length=2)
    log_prob = TabularLM.random(universe, seed=1).log_prob
    conditionals = TabularMasked.consistent(universe, log_prob)
    contexts = [(MASKED, 0), (MASKED, 1), (0, MASKED), (1, MASKED)]
    optimum = torch.stack([conditionals.conditional(c)[c.index(MASKED)] for c in contexts], dim=1)
    places: dict[tuple[int, ...], int] = {context: place for place, context in enumerate(contexts)}

    def expected_loss(table: Tensor) -> Tensor:
        total = table.new_zeros(())
        for (row, weight), place in itertools.product(zip(universe.rows, log_prob.exp(), strict=True), range(2)):
            context = tuple(MASKED if t == place else token for t, token in enumerate(row))
            states = torch.eye(len(contexts), dtype=table.dtype)[[places[context]] * 2]
            loss, _ = masked_lm(states, table, torch.tensor(row), torch.arange(2) == place)
            total = total + weight / 2 * loss
        return total

    return Problem(optimum=optimum, expected_loss=expected_loss, wrong=torch.zeros_like(optimum))
