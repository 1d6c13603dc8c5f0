"""Noise-contrastive estimation: L = −log σ(−E(x⁺)) − log σ(E(x⁻)), the log-odds of "data" being −E.

Generation paper, section 3.1, Eq. 3 (conditional: x⁺ and x⁻ continue one prefix). With k negatives a
positive,

    mean:  L = −log σ(−E(x⁺))         − (1/k) Σ_j log σ(E(x⁻_j))
    sum:   L = −log σ(−E(x⁺) − log k) −       Σ_j log σ(E(x⁻_j) + log k)

*Requirements.* Negatives drawn from the language model itself, untruncated at temperature 1. Drawn
otherwise, they train an energy relative to the law that they were drawn by, and undefined where that law has
no mass.

*Relations.* At the optimum of either form, P_LM·exp(−E) is the law of the data and Z = 1 for every prefix.
The log k belongs to the sum: left out there, Z = 1/k; put into the mean, Z = k; P is the same, so only Z
tells. For k = 1 the two are equal. The mean weighs both sides alike, the sum weighs negatives k to 1.

*Inputs.* Energies, lower = likelier: one of each real continuation, k of the texts drawn after the same
prefix.

*Not to be confused with* the softmax over k + 1 candidates (InfoNCE), whose optimum leaves Z free.

Example:

    loss, info = nce(energy(real), energy(fake).view(batch, k))
"""

import itertools
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from lexergy.core.errors import LexergyError, unknown
from lexergy.core.laws import keeps
from lexergy.core.toy import Problem, TabularLM, Universe

_FORMS = ("mean", "sum")


@keeps("consistent")
def nce(
    real: Float[Tensor, "batch"],
    fake: Float[Tensor, "batch k"],
    form: str = "mean",
) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
    """The loss, and: accuracy (each side weighs one half, E = 0 is half right), both sides' mean energies."""
    if form not in _FORMS:
        raise unknown("form of nce", form, _FORMS)
    k = fake.shape[1]
    if real.shape[0] == 0 or k == 0:
        raise LexergyError(
            f"nce needs positives and negatives; received shapes {tuple(real.shape)} and {tuple(fake.shape)}."
        )
    # Energies may come in bf16; their loss may not.
    real = real.to(torch.promote_types(real.dtype, torch.float32))
    fake = fake.to(torch.promote_types(fake.dtype, torch.float32))
    shift = math.log(k) if form == "sum" else 0.0
    terms = F.logsigmoid(fake + shift)
    loss = -F.logsigmoid(-real - shift).mean() - (terms.sum(dim=1) if form == "sum" else terms.mean(dim=1)).mean()
    with torch.no_grad():
        right = (1 - torch.sign(real)).mean() + (1 + torch.sign(fake)).mean()
        info = {"accuracy": right / 4, "energy_real": real.mean(), "energy_fake": fake.mean()}
    return loss, info


def tiny() -> Problem:
    """An energy a text, between data and a language model as tables; two negatives, in the sum's form."""
    universe, k = Universe(vocabulary=2, length=2, eos=1), 2
    data = TabularLM.random(universe, seed=1).log_prob
    noise = TabularLM.random(universe, seed=2).log_prob
    texts = range(len(universe))

    def expected_loss(energy: Tensor) -> Tensor:
        total = energy.new_zeros(())
        for real, *fake in itertools.product(texts, repeat=1 + k):
            weight = torch.exp(data[real] + noise[fake].sum())
            total = total + weight * nce(energy[[real]], energy[fake][None], form="sum")[0]
        return total

    optimum = noise - data
    return Problem(
        optimum=optimum,
        expected_loss=expected_loss,
        wrong=optimum + torch.linspace(-1, 1.5, len(universe)).double(),
    )
