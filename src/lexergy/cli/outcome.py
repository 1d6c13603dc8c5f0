"""Exit codes: 0 done, 2 the user's mistake (one line that says what to do), 1 a defect of ours, 130 stopped by hand."""

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

import typer

from lexergy.cli.output import say
from lexergy.core.errors import LexergyError

UsageError: Final = typer.BadParameter.__mro__[1]
"""What every wrong option or argument is; typer does not export its name."""

_THEIRS: Final = {
    errno.ENOSPC: "free some space, or write elsewhere",
    errno.EDQUOT: "free some space, or write elsewhere",
    errno.EROFS: "write elsewhere",
    errno.EACCES: "change its permissions, or use another place",
    errno.EPERM: "change its permissions, or use another place",
}
"""What the operating system refuses although nothing is wrong with the program, and what to do about it."""

_RESUMED: Final = {
    "train": "run the same command with --resume to go on",
    "mine": "run the same command again to go on",
    "demo": "run the same command again to go on",
}


@contextmanager
def outcome(verb: str) -> Iterator[None]:
    """Run a verb; what the user can mend becomes a line on standard error and an exit code."""
    try:
        yield
    except LexergyError as error:
        raise _mistake(verb, str(error)) from error
    except UsageError as error:
        message = error.format_message()  # type: ignore[attr-defined]
        raise _mistake(verb, f"{message.rstrip('.')}. See {verb} --help.") from error
    except KeyboardInterrupt as error:
        hint = _RESUMED.get(verb.rpartition(" ")[2])
        say(f"{verb}: stopped" + (f"; {hint}." if hint else "."))
        raise typer.Exit(130) from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            # Whoever was reading has read enough, `head` say; what is still buffered must not fail at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
            raise typer.Exit(0) from error
        if error.errno not in _THEIRS:
            raise
        where = f" ({error.filename})" if error.filename else ""
        raise _mistake(verb, f"{error.strerror}{where}: {_THEIRS[error.errno]}.") from error


def _mistake(verb: str, message: str) -> typer.Exit:
    say(f"{verb}: " + " ".join(line.strip() for line in message.splitlines() if line.strip()))
    return typer.Exit(2)


def defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What is printed of an error that is ours; the interpreter then exits with 1."""
    lines = traceback.format_exception(kind, error, trace, limit=-8)
    say("".join(lines).rstrip())
    say("lexergy: this is a defect of lexergy, not of what you typed. Please report it with the lines above.")
