"""A causal network as a law over texts: log P(x | c) = Σ_t log P(x_t | c, x_<t), whichever way it reads.

One place knows how a checkpoint is read: where its texts start, which ids end them, how long they may be, in which
direction it was trained, and how its states meet the vocabulary. Proposals draw through it, energies score through it.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from lexergy.core.errors import LexergyError
from lexergy.core.types import Direction, Tokens
from lexergy.engine import score, vocabulary
from lexergy.engine.load import Loaded, evaluating, fingerprint, positions
from lexergy.text.joint import Bos, Encoded, begun, encode, start_of


class LanguageModel:
    """A loaded causal network with the facts of its checkpoint."""

    def __init__(self, loaded: Loaded, eos: Sequence[int] | int | None = None) -> None:
        self.model: PreTrainedModel = loaded.model
        self.tokenizer = loaded.tokenizer
        self.plan = loaded.plan
        self.name, self.revision = loaded.name, loaded.revision
        head = self.model.get_output_embeddings()
        if head is None:
            raise LexergyError(
                f"{self.name} has no output vocabulary, so it is no language model. Load one made for causal language "
                "modelling."
            )
        self.eos = self._eos(eos)
        self.vocabulary = int(head.get_parameter("weight").shape[0])
        if not looks_back_only(self.model, self.vocabulary):
            raise LexergyError(
                f"{self.name} looks ahead, so it is no language model that writes: what it calls the probability of a token "
                "has seen that token. Load one made for causal language modelling."
            )
        self.longest: int | None = positions(self.model)
        self.direction: Direction = getattr(self.model.config.get_text_config(), "direction", "left_to_right")
        self.head = plain_head(self.model)

    @property
    def device(self) -> torch.device:
        """Where the network is now."""
        return self.model.device

    @property
    def dtype(self) -> str:
        """The name of the dtype that its weights have now."""
        return str(self.model.dtype).removeprefix("torch.")

    @cached_property
    def hash(self) -> str:
        """A hash of the weights, independent of the dtype they are held in."""
        return fingerprint(self.model)

    def _eos(self, given: Sequence[int] | int | None) -> tuple[int, ...]:
        """The ids that end a text: those given, else the configuration's, else the tokenizer's."""
        config = self.model.config
        stated = [getattr(one, "eos_token_id", None) for one in (config, config.get_text_config(), self.tokenizer)]
        found: Any = next((one for one in [given, *stated] if one is not None), ())
        return (found,) if isinstance(found, int) else tuple(found)

    def start(self, bos: Bos = "auto") -> int:
        """The id that nothing stands for: the tokenizer's BOS, else the first EOS (texts were joined by it)."""
        first = start_of(self.tokenizer, self.eos)
        if first is None or bos == "never":
            raise LexergyError(
                f"An empty prompt or context has nothing to start from: {self.name} has no BOS or EOS token, or "
                "bos='never' was asked for. Give at least one token."
            )
        return first

    def check_length(self, tokens: int) -> None:
        """Refuse what the network was not made for, rather than cut it."""
        if self.longest is not None and tokens > self.longest:
            raise LexergyError(
                f"{tokens} tokens do not fit the {self.longest} positions of {self.name}. Shorten the prompt or ask "
                "for fewer new tokens."
            )

    def encode(self, texts: Sequence[str], contexts: Sequence[str], bos: Bos = "auto") -> list[Encoded]:
        """Context and text tokenised together, with the token that an empty context stands for put in.

        Read right to left, the context is what stands behind the text.
        """
        if self.direction == "right_to_left":
            return self._encode_before(texts, contexts, bos)
        found = encode(self.tokenizer, texts, contexts, bos=bos)
        return [begun(one, self.start(bos)) if one.free_from == 0 else one for one in found]

    def _encode_before(self, texts: Sequence[str], contexts: Sequence[str], bos: Bos) -> list[Encoded]:
        """A token across the border is the text's here too. What the tokenizer would put in front is left out: a BOS
        there would stand behind all that is written."""
        wholes = [text + context for text, context in zip(texts, contexts, strict=True)]
        found = []
        for text, one in zip(texts, encode(self.tokenizer, wholes, [""] * len(wholes), bos="never"), strict=True):
            end = sum(begin < len(text) for begin, _ in one.offsets)
            ids, offsets = one.ids, one.offsets
            if end == len(ids):
                ids, offsets = [*ids, self.start(bos)], [*offsets, (len(text), len(text))]
            found.append(Encoded(ids, 0, end, offsets))
        return found

    def oriented(self, tokens: Tokens) -> Tokens:
        """Tokens as the network reads them: a right-to-left model reads each text from its end."""
        if self.direction == "left_to_right":
            return tokens.left_aligned()
        flipped = Tokens(tokens.ids.flip(1), tokens.mask.flip(1), tokens.free.flip(1))
        return flipped.left_aligned()

    def token_log_prob(self, tokens: Tokens) -> Float[Tensor, "batch time"]:
        """log P of each free token given all that the network read before it, in reading order; 0 elsewhere.

        Only the rows before a free token meet the vocabulary. A free token that nothing stands before has no
        probability and is refused: give a context, or a tokenizer with BOS.
        """
        read = self.oriented(tokens)
        wanted = read.free & read.mask
        if bool(wanted[:, :1].any()):
            raise LexergyError(
                "The first token of a text has no probability: nothing stands before it. Give a context, or "
                "bos='always'."
            )
        before = torch.nn.functional.pad(wanted[:, 1:], (0, 1))
        found = self._log_prob_after(read, before, read.ids[wanted])
        out = torch.zeros(wanted.shape, dtype=found.dtype, device=self.device)
        out[wanted.to(self.device)] = found
        return self._restored(tokens, read, out)

    def _log_prob_after(
        self, read: Tokens, at: Bool[Tensor, "batch time"], targets: Int[Tensor, "rows *each"]
    ) -> Float[Tensor, "rows *each"]:
        """log P of tokens that come next after the places `at`, one place a row; targets row by row."""
        self.check_length(read.ids.shape[1])
        ids, mask, at, targets = (one.to(self.device) for one in (read.ids, read.mask, at, targets))
        # Without padding there is nothing to mask, and every family then takes its fastest path.
        attention = None if bool(mask.all()) else mask.long()
        with torch.no_grad(), evaluating(self.model):
            if self.head is not None:
                states = self.model.base_model(input_ids=ids, attention_mask=attention, use_cache=False)
                return vocabulary.token_log_prob(self.head, states.last_hidden_state[at], targets, self.vocabulary)
            # A model's own pass makes the logits of every place: so few texts at once that these stay one chunk.
            texts = max(1, vocabulary.chunk_rows(self.vocabulary, self.device) // max(1, ids.shape[1]))
            found, done = [torch.zeros(0, *targets.shape[1:], device=self.device)], 0
            for start in range(0, len(ids), texts):
                part = slice(start, start + texts)
                padded = None if attention is None else attention[part]
                logits = self.model(input_ids=ids[part], attention_mask=padded, use_cache=False).logits[at[part]]
                here = targets[done : done + len(logits)]
                found.append(vocabulary.token_log_prob(lambda rows: rows, logits, here, self.vocabulary))
                done += len(logits)
            return torch.cat(found)

    def _restored(self, tokens: Tokens, read: Tokens, values: Tensor) -> Tensor:
        """Values back from the network's order to the places the tokens were given in."""
        out = torch.zeros(tokens.ids.shape, dtype=values.dtype, device=values.device)
        mask = (tokens.mask if self.direction == "left_to_right" else tokens.mask.flip(1)).to(values.device)
        out[mask] = values[read.mask.to(values.device)]
        return out if self.direction == "left_to_right" else out.flip(1)

    def log_prob(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        """log P of each row's free tokens, batched by token budget, float64."""
        return score.score(lambda batch: self.token_log_prob(batch).double().sum(1), tokens, self.plan.tokens)

    def log_prob_rows(self, rows: Sequence[tuple[Sequence[int], int, int]]) -> Float[Tensor, "batch"]:
        """The same for ragged rows (ids, free from, free to)."""
        return score.score_rows(lambda batch: self.token_log_prob(batch).double().sum(1), rows, self.plan.tokens)

    def end_log_prob(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        """log of the probability that each text ends where its real tokens end: any of the EOS ids counts."""
        if not self.eos:
            raise LexergyError(
                f"{self.name} has no EOS token, so no text of it ends. Pass eos= when loading it, or eos=False here."
            )
        ends = torch.tensor(self.eos)

        def run(batch: Tokens) -> Tensor:
            read = self.oriented(batch)
            last = torch.arange(read.ids.shape[1], device=read.mask.device) == read.lengths[:, None] - 1
            return torch.logsumexp(self._log_prob_after(read, last, ends.expand(len(read), -1)).double(), dim=-1)

        return score.score(run, tokens, self.plan.tokens)


@torch.no_grad()
def looks_back_only(model: PreTrainedModel, vocabulary: int) -> bool:
    """Whether what stands behind a token changes nothing at it. transformers loads encoders as language models, too."""
    ids = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 4]], device=model.device)
    with evaluating(model):
        logits = model(input_ids=ids.remainder(vocabulary), use_cache=False).logits[:, :-1].float()
    return float((logits[0] - logits[1]).abs().max()) <= 1e-5 * float(logits.abs().max())


