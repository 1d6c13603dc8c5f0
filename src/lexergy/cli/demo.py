"""`lexergy demo`: the recipe `generation/demo`, trained and evaluated; a few minutes on two cores, offline."""

from pathlib import Path
from typing import Annotated, Final

import typer

from lexergy.cli.evaluate import evaluate_recipe
from lexergy.cli.options import Device, Dtype, Json, Quiet, Seed, Set
from lexergy.cli.output import say
from lexergy.cli.train import with_seed

RECIPE: Final = "generation/demo"


def demo(
    out: Annotated[Path, typer.Option(help="The run's folder; what is done there already is not done again.")] = Path(
        "runs/demo"
    ),
    set: Set = None,
    quiet: Quiet = False,
    json: Json = False,
    seed: Seed = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Train a small language model and an energy for it, and show what the energy adds."""
    import lexergy as lx

    changes = with_seed(set, seed)
    options = {"quiet": quiet, "device": device, "dtype": dtype}
    say(f"Training in {out}: a language model, mined negatives, an energy.")
    lx.train(RECIPE, changes, out, **options)
    say("Measuring on held-out text.")
    evaluate_recipe(RECIPE, changes, out, json, options)
