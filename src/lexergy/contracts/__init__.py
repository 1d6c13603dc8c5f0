"""The laws that components declare, checked by summing over small universes; shipped so that users can check
their own.

Example:

    lexergy.contracts.check(my_energy)      # silent, or a ContractError: which law is broken, and where
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lexergy.contracts.broken import ContractError as ContractError
    from lexergy.contracts.checking import check as check
    from lexergy.contracts.checking import check_component as check_component

__all__ = ["ContractError", "check", "check_component"]


def __getattr__(name: str) -> Any:
    """The contracts read every room; they are imported when one is checked."""
    if name == "ContractError":
        from lexergy.contracts import broken

        return broken.ContractError
    if name in __all__:
        from lexergy.contracts import checking

        return vars(checking)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
