"""What this machine does best, measured once per machine and model shape: device, dtype, tokens a batch.

Equations, for a shape of width d, feed-forward width f, L layers and V words, and s bytes a number:

    dtype         = bfloat16 on a GPU that has it, and on a CPU where a product is ≥ 1.2 times as fast in it
    best          = the least of n = 512, 1024, … tokens whose rate is within 5 % of the highest
    bytes a token = s·(8·d + 3·f + 2·L·d)
    weights       = s·(L·(4·d² + 3·d·f) + V·d)
    tokens        = min(best, (free memory / 2 − weights) / bytes a token), held down to a power of two

Bytes a token counts a pass without gradients: eight vectors of the residual stream (itself, its norm,
queries, keys, values, the heads' output, its projection, a spare), a gated feed-forward part, and the keys
and values that all layers keep. The vocabulary is met in chunks of their own (`engine.vocabulary`), and
attention is taken to be fused: both come out of the half of the free memory that is not counted on. Where a
batch does not fit all the same, it is halved (`engine.budget`). Training keeps more a token, and its batches are the user's.

The measurement is kept in the user's cache folder; what memory is free is asked each time.
`LEXERGY_PROBE=off` pins device, dtype and tokens and measures nothing; `fresh=True` measures again.
"""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from lexergy.core.errors import LexergyError, unknown
from lexergy.engine.machine import free_memory
from lexergy.engine.measure import DTYPES, Measured

FASTER: Final = 1.2
"""How many times as fast bfloat16 must be on a CPU: less is within what a busy machine gets wrong."""

PINNED_TOKENS: Final = 4096
SMALLEST_TOKENS: Final = 64

AGREEMENT: Final = 0.05
"""How far bfloat16 may move a token's log-probability on average. SmolLM2-135M's own pass: 0.027."""

_FIELDS: Final = {
    "width": ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "width"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "layers"),
    "feedforward": (
        *("intermediate_size", "ffn_dim", "d_ff", "n_inner", "d_inner", "ffn_hidden_size"),
        *("hidden_dim", "encoder_ffn_dim", "feedforward"),
    ),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "heads"),
    "vocabulary": ("vocab_size", "n_words", "vocabulary"),
}
_WITHIN: Final = ("text_config", "decoder", "encoder")


@dataclass(frozen=True)
class Shape:
    """The sizes of a transformer that its speed and its memory depend on."""

    width: int
    layers: int
    feedforward: int
    heads: int
    vocabulary: int

    @staticmethod
    def of(config: object) -> "Shape":
        """A model's shape from its configuration, by whatever names its family uses.

        What the configuration does not state is taken from a base-sized encoder, and the feed-forward width
        from the width: this decides what is measured, never what is computed.
        """
        found = {name: _stated(config, names) for name, names in _FIELDS.items()}
        width = found["width"] or USUAL.width
        return Shape(
            width=width,
            layers=found["layers"] or USUAL.layers,
            feedforward=found["feedforward"] or 4 * width,
            heads=found["heads"] or USUAL.heads,
            vocabulary=found["vocabulary"] or USUAL.vocabulary,
        )

    def weights(self) -> int:
        """How many numbers its weights are, about."""
        layer = 4 * self.width**2 + 3 * self.width * self.feedforward
        return self.layers * layer + self.vocabulary * self.width

    def bytes_per_token(self, size: int) -> int:
        """What a token of a batch takes, with numbers of `size` bytes: the docstring above says of what."""
        return size * (8 * self.width + 3 * self.feedforward + 2 * self.layers * self.width)


USUAL: Final = Shape(width=768, layers=12, feedforward=3072, heads=12, vocabulary=32_000)


def _stated(config: object, names: Sequence[str]) -> int | None:
    """The first of these that a configuration, or its part for text, states; of a list, the largest."""
    inner = [part for part in (getattr(config, name, None) for name in _WITHIN) if part is not None]
    for part in [config, *inner]:
        for name in names:
            value = getattr(part, name, None)
            if isinstance(value, list | tuple):
                value = max((item for item in value if isinstance(item, int)), default=None)
            if isinstance(value, int) and value > 0:
                return value
    return None