def plain_head(model: PreTrainedModel) -> nn.Module | None:
    """The output matrix, if what it makes of the trunk's states is what the model calls its logits; else None.

    Some families scale or squash their logits after the product, or change the states before it. One small forward pass
    is watched: only where the matrix reads the trunk's states, and what it makes are the logits to the bit, may it be
    used by itself; anywhere else the model's own full forward pass must be, which is right for anything.
    """
    head, trunk = model.get_output_embeddings(), model.base_model
    if head is None or trunk is model:
        return None
    seen: dict[str, Tensor] = {}

    def watch(_module: Any, args: tuple[Tensor, ...], out: Tensor) -> None:
        seen.update({"read": args[0].float(), "made": out.float()})

    ids = torch.arange(4, device=model.device).remainder(head.get_parameter("weight").shape[0])[None]
    watching = head.register_forward_hook(watch)
    try:
        with torch.no_grad(), evaluating(model):
            states = trunk(input_ids=ids, use_cache=False).last_hidden_state.float()
            logits = model(input_ids=ids, use_cache=False).logits.float()
    finally:
        watching.remove()
    if not seen or seen["read"].shape != states.shape or not torch.equal(seen["made"], logits):
        return None
    # Two passes of one network, which on a GPU need not be the same to the bit.
    return head if float((seen["read"] - states).abs().max()) <= 0.01 * float(states.abs().max()) else None
