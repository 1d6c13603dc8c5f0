"""One factor for a trained energy, E ← a·E, fitted on validation windows by one of two goals.

    certified:  maximise  Σ_windows log[ n·exp(−a e⁺) / (exp(−a e⁺) + Σ exp(−a e_i)) ]
    nce:        minimise  Σ_windows −log σ(−a e⁺) − mean_i log σ(a e_i)                              (Eq. 3)

Spec 1, "scale": a trained energy is often over-confident. The first is concave in a and the second convex, so
the slope changes sign once and bisection finds the place.

*Requirements.* Windows that are neither trained nor tested on, with finite energies.

*Relations.* a = 1 leaves the energy as it is. The interval treats groups of windows as independent: the
factor's slope at each group over the curvature of the sum (the sandwich formula), at 95 %.

*Inputs.* `energy`: of the draws of each window; `true_energy`: of its true continuation; `groups`: its
document.

Example:

    factor = scale(energy, true_energy, documents).value
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from lexergy.core.bounds import certified_gain
from lexergy.core.errors import LexergyError, unknown
from lexergy.core.laws import keeps
from lexergy.core.toy import Estimation
from lexergy.core.types import Estimate

_GOALS = ("certified", "nce")
_HALVINGS = 50
_NORMAL_95 = 1.959963984540054


@keeps("asymptotic")
def scale(
    energy: Float[Tensor, "windows n"],
    true_energy: Float[Tensor, "windows"],
    groups: Sequence[str] | Sequence[int] | None = None,
    *,
    goal: str = "certified",
    smallest: float = 0.0,
    largest: float = 10.0,
) -> Estimate:
    """The best factor in a range; `groups` (default: each window its own) only shape the interval."""
    if goal not in _GOALS:
        raise unknown("goal", goal, _GOALS)
    if not 0 <= smallest < largest:
        raise LexergyError(f"A factor needs 0 ≤ smallest < largest; received {smallest} and {largest}.")
    energy, true_energy = energy.detach().double(), true_energy.detach().double()
    if not bool(torch.isfinite(energy).all() and torch.isfinite(true_energy).all()):
        raise LexergyError("Only finite energies can be scaled; some are NaN or infinite.")
    windows, n = energy.shape
    if windows == 0 or n < (2 if goal == "certified" else 1):
        raise LexergyError(
            "A factor is fitted on a window or more, each of two draws (for Eq. 3, of one); received "
            f"{windows} windows of {n} draws."
        )
    low, high = smallest, largest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(_slopes(energy, true_energy, middle, goal)[0].sum()) > 0:
            low = middle
        else:
            high = middle
    factor = (low + high) / 2
    slopes, curvature = _slopes(energy, true_energy, factor, goal, curved=True)
    places = {group: place for place, group in enumerate(dict.fromkeys(groups or range(windows)))}
    index = torch.tensor([places[group] for group in groups or range(windows)], device=slopes.device)
    by_group = slopes.new_zeros(len(places)).index_add_(0, index, slopes)
    spread = float(by_group.square().sum().sqrt() / -curvature) if float(curvature) < 0 else float("inf")
    at_border = min(factor - smallest, largest - factor) < 1e-9 * largest
    if at_border or len(places) == 1:
        # At a border the slope need not vanish; that of one group alone always does. Neither tells a spread.
        return Estimate(factor, smallest, largest, len(places))
    reach = _NORMAL_95 * spread
    return Estimate(factor, max(smallest, factor - reach), min(largest, factor + reach), len(places))


def _slopes(
    energy: Tensor, true_energy: Tensor, factor: float, goal: str, curved: bool = False
) -> tuple[Float[Tensor, "windows"], Float[Tensor, ""]]:
    """d goal / d a of each window, and, if asked for, the curvature of the sum."""
    with torch.enable_grad():
        factors = torch.full_like(true_energy, factor, requires_grad=True)
        scaled, true = factors[:, None] * energy, factors * true_energy
        if goal == "certified":
            value = certified_gain(scaled, true)
        else:
            value = F.logsigmoid(-true) + F.logsigmoid(scaled).mean(dim=1)
        (slopes,) = torch.autograd.grad(value.sum(), factors, create_graph=curved)
        if not curved:
            return slopes, slopes.new_zeros(())
        (curvature,) = torch.autograd.grad(slopes.sum(), factors)
    return slopes.detach(), curvature.sum()


def tiny() -> Estimation:
    """Energies of −2 and 2, right with probability 0.7: then σ(2a) = 0.7."""
    true_energy = torch.tensor([-2.0, 2.0], dtype=torch.float64)
    law = torch.tensor([0.7, 0.3], dtype=torch.float64)
    return Estimation(
        estimate=lambda places: scale(-true_energy[places, None], true_energy[places], goal="nce", largest=2.0).value,
        law=law,
        truth=float(torch.logit(law[0])) / 2,
        sizes=(1, 2, 4),
    )
