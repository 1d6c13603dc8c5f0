"""Exit codes: 0 done, 2 the user's mistake (one line that says what to do), 1 a defect of ours, 130 stopped by hand."""

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, cast

import typer

from lexergy.cli.output import say
from lexergy.core.errors import LexergyError

UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
"""What every wrong option or argument raises; typer exports only this one kind of it."""

_THEIRS: Final = {
    errno.ENOSPC: "free some space, or write elsewhere",
    errno.EDQUOT: "free some space, or write elsewhere",
    errno.EROFS: "write elsewhere",
    errno.ENOTDIR: "a file stands where a folder is needed: choose another place",
    errno.EISDIR: "a folder stands where a file is needed: choose another place",
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
def outcome(name: Callable[[], str]) -> Iterator[None]:
    """Run a verb; what the user can mend becomes a line on standard error and an exit code.

    `name`: what was run, asked for when something went wrong, since the arguments tell it only then.
    """
    try:
        yield
        sys.stdout.flush()  # a full disk or a reader who left is noticed here, not while the interpreter ends
    except LexergyError as error:
        raise _mistake(name(), str(error)) from error
    except UsageError as error:
        message = error.format_message()
        ended = message if message.endswith((".", "?")) else message + "."
        raise _mistake(name(), f"{ended} See {name()} --help.") from error
    except KeyboardInterrupt as error:
        hint = _RESUMED.get(name().rpartition(" ")[2])
        say(f"{name()}: stopped" + (f"; {hint}." if hint else "."))
        raise typer.Exit(130) from error
    except OSError as error:
        remedy = _THEIRS.get(error.errno or 0)
        if error.errno != errno.EPIPE and remedy is None:
            raise
        _drop_output()
        if remedy is None:  # whoever was reading has read enough, `head` say
            raise typer.Exit(0) from error
        where = f" ({error.filename})" if error.filename else ""
        raise _mistake(name(), f"{error.strerror}{where}: {remedy}.") from error


def _drop_output() -> None:
    """What could not be written is still buffered, and must not fail once more when the interpreter ends."""
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _mistake(verb: str, message: str) -> typer.Exit:
    say(f"{verb}: " + " ".join(line.strip() for line in message.splitlines() if line.strip()))
    return typer.Exit(2)


def defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What is printed of an error that is ours; the interpreter then exits with 1."""
    lines = traceback.format_exception(kind, error, trace, limit=-8)
    say("".join(lines).rstrip())
    say("lexergy: this is a defect of lexergy, not of what you typed. Please report it with the lines above.")
