"""The options that verbs share, each written once: the Python argument's name with dashes, and what it means."""

from enum import StrEnum
from typing import Annotated

import typer

Json = Annotated[
    bool, typer.Option("--json", help="JSON on standard output and nothing else there: an object, or one a line.")
]
Seed = Annotated[int | None, typer.Option(help="What random numbers start from; default: drawn, and recorded.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; default: what is best.")]
Dtype = Annotated[
    str | None, typer.Option(help="float32 (exact) or bfloat16; default: the fastest that agrees with float32.")
]
Revision = Annotated[str | None, typer.Option(help="Which revision of a Hub model.")]
Attention = Annotated[
    str | None,
    typer.Option("--attn-implementation", help="How attention is computed, as transformers names it."),
]
LanguageModel = Annotated[str | None, typer.Option("--lm", help="The language model: a folder or a Hub id.")]
EnergyPlace = Annotated[str | None, typer.Option("--energy", help="The energy: a folder or a Hub id.")]
Kind = Annotated[
    str | None, typer.Option(help="What a checkpoint that was not saved as an energy is meant as: lm, say.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Change one value; may be repeated.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Temperature = Annotated[float, typer.Option(help="Of the law drawn by; 1 is the model's own.")]
TopK = Annotated[int, typer.Option(help="Draw among the k likeliest tokens only; 0: among all.")]
TopP = Annotated[float, typer.Option(help="Draw among the likeliest tokens that hold this share; 1: among all.")]


class Space(StrEnum):
    """The spaces of continuations."""

    fixed = "fixed"
    until_eos = "until_eos"


class Windows(StrEnum):
    """How the parts of a text that is too long are put together."""

    sum = "sum"
    mean = "mean"


class Base(StrEnum):
    """What weights are relative to."""

    draw = "draw"
    full = "full"


class Pooling(StrEnum):
    """How a network's states become one."""

    mean = "mean"
    first = "first"


class Form(StrEnum):
    """The two forms of noise-contrastive estimation with several negatives."""

    mean = "mean"
    sum = "sum"
