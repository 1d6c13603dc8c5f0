"""The command line: `lexergy VERB …`, one file a verb.

A verb's file loads typer and nothing heavier; what computes is imported when the verb runs.
"""

import functools
import inspect
import io
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lexergy import __version__
from lexergy.cli.cite import cite
from lexergy.cli.demo import demo
from lexergy.cli.doctor import doctor
from lexergy.cli.evaluate import evaluate
from lexergy.cli.list import list_
from lexergy.cli.mine import mine
from lexergy.cli.outcome import defect, outcome
from lexergy.cli.output import say
from lexergy.cli.report import report
from lexergy.cli.sample import sample
from lexergy.cli.score import score
from lexergy.cli.train import train

VERBS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "list": list_,
    "doctor": doctor,
    "mine": mine,
    "train": train,
    "sample": sample,
    "score": score,
    "evaluate": evaluate,
    "report": report,
    "cite": cite,
}

_COMMON = {
    "seed": Annotated[int | None, typer.Option(help="Taken by every verb; this one draws nothing.")],
    "device": Annotated[str | None, typer.Option(help="Taken by every verb; this one runs no model.")],
    "dtype": Annotated[str | None, typer.Option(help="Taken by every verb; this one runs no model.")],
}
"""What every verb takes, so that a script can say it to all of them."""


class _Verbs(TyperGroup):
    """The verbs, whose errors become exit codes, in this process or in a test's."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        with outcome(lambda: "lexergy"):
            return super().make_context(*args, **options)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def invoke(self, ctx: Any) -> Any:
        with outcome(lambda: f"lexergy {ctx.invoked_subcommand}" if ctx.invoked_subcommand else "lexergy"):
            return super().invoke(ctx)


def _uniform(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb that also takes those of the common options that it has no use for."""
    own = inspect.signature(verb, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, kind, default=None, annotation=annotation)
        for name, annotation in _COMMON.items()
        if name not in own.parameters
    ]

    @functools.wraps(verb)
    def taken(**values: Any) -> None:
        verb(**{name: value for name, value in values.items() if name in own.parameters})

    every = [*own.parameters.values(), *added]
    taken.__signature__ = own.replace(parameters=every)  # type: ignore[attr-defined]
    taken.__annotations__ = {one.name: one.annotation for one in every} | {"return": None}
    del taken.__wrapped__  # whoever looks through it would find the options that were added missing
    return taken


app = typer.Typer(cls=_Verbs, add_completion=False, pretty_exceptions_enable=False)
for _name, _verb in VERBS.items():
    app.command(_name)(_uniform(_verb))


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"lexergy {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def lexergy(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Give text an energy: train one, score with one, sample from one."""


def run() -> None:
    """What the command `lexergy` runs."""
    sys.excepthook = defect
    warnings.showwarning = _warn
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # JSON is UTF-8 whatever the terminal's locale; a name that is no text is still shown.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    typer.main.get_command(app)(prog_name="lexergy")


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line: the place in our source that it came from is of no use here."""
    say(f"lexergy: note: {message}")
