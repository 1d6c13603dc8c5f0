"""What Algorithm 1 gains for certain: E log[ n·w⁺ / (w⁺ + Σ_{i=2..n} w_i) ] ≤ log p_n(x⁺) − log P_LM(x⁺).

Spec 1, "certified perplexity". Drawing n texts and keeping one with probability ∝ w = exp(−E) is itself a
normalised model,

    p_n(x) = n · P_LM(x) · E_{x_2..x_n ~ P_LM} [ w(x) / (w(x) + Σ_{i≥2} w(x_i)) ],

so by Jensen's inequality −log p_n(x⁺) ≤ −log P_LM(x⁺) − gain, on average over the draws and at **every** n.

*Requirements.* Untruncated draws at temperature 1: a truncated law gives most held-out texts probability 0.

*Relations.* n = 1 gains 0. For large n the gain tends to −E(x⁺) − log Z. The certified perplexity of a test
set is exp(−(1/M) Σ [log P_LM(x⁺) + gain]), by `bootstrap` with the windows' documents as groups.

*Inputs.* `energy`: of the n draws of each window; `true_energy`: of its true continuation. All n
leave-one-out sets are used, each of n−1 draws, so the stated n is the number of draws given.

*Not to be confused with* the bounds on log Z: those may both be wrong at a given n; this holds for the model
with that n.

Example:

    gain = certified(energy, true_energy)                       # one number a window, nats
    bootstrap(log_p + gain, documents, sizes=tokens, statistic="perplexity")
"""

import itertools

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core.bounds import certified_gain
from lexergy.core.laws import keeps
from lexergy.core.toy import Estimation


@keeps("unbiased")
def certified(energy: Float[Tensor, "*windows n"], true_energy: Float[Tensor, "*windows"]) -> Float[Tensor, "*windows"]:
    """The gain of each window in nats, float64: unbiased for the bound at n, the number of draws."""
    return certified_gain(energy, true_energy)


def tiny() -> Estimation:
    """Three texts and a true one; the quantity is a different one at each n, so there is one size."""
    law = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    energy = torch.tensor([0.5, -0.4, -2.0], dtype=torch.float64)
    true_energy, n = torch.tensor(-1.0, dtype=torch.float64), 4
    weight, own = torch.exp(-energy), torch.exp(-true_energy)
    others = [torch.tensor(places) for places in itertools.product(range(3), repeat=n - 1)]
    truth = sum(float(law[at].prod() * torch.log(n * own / (own + weight[at].sum()))) for at in others)
    return Estimation(
        estimate=lambda places: float(certified(energy[places], true_energy)),
        law=law,
        truth=truth,
        sizes=(n,),
    )
