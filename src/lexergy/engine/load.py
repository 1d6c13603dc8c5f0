"""From a place (a folder, a Hub id) or a (model, tokenizer) pair to a network that is ready to be read.

Weights are safetensors, code in a checkpoint is never run. A model object keeps its dtype and is not changed in place.
"""

import dataclasses
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from lexergy.core.errors import LexergyError
from lexergy.core.random import seeded
from lexergy.engine.agreement import trusted
from lexergy.engine.measure import DTYPES
from lexergy.engine.probe import Plan, Shape, plan
from lexergy.nets.transformer import TransformerConfig, TransformerForCausalLM, TransformerForMaskedLM, TransformerModel
from lexergy.text.tokenisers import load_tokenizer

ROLES: dict[str, tuple[Any, Any]] = {
    "causal": (AutoModelForCausalLM, TransformerForCausalLM),
    "masked": (AutoModelForMaskedLM, TransformerForMaskedLM),
    "trunk": (AutoModel, TransformerModel),
}
"""What a network is loaded as: with which of Hugging Face's Auto classes, or as which of ours."""

NAMES = {"causal": "language model", "masked": "masked language model", "trunk": "network"}


@dataclass(frozen=True)
class Loaded:
    """A network, its tokenizer, where it runs and what it is called."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    plan: Plan
    name: str
    revision: str


def load(
    source: str | Path | tuple[PreTrainedModel, PreTrainedTokenizerBase],
    role: str,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    attn_implementation: str | None = None,
) -> Loaded:
    """A network in a role. A pair of objects is taken as it is; a place is read at the probe's dtype, or the one asked
    for."""
    if isinstance(source, tuple):
        model, tokenizer = source
        name = str(model.config.name_or_path or type(model).__name__)
        own = str(model.dtype).removeprefix("torch.")
        if dtype not in (None, "auto", own):
            raise LexergyError(
                f"A model object keeps its own dtype ({own}); received dtype={dtype!r}. Convert it first, or give its "
                "folder."
            )
        asked = {"device": _elsewhere(device, model), "revision": revision, "attn_implementation": attn_implementation}
        for option, value in asked.items():
            if value is not None:
                raise LexergyError(
                    f"A model object is taken as it is and where it is ({model.device}); received {option}={value!r}. Change "
                    "the object first, or give its folder."
                )
        # Of a dtype that the probe does not measure, what it knows best stands in: only the budget comes from it.
        where = plan(Shape.of(model.config), device=model.device.type, dtype=own if own in DTYPES else None)
        return Loaded(model, tokenizer, where, name, "object")
    place = str(source)
    config = configuration(place, revision)
    where = plan(Shape.of(config), device=device, dtype=dtype)
    with quiet():
        tokenizer = load_tokenizer(place, revision=revision)
    auto, own_class = ROLES[role]
    loader = own_class if isinstance(config, TransformerConfig) else auto
    options: dict[str, Any] = {
        "config": config,
        "revision": revision or "main",
        "use_safetensors": True,
        "trust_remote_code": False,
    }
    if attn_implementation is not None:
        options["attn_implementation"] = attn_implementation

    def read(of_dtype: torch.dtype) -> PreTrainedModel:
        try:
            # Seeded: what a checkpoint may lack is made up, and must be the same whenever it is read.
            with quiet(), seeded(0, "what a checkpoint lacks"):
                model, said = loader.from_pretrained(place, dtype=of_dtype, output_loading_info=True, **options)
        except (OSError, SafetensorError, RuntimeError, ValueError) as error:
            raise LexergyError(
                f"{place} did not load as a {NAMES[role]} ({_first_line(error)}). Its weights may be cut off or of another "
                "shape: save them again, or name another checkpoint."
            ) from error
        lacking = sorted(name for name in said["missing_keys"] if not (role == "trunk" and _pooler(name)))
        if lacking:
            raise LexergyError(
                f"{place} is not a whole {NAMES[role]}: its weights lack {lacking[0]!r}"
                + (f" and {len(lacking) - 1} more" if lacking[1:] else "")
                + ", which would be random. Name a checkpoint that was saved as one."
            )
        return model.to(where.device).eval()

    model = read(where.torch_dtype)
    measured = dtype in (None, "auto") and where.dtype == "bfloat16"
    if measured and not trusted(model, fingerprint(model), lambda: read(torch.float32)):
        model = read(torch.float32)
        why = "float32: in bfloat16 this checkpoint says something else"
        where = dataclasses.replace(where, dtype="float32", reasons={**where.reasons, "dtype": why})
    return Loaded(model, tokenizer, where, place, revision or "main")


def _pooler(name: str) -> bool:
    """Whether a weight belongs to the layer that some encoders put behind their states, which nothing here reads."""
    return name.split(".")[0] == "pooler"


def _elsewhere(device: str | None, model: PreTrainedModel) -> str | None:
    """The device asked for, where a model object is on another."""
    if device in (None, "auto"):
        return None
    here = model.device
    return None if device in (here.type, str(here)) else device


def configuration(place: str, revision: str | None = None) -> Any:
    """The configuration at a place: ours by its `model_type`, anything else through Hugging Face's AutoConfig."""
    try:
        with quiet():
            raw, _ = PreTrainedConfig.get_config_dict(place, revision=revision or "main")
        if not raw:
            raise OSError("it has no config.json")
        if raw.get("model_type") == TransformerConfig.model_type:
            return TransformerConfig.from_dict(raw)
        return AutoConfig.from_pretrained(place, revision=revision or "main", trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise LexergyError(
            f"There is no model at {place!r} ({_first_line(error)}). Give a folder that save_pretrained wrote, or a "
            "Hub id."
        ) from error


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """Hugging Face's own bars and notes off for the length of a block: progress is ours to show."""
    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


def positions(model: PreTrainedModel) -> int | None:
    """How many tokens of a text a network has positions for; None: as many as memory holds."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(limit, int) or limit < 1:
        return None
    for name, part in model.named_modules():
        # RoBERTa's family counts from behind the padding id, which has a position of its own.
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding) and part.padding_idx is not None:
            return limit - part.padding_idx - 1
    return limit


def fingerprint(model: nn.Module) -> str:
    """A short hash that tells one model from another, the same in float32 and in bf16.

    Every parameter gives its name, its shape, and of each block of its values two sums of integers, plain and weighted by
    place: one changed value changes it, and 10⁸ of them take a tenth of a second, on whichever device they are.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, parameter in sorted(model.named_parameters()):
        digest.update(f"{name}{tuple(parameter.shape)}".encode())
        digest.update(_checksums(parameter.detach().reshape(-1)).numpy().tobytes())
    return digest.hexdigest()


_BLOCK = 1 << 15
"""Integers of 64 bits, each four values in bf16, that are summed into one pair of numbers."""


def _checksums(flat: Tensor) -> Tensor:
    """The sums of each block, modulo 2⁶⁴, where their order cannot matter: [blocks, 2]."""
    place = 2 * torch.arange(_BLOCK, device=flat.device) + 1
    found = [torch.zeros(0, 2, dtype=torch.int64, device=flat.device)]
    for part in flat.split(256 * _BLOCK):  # so many at once that the copies made of them stay small
        values = part.to(torch.bfloat16)
        rows = nn.functional.pad(values, (0, -len(values) % (4 * _BLOCK))).view(torch.int64).view(-1, _BLOCK)
        found.append(torch.stack([rows.sum(1), (rows * place).sum(1)], dim=1))
    return torch.cat(found).cpu()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Dropout off for the length of a block, and every part given back in the mode it was found in.

    Hugging Face's notes are not heard: where padding is EOS, one says of a text that ends that it may be padded.
    """
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        with quiet():
            yield
    finally:
        for part in training:
            part.training = True
