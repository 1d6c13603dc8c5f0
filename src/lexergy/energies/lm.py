"""A language model's own judgement: E(x) = −log P_LM(x | c), summed over the text's tokens.

Relations: with this energy at weight λ, a joint model over the same language model is P_LM^(1+λ), up to Z. It is a normalised
law by itself: Z = 1 over texts of that space.

Example:

    energy = lx.load_energy("HuggingFaceTB/SmolLM2-135M", kind="lm")

Not to be confused with: the mean log-probability a token, which prefers short texts less and is no energy of a text.
"""

from pathlib import Path
from typing import Any, final

from jaxtyping import Float
from torch import Tensor

from lexergy.core import random, toy
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy, Windows
from lexergy.engine.language_model import LanguageModel
from lexergy.engine.load import Loaded, load, quiet
from lexergy.engine.probe import Plan, plan
from lexergy.nets.transformer import TransformerForCausalLM, preset
from lexergy.text.joint import Encoded, encode
from lexergy.text.tokenisers import character_tokenizer


@final
class LM(Energy):
    """Minus the log-likelihood."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__()
        self.lm = LanguageModel(loaded)
        self.network = loaded.model  # registered, so that evaluation mode and devices reach it
        self.tokenizer = loaded.tokenizer

    @property
    def plan(self) -> Plan:
        return self.lm.plan

    @property
    def longest(self) -> int | None:
        return self.lm.longest

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        return -self.lm.token_log_prob(tokens).double().sum(1)

    def encode(self, texts: Any, contexts: Any) -> list[Encoded]:
        assert self.tokenizer is not None
        return [self._started(one) for one in encode(self.tokenizer, texts, contexts)]

    def _started(self, one: Encoded) -> Encoded:
        """A text with nothing before it is read after the token that texts start from."""
        if one.free_from > 0 or self.lm.start is None:
            return one
        return Encoded([self.lm.start, *one.ids], 1, one.free_to + 1, [(0, 0), *one.offsets])

    def _rows(self, one: Encoded, windows: Windows | None) -> list[tuple[list[int], int, int]]:
        """A long text is a strided sum: each token is scored once, after at least half a window of what stands before it."""
        longest = self.longest
        if longest is None or len(one.ids) <= longest:
            return super()._rows(one, windows)
        rows, at, stride = [], one.free_from, max(1, longest // 2)
        while at < one.free_to:
            end = min(one.free_to, longest if not rows and at < longest else at + stride)
            begin = max(0, end - longest)
            rows.append((one.ids[begin:end], at - begin, end - begin))
            at = end
        return rows

    def _score_block(self, texts: list[str], contexts: list[str], windows: Windows | None) -> Float[Tensor, "batch"]:
        return super()._score_block(texts, contexts, windows or "sum")

    def score_tokens(self, text: str, context: str = "") -> list[tuple[str, float]]:
        one = self.encode([text], [context])[0]
        whole, found = context + text, []
        for ids, start, end in self._rows(one, "sum"):
            tokens = Tokens.of([ids], [start])
            tokens.free[:, end:] = False
            found += (-self.lm.token_log_prob(tokens)[0, start:end]).tolist()
        offsets = one.offsets[one.free_from : one.free_to]
        return [(whole[a:b], value) for (a, b), value in zip(offsets, found, strict=True)]

    def config(self) -> dict[str, Any]:
        return {}

    def save_parts(self, folder: Path) -> None:
        assert self.tokenizer is not None
        with quiet():
            self.network.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @classmethod
    def load(cls, folder: Path, config: dict[str, Any], **options: Any) -> "LM":  # noqa: ARG003  nothing else to read
        return cls(load(folder, "causal", **options))


def tiny() -> LM:
    """A random transformer over the toy alphabet."""
    tokenizer = character_tokenizer(toy.LETTERS)
    config = preset("tiny", vocab_size=len(tokenizer), hidden_size=16, num_attention_heads=2, tie_word_embeddings=False, eos_token_id=tokenizer.eos_token_id)
    with random.seeded(0, "tiny lm energy"):
        model = TransformerForCausalLM(config).double().eval()
    for weight in (model.model.embedding.weight, model.lm_head.weight):
        weight.data *= 20
    return LM(Loaded(model, tokenizer, plan(), "tiny", "object"))
