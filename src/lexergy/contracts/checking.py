"""One door to the contracts: by what is given, the contract of its room."""

from typing import Any

from lexergy import catalog
from lexergy.contracts import energies, estimators, objectives, proposals, samplers
from lexergy.core.errors import LexergyError, unknown
from lexergy.core.laws import LAWS
from lexergy.core.toy import Drawing, Estimation, Kernel, Problem
from lexergy.energies.base import Energy
from lexergy.proposals.base import Proposal

Checkable = Proposal | Energy | Problem | Drawing | Kernel | Estimation


def check(component: Any, law: str | None = None, room: str | None = None) -> None:
    """Raise `ContractError` unless a component keeps its law.

    Energies and proposals know their law. For an objective, a sampler or an estimator give what its `tiny()`
    returns (or several in a list) and the law; without one, the strictest of its room is asked for.
    """
    if isinstance(component, (list, tuple)):
        for one in component:
            check(one, law, room)
        return
    if not isinstance(component, Checkable):
        raise LexergyError(
            f"There is no contract for a {type(component).__name__}. Give an Energy, a Proposal, or a "
            "Problem, Drawing, Kernel or Estimation over the toy universe."
        )
    found = _room(component)
    if room is not None and room != found:
        raise LexergyError(f"A {type(component).__name__} belongs to {found}; received room={room!r}.")
    if law is not None and law not in LAWS[found]:
        raise unknown(f"law of {found}", law, LAWS[found])
    if isinstance(component, Energy):
        energies.check(component)
    elif isinstance(component, Proposal):
        proposals.check(component)
    elif isinstance(component, Problem):
        objectives.check(component, law or "consistent")
    elif isinstance(component, Estimation):
        estimators.check(component, law or "unbiased")
    else:
        samplers.check(component, law or ("invariant" if isinstance(component, Kernel) else "exact draws"))


def check_component(room: str, name: str) -> None:
    """The same for a file of a room: it declares a law of the room, and its `tiny()` keeps it."""
    if room not in LAWS:
        raise unknown("room with laws", room, LAWS)
    component, page = catalog.load(room, name), catalog.available(room)[name]
    law: Any = getattr(component, "law", None)
    if law not in LAWS[room]:
        raise unknown(f"law of {room}, declared by {name},", str(law), LAWS[room])
    if law == "baseline":
        samplers.check_named(name, page)
    small = catalog.tiny(room, name)
    check(small, None if room in ("energies", "proposals") else law, room)


def _room(component: Checkable) -> str:
    if isinstance(component, Proposal):
        return "proposals"
    if isinstance(component, Energy):
        return "energies"
    if isinstance(component, Problem):
        return "objectives"
    return "estimators" if isinstance(component, Estimation) else "samplers"
