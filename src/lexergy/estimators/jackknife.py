"""The upper estimate of log Z: U_n = (2n−1) T_n − 2(n−1) T̄_{n−1}, T̄ the mean of the leave-one-out values.

Generation paper, section 3.2. T_n is too low by about c/n, c half the relative variance of the weights; n
T_n − (n−1) T̄ removes that, and U_n removes it twice, so that it is too high by c/n.

*Requirements.* Two draws or more. E[U_n] ≥ log Z holds from some n on, which depends on the weights: with a
rare, heavy text it is large, and before it U_n is a lower bound like T_n.

*Relations.* U_n = T_n + 2 · (jackknife − T_n), so U_n ≥ T_n always, and U_n = T_n only where all weights are
equal. The estimator `partition` returns both.

*Inputs.* Energies of draws along the last axis, any number of prompts before it.

Example:

    jackknife(torch.tensor([0.3, -1.2, 0.8]))
"""

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core.bounds import log_z_upper
from lexergy.core.laws import keeps
from lexergy.core.toy import Estimation


@keeps("asymptotic")
def jackknife(energy: Float[Tensor, "*prompts n"]) -> Float[Tensor, "*prompts"]:
    """U_n of each prompt, float64; one number a prompt, for averages over many."""
    return log_z_upper(energy)


def tiny() -> Estimation:
    """Two texts whose weights differ by a factor of e: the bias is positive from n = 2 on and shrinks."""
    law = torch.tensor([0.6, 0.4], dtype=torch.float64)
    energy = torch.tensor([0.5, -0.5], dtype=torch.float64)
    return Estimation(
        estimate=lambda places: float(jackknife(energy[places])),
        law=law,
        truth=float(torch.log((law * torch.exp(-energy)).sum())),
        sizes=(2, 4, 8, 10),
    )
