"""`lexergy train`: all that a recipe names, or an energy from a mined set."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lexergy.cli.options import Device, Dtype, Form, Json, Pooling, Quiet, Seed, Set
from lexergy.cli.output import say, write, write_json


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A packaged recipe (lexergy list recipes) or a TOML file.", show_default=False)
    ] = None,
    set: Set = None,
    mined: Annotated[Path | None, typer.Option(help="Without a recipe: the mined set to train an energy on.")] = None,
    start: Annotated[
        str | None, typer.Option(help='A network\'s folder or Hub id, or "bag"; default: a fresh transformer.')
    ] = None,
    size: Annotated[str | None, typer.Option(help="Of a fresh transformer: tiny, small (default), medium, …")] = None,
    causal: Annotated[bool | None, typer.Option(help="Whether a transformer of ours looks back only.")] = None,
    pooling: Annotated[Pooling | None, typer.Option(help="Default: mean.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Of a transformer of ours.")] = None,
    negatives: Annotated[int | None, typer.Option(help="Written texts that meet each true one; default: 1.")] = None,
    form: Annotated[Form | None, typer.Option(help="With several negatives: their mean (default) or sum.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Default: 2.")] = None,
    batch: Annotated[int | None, typer.Option(help="Windows a step; default: 32, or all there are.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Default: from the size of the network.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many validations without improvement; default: 4.")
    ] = None,
    fit_scale: Annotated[
        bool | None, typer.Option(help="Fit one factor on the validation windows; default: yes.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; a recipe's default: runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is there.")] = False,
    quiet: Quiet = False,
    json: Json = False,
    seed: Seed = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Train all that a recipe names, or, with --mined, an energy."""
    from lexergy.core.errors import LexergyError

    shaping = {
        "start": start,
        "size": size,
        "causal": causal,
        "pooling": pooling.value if pooling else None,
        "dropout": dropout,
        "negatives": negatives,
        "form": form.value if form else None,
        "epochs": epochs,
        "batch": batch,
        "learning_rate": learning_rate,
        "patience": patience,
        "fit_scale": fit_scale,
    }
    chosen = {name: value for name, value in shaping.items() if value is not None}
    common = {"resume": resume, "quiet": quiet}
    placed = {name: value for name, value in {"device": device, "dtype": dtype}.items() if value is not None}
    if (recipe is None) == (mined is None):
        raise LexergyError("Give a RECIPE, or --mined DIR for an energy without one. lexergy list recipes shows them.")
    if recipe is not None:
        if chosen:
            name = next(iter(chosen)).replace("_", "-")
            raise LexergyError(f"--{name} goes with --mined; in a recipe, change its keys with --set.")
        _recipe(recipe, set, seed, out, json, {**common, **placed})
    else:
        if out is None:
            raise LexergyError("Say where the energy goes: --out DIR.")
        if seed is not None:
            chosen["seed"] = seed
        _energy(mined, set, out, json, {**chosen, **common, **placed})


def with_seed(changes: list[str] | None, seed: int | None) -> list[str] | None:
    """A recipe's changes, the seed among them: it is one of a recipe's keys."""
    return changes if seed is None else [*(changes or []), f"seed={seed}"]


def _recipe(
    recipe: str, changes: list[str] | None, seed: int | None, out: Path | None, json: bool, options: dict[str, Any]
) -> None:
    import lexergy as lx

    run = lx.train(recipe, with_seed(changes, seed), out, **options)
    if json:
        write_json({"run": str(run)})
    else:
        say(f"Trained. What it is worth: lexergy evaluate {recipe}" + (f" --out {out}" if out else ""))
        write(str(run))


def _energy(mined: Path | None, changes: list[str] | None, out: Path, json: bool, options: dict[str, Any]) -> None:
    import lexergy as lx
    from lexergy.core.files import read_json

    assert mined is not None
    energy = lx.train_energy(lx.read_mined(mined), out=out, **options, **_settings(changes, options))
    history = read_json(out / "history.json")
    factor = vars(energy).get("factor")
    if json:
        kept = {name: history[name] for name in ("step", "best_step", "best_value", "ended")}
        write_json({"energy": str(out / "energy"), "factor": factor, **kept})
    else:
        best = history["best_value"]
        shown = "" if best is None else f"; validation loss {best:.4f} after step {history['best_step']}"
        say(f"{history['step']} steps{shown}" + ("" if factor is None else f"; fitted factor {factor:.3f}"))
        write(str(out / "energy"))


def _settings(changes: list[str] | None, taken: dict[str, Any]) -> dict[str, Any]:
    """Further settings of the training loop, from --set NAME=VALUE."""
    import dataclasses

    from lexergy.core.errors import LexergyError, unknown
    from lexergy.training.settings import Settings

    known = {field.name for field in dataclasses.fields(Settings)}
    found: dict[str, Any] = {}
    for item in changes or []:
        name, equals, value = item.partition("=")
        if not equals:
            raise LexergyError(f"--set takes NAME=VALUE; received {item!r}.")
        if name not in known:
            raise unknown("setting of the training loop", name, known)
        if name in taken:
            raise LexergyError(f"{name} was given twice: as --{name.replace('_', '-')} and with --set.")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    """A value as TOML writes it; a bare word is a string."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
