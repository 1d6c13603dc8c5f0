"""Whether a checkpoint may run in bf16: what it says of some tokens is compared with what it says in float32, once.

    mean_t | log p_bf16(t) − log p_float32(t) | ≤ 0.05 a token                       (SmolLM2-135M's own pass: 0.027)

A network without a vocabulary is compared by its last states, ‖h_bf16 − h_float32‖ ≤ 0.05 · ‖h_float32‖. The verdict is kept in
the cache folder under the checkpoint's fingerprint; networks above `LARGEST` parameters are believed, since reading one a
second time in float32 could exhaust the memory that bf16 was chosen to save.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lexergy.core import files
from lexergy.core.cache import cache_folder
from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed
from lexergy.engine.probe import AGREEMENT, agrees

LARGEST: Final = 1_500_000_000
TEXTS, TOKENS = 4, 48


def trusted(model: PreTrainedModel, name: str, in_float32: Callable[[], PreTrainedModel]) -> bool:
    """Whether a network read in bf16 says what it says in float32. `in_float32` reads it again, where that is needed.

    `name`: a hash of its weights, under which the verdict is kept.
    """
    if sum(parameter.numel() for parameter in model.parameters()) > LARGEST:
        return True
    kept = cache_folder() / "agreement" / f"{name}.json"
    verdict = _kept(kept)
    if verdict is None:
        verdict = _compared(_said(in_float32()), _said(model))
        _keep(kept, verdict)
    return verdict


def _said(model: PreTrainedModel) -> Tensor:
    """What a network says of fixed random ids: log-probabilities of the next ones, or its last states."""
    vocabulary = int(model.config.get_text_config().vocab_size)
    ids = Keyed.of(0, "agreement").integers(vocabulary, TEXTS * TOKENS)[0].view(TEXTS, TOKENS).to(model.device)
    with torch.no_grad():
        out = model(input_ids=ids)
        if "logits" not in out:
            return out.last_hidden_state.float().cpu()
        log_p = torch.log_softmax(out.logits[:, :-1].float(), dim=-1)
    return log_p.gather(2, ids[:, 1:, None]).squeeze(2).cpu()


def _compared(reference: Tensor, candidate: Tensor) -> bool:
    if reference.ndim == 2:
        return agrees(reference, candidate)
    return bool((candidate - reference).norm() <= AGREEMENT * reference.norm())


def _kept(file: Path) -> bool | None:
    """The verdict in the cache; a file that cannot be read or makes no sense is no verdict."""
    try:
        content = files.read_json(file)
    except (LexergyError, OSError):
        return None
    found = content.get("agrees") if isinstance(content, dict) else None
    return found if isinstance(found, bool) else None


def _keep(file: Path, verdict: bool) -> None:
    """A cache that cannot be written is no error: the comparison is made again."""
    try:
        files.write_json(file, {"agrees": verdict, "limit": AGREEMENT})
    except LexergyError:
        return
