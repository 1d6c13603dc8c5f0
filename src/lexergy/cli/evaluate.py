"""`lexergy evaluate`: perplexity of a trained recipe, or of a saved joint model on a file, with its bounds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.options import Device, Dtype, Json, Quiet, Seed, Set
from lexergy.cli.output import say, table, write, write_json
from lexergy.cli.train import with_seed

if TYPE_CHECKING:
    from lexergy.core.types import Estimate
    from lexergy.evaluation.perplexity import Perplexity


def evaluate(
    recipe: Annotated[str, typer.Argument(help="A recipe that was trained; or JOINT, a saved joint model's folder.")],
    file: Annotated[
        Path | None, typer.Argument(help="With JOINT: the held-out text, a corpus.", show_default=False)
    ] = None,
    set: Set = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder, as lexergy train was told.")] = None,
    n: Annotated[int | None, typer.Option("-n", "--n", help="With JOINT: draws a window; default: 1024.")] = None,
    prefix: Annotated[int | None, typer.Option(help="With JOINT: tokens given; default: 120.")] = None,
    windows: Annotated[int | None, typer.Option(help="With JOINT: windows judged; default: 256.")] = None,
    quiet: Quiet = False,
    json: Json = False,
    seed: Seed = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Measure perplexity on held-out text: the language model's, and the joint model's with its bounds."""
    from lexergy.core.errors import LexergyError

    counts = {"n": n, "prefix": prefix, "windows": windows}
    given = {name: value for name, value in counts.items() if value is not None}
    if file is None:
        if given:
            name = next(iter(given))
            raise LexergyError(f"--{name} goes with a JOINT and a FILE; in a recipe, change its keys with --set.")
        options = {"quiet": quiet, "device": device, "dtype": dtype}
        evaluate_recipe(recipe, with_seed(set, seed), out, json, options)
        return
    if set or out is not None:
        raise LexergyError("--set and --out go with a RECIPE; a JOINT and a FILE have -n, --prefix and --windows.")
    if seed is not None:
        given["seed"] = seed
    _joint(recipe, file, json, {**given, "quiet": quiet}, {"device": device, "dtype": dtype})


def evaluate_recipe(
    recipe: str, changes: list[str] | None, out: Path | None, json: bool, options: dict[str, Any]
) -> None:
    """Evaluate a trained recipe and say what was found and where the page is."""
    import lexergy as lx
    from lexergy.report.results import to_json

    found = lx.evaluate(recipe, changes, out, **options)
    if json:
        places = {"results_file": str(found.results_file), "report": str(found.report)}
        write_json({"perplexity": found.perplexity.to_json(), "result": to_json(found.result), **places})
        return
    _show(found.perplexity)
    say("The report:")
    write(str(found.report))


def _joint(joint: str, file: Path, json: bool, counts: dict[str, Any], loading: dict[str, Any]) -> None:
    import lexergy as lx
    from lexergy.core.errors import LexergyError

    if not file.exists():
        raise LexergyError(f"There is no file or folder {file}: give held-out text.")
    found = lx.Joint.from_pretrained(joint, **loading).perplexity(file, **counts)
    if json:
        write_json(found.to_json())
    else:
        _show(found)


def _show(found: "Perplexity") -> None:
    named = {
        "language model": found.base,
        "joint, lower": found.lower,
        "joint, upper": found.upper,
        "joint, certified": found.certified,
        "saved (certified)": found.saved,
    }
    title = f"Perplexity over {found.windows} windows, {found.groups} documents, {found.tokens} tokens; n = {found.n}"
    table(title, ["", "value", "95 % from", "to"], [[name, *_cells(one)] for name, one in named.items()])
    seen = found.resolution
    state = "resolved" if seen.resolved else "unresolved: " + "; ".join(seen.reasons)
    write(f"median ESS {seen.median_ess:.1f}, largest weight {seen.largest_weight:.3f}; {state}")
    write(f"gain {found.gain.value:.3f} nats a window ({found.gain.low:.3f} to {found.gain.high:.3f}), certified")
    write(f"detection accuracy {100 * found.accuracy:.1f} %")


def _cells(one: "Estimate") -> list[str]:
    return [f"{value:.3f}" for value in (one.value, one.low, one.high)]
