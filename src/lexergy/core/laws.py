"""Which law a component keeps: declared beside it, checked by `lexergy.contracts`.

A class declares its law as a class attribute `law`; a function by the decorator `@keeps(law)`.
"""

from collections.abc import Callable
from typing import TypeVar

LAWS: dict[str, dict[str, str]] = {
    "proposals": {"exact draws": "drawn probability = log_q = log_prob, and the total mass is 1"},
    "energies": {
        "finite": "deterministic, independent of padding, order and batch; never NaN or infinite",
        "constraint": "the same, but +inf is allowed: a hard constraint",
    },
    "objectives": {
        "consistent": "the expected gradient is zero where the model equals the data",
        "biased": "it is not, and the page says why",
        "surrogate": "ranking, hinge or direct loss: no density is estimated",
    },
    "samplers": {
        "invariant": "πK = π, one closed class",
        "exact draws": "the law of the output is the target",
        "asymptotic": "the finite-n law is stated, and its limit is the target",
        "baseline": "no law, and named so",
    },
    "estimators": {
        "unbiased": "the expectation is the quantity at every n",
        "lower bound": "the expectation is at most the quantity at every n",
        "upper bound": "the expectation is at least the quantity at every n",
        "asymptotic": "biased, bias declared and shown to shrink",
    },
}
"""room → law → what the contract checks."""

T = TypeVar("T", bound=Callable[..., object])


def keeps(law: str) -> Callable[[T], T]:
    """Declare the law that a function keeps."""

    def mark(function: T) -> T:
        function.law = law  # type: ignore[attr-defined]
        return function

    return mark
