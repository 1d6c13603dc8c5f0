"""One root error, and the sentences it is made of: what was wrong, what was received, what to do, the nearest name."""

import difflib
from collections.abc import Iterable


class LexergyError(Exception):
    """Anything the user can mend: a wrong argument, a broken file, an energy that is not a number.

    The command line prints the message on one line and exits with code 2. Every other exception is a defect of
    ours and exits with 1.
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that offers the nearest known name, or lists what there is."""
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    if not options:
        return "There is none."
    return "There is: " + ", ".join(options) + "."


def unknown(what: str, name: str, known: Iterable[str]) -> LexergyError:
    """The error for a name that is not among those known."""
    return LexergyError(f"Unknown {what} {name!r}. {nearest(name, known)}")
