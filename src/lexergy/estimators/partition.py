"""log Z of one prompt between two bounds: E[T_n] ≤ log Z at every n, E[U_n] ≥ log Z from some n on.

    T_n = log (1/n) Σ exp(−e_i)          U_n = (2n−1) T_n − 2(n−1) T̄_{n−1}

Generation paper, section 3.2 (which writes Z where log Z is meant). The formulas are in
`lexergy.core.bounds`; here they become one `Bounds`, with what tells how far to trust them.

*Requirements.* Energies of draws by the law that Z is taken over: untruncated, temperature 1, for the
language model's.

*Relations.* The upper one is the estimator `jackknife`; what holds at every n is `certified`.

*Inputs.* One number a draw, lower = likelier; +inf for a text that is forbidden.

*Not to be confused with* a resolved answer: `resolved` (ESS ≥ 50, no weight above one half) is necessary,
not sufficient.

Example:

    bounds = partition(torch.tensor([0.3, -1.2, 0.8]))
    bounds.lower, bounds.upper
"""

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core.bounds import HEAVY, LEAST_ESS, log_z_lower, log_z_upper, sample_size_and_top
from lexergy.core.laws import keeps
from lexergy.core.toy import Estimation
from lexergy.core.types import Bounds


@keeps("lower bound")
def partition(energy: Float[Tensor, "n"]) -> Bounds:
    """Both bounds on log Z from the energies of n draws; the declared law is that of `lower`."""
    n = energy.shape[0]
    lower = float(log_z_lower(energy))
    ess, top = (float(value) for value in sample_size_and_top(energy))
    return Bounds(
        lower=lower,
        upper=float(log_z_upper(energy)) if n > 1 else None,
        n=n,
        ess=ess,
        max_weight=top,
        resolved=ess >= LEAST_ESS and 0 < top <= HEAVY,
    )


def tiny() -> Estimation:
    """Three texts, one of them rare and heavy."""
    law = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    energy = torch.tensor([0.5, -0.4, -2.0], dtype=torch.float64)
    return Estimation(
        estimate=lambda places: partition(energy[places]).lower,
        law=law,
        truth=float(torch.log((law * torch.exp(-energy)).sum())),
        sizes=(1, 2, 3, 6),
    )