@dataclass(frozen=True)
class Plan:
    """How networks are run here. `tokens`: the token budget of a batch. `rates`: GFLOP/s measured, by dtype.
    `reasons`: one sentence for each choice. `pinned`: nothing was measured, as `LEXERGY_PROBE=off` said."""

    device: str
    dtype: str
    threads: int
    tokens: int
    rates: dict[str, float]
    reasons: dict[str, str]
    pinned: bool

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch's own."""
        return DTYPES[self.dtype]

    def to_json(self) -> dict[str, Any]:
        """A plain mapping, for manifests."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> "Plan":
        """The inverse of `to_json`: a resumed run goes on as it began."""
        return Plan(**value)


def plan(shape: Shape | None = None, device: str | None = None, dtype: str | None = None, fresh: bool = False) -> Plan:
    """The plan for a model shape. None or "auto" lets the measurement choose; `fresh` measures again.

    Threads are reported as torch has them (OMP_NUM_THREADS, or one a core) and never set.
    """
    wanted = _dtype(dtype)
    pinned = os.environ.get("LEXERGY_PROBE", "").lower() == "off"
    place, why_place = _device(device, pinned)
    threads = torch.get_num_threads()
    set_by = "as OMP_NUM_THREADS says" if os.environ.get("OMP_NUM_THREADS") else "as torch has them"
    if pinned:
        why = "pinned by LEXERGY_PROBE=off"
        why_dtype = "asked for" if wanted else why
        reasons = {"device": why_place, "dtype": why_dtype, "threads": set_by, "tokens": why}
        return Plan(place, wanted or "float32", threads, PINNED_TOKENS, {}, reasons, True)
    size = shape or USUAL
    measured = Measured(place, size.width, size.feedforward, fresh)
    chosen, why_dtype = (wanted, "asked for") if wanted else _choose_dtype(place, measured)
    tokens, why_tokens = _choose_tokens(measured.sweep(chosen), size, chosen, free_memory(place))
    reasons = {"device": why_place, "dtype": why_dtype, "threads": set_by, "tokens": why_tokens}
    return Plan(place, chosen, threads, tokens, dict(measured.rates), reasons, False)


def agrees(reference: Tensor, candidate: Tensor) -> bool:
    """Whether token log-probabilities in another dtype are float32's, within `AGREEMENT` on average."""
    if reference.shape != candidate.shape or reference.numel() == 0:
        raise LexergyError(
            "Compare log-probabilities of the same tokens, one at least; received shapes "
            f"{tuple(reference.shape)} and {tuple(candidate.shape)}."
        )
    first, second = reference.double().cpu(), candidate.double().cpu()
    # −inf in both is agreement, though the difference of the two is not a number.
    moved = torch.where(first == second, 0.0, (first - second).abs())
    return bool(moved.mean() <= AGREEMENT)


def _dtype(name: str | None) -> str | None:
    if name is None or name == "auto":
        return None
    plain = name.removeprefix("torch.")
    if plain not in DTYPES:
        raise unknown("dtype", name, ["auto", *DTYPES])
    return plain


def _device(name: str | None, pinned: bool) -> tuple[str, str]:
    """The device, and why: the first GPU where there is one, unless pinned or asked otherwise."""
    if name is None or name == "auto":
        if pinned:
            return "cpu", "pinned by LEXERGY_PROBE=off"
        if torch.cuda.is_available():
            return "cuda", f"a GPU was found: {torch.cuda.get_device_name()}"
        return "cpu", "no GPU that this PyTorch can use was found"
    try:
        kind, index = torch.device(name).type, torch.device(name).index
    except RuntimeError as error:
        raise unknown("device", name, ["auto", "cpu", "cuda"]) from error
    if kind not in ("cpu", "cuda"):
        raise LexergyError(f'The device {name!r} is not one that Lexergy measures: use "cpu" or "cuda".')
    present = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "cuda" and (index or 0) >= present:
        held = f"this PyTorch ({torch.__version__}) finds {present or 'no'} GPU{'s' if present > 1 else ''}"
        raise LexergyError(
            f'The device {name!r} was asked for, but {held}. Use device="cpu", or install a PyTorch that is '
            "built for your GPU's driver."
        )
    return name, "asked for"


def _choose_dtype(place: str, measured: Measured) -> tuple[str, str]:
    plain, half = measured.rates["float32"], measured.rates["bfloat16"]
    against = f"{half:.0f} against {plain:.0f} GFLOP/s" + ("" if measured.steady else ", on a busy machine")
    said = f"bfloat16 measured {half / plain:.2g} times as fast as float32 ({against})"
    if place.startswith("cuda"):
        supported = torch.cuda.is_bf16_supported(including_emulation=False)
        return ("bfloat16", said) if supported else ("float32", "this GPU has no bfloat16 of its own")
    if half >= FASTER * plain:
        return "bfloat16", said
    return "float32", f"{said}; {FASTER:g} times is needed"


def _choose_tokens(sweep: dict[int, float], shape: Shape, dtype: str, free: int | None) -> tuple[int, str]:
    best = max(sweep.values())
    tokens = min(count for count, rate in sweep.items() if rate >= 0.95 * best)
    why = f"the smallest within 5 % of the best rate ({sweep[tokens]:.0f} of {best:.0f} GFLOP/s)"
    if free is None:
        unknown_memory = f"at most {PINNED_TOKENS}, as this system does not say what memory is free"
        return min(tokens, PINNED_TOKENS), f"{why}; {unknown_memory}"
    size, each = DTYPES[dtype].itemsize, shape.bytes_per_token(DTYPES[dtype].itemsize)
    room = max(0, free // 2 - size * shape.weights()) // each
    if room >= tokens:
        return tokens, why
    fitting = max(SMALLEST_TOKENS, 1 << (room.bit_length() - 1) if room else 0)
    short = f"held down by memory: {free / 1e9:.1f} GB free, a token takes {each / 1e3:.0f} kB"
    return min(tokens, fitting), f"{short}; {tokens} would be {why}"
