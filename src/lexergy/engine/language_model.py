"""A causal network as a law over texts: log P(x | c) = Σ_t log P(x_t | c, x_<t), whichever way it reads.

One place knows how a checkpoint is read: where its texts start, which ids end them, how long they may be, in which
direction it was trained, and how its states meet the vocabulary. Proposals draw through it, energies score through it.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from lexergy.core.errors import LexergyError
from lexergy.core.types import Direction, Tokens
from lexergy.engine import score, vocabulary
from lexergy.engine.load import Loaded, evaluating, fingerprint

class LanguageModel:
    """A loaded causal network with the facts of its checkpoint."""

    def __init__(self, loaded: Loaded, eos: Sequence[int] | int | None = None) -> None:
        self.model: PreTrainedModel = loaded.model
        self.tokenizer = loaded.tokenizer
        self.plan = loaded.plan
        self.name, self.revision = loaded.name, loaded.revision
        self.device = self.model.device
        self.dtype = str(self.model.dtype).removeprefix("torch.")
        if self.model.get_output_embeddings() is None:
            raise LexergyError(
                f"{self.name} has no output vocabulary, so it is no language model. Load one made for causal language modelling."
            )
        self.eos = self._eos(eos)
        config = self.model.config.get_text_config()
        self.vocabulary = int(self.model.get_output_embeddings().weight.shape[0])  # type: ignore[union-attr]
        self.longest: int | None = getattr(config, "max_position_embeddings", None)
        self.direction: Direction = getattr(config, "direction", "left_to_right")
        self._head = self._find_head()

    @cached_property
    def hash(self) -> str:
        """A hash of the weights, independent of the dtype they are held in."""
        return fingerprint(self.model)

    def _eos(self, given: Sequence[int] | int | None) -> tuple[int, ...]:
        """The ids that end a text: those given, else the configuration's, else the tokenizer's."""
        found = given
        if found is None:
            found = self.model.config.get_text_config().eos_token_id
        if found is None:
            found = self.tokenizer.eos_token_id
        if found is None:
            return ()
        return (found,) if isinstance(found, int) else tuple(found)

    @property
    def start(self) -> int | None:
        """The id that an empty prompt stands for: the tokenizer's BOS, else the first EOS (texts were joined by it)."""
        return self.tokenizer.bos_token_id if self.tokenizer.bos_token_id is not None else next(iter(self.eos), None)

    def check_length(self, tokens: int) -> None:
        """Refuse what the network was not made for, rather than cut it."""
        if self.longest is not None and tokens > self.longest:
            raise LexergyError(
                f"{tokens} tokens do not fit the {self.longest} positions of {self.name}. Shorten the prompt or ask for "
                "fewer new tokens."
            )

    def _find_head(self) -> Callable[[Tensor], Tensor] | None:
        """The function from states to logits, if states times the output matrix is what this model does.

        Some families scale or squash their logits after the product. One small forward pass tells; where the two differ
        the model's own full forward pass is used, which is right for anything.
        """
        head = self.model.get_output_embeddings()
        trunk = self.model.base_model
        if head is None or trunk is self.model:
            return None
        ids = torch.arange(4, device=self.device).remainder(self.vocabulary)[None]
        with torch.no_grad(), evaluating(self.model):
            states = trunk(input_ids=ids, use_cache=False).last_hidden_state
            own = self.model(input_ids=ids, use_cache=False).logits
            if states.shape[-1] != head.weight.shape[-1]:  # type: ignore[union-attr]
                return None
            close = torch.allclose(head(states).float(), own.float(), atol=1e-2, rtol=1e-2)
        return head if close else None  # type: ignore[return-value]

    def oriented(self, tokens: Tokens) -> Tokens:
        """Tokens as the network reads them: a right-to-left model reads each text from its end."""
        if self.direction == "left_to_right":
            return tokens.left_aligned()
        flipped = Tokens(tokens.ids.flip(1), tokens.mask.flip(1), tokens.free.flip(1))
        return flipped.left_aligned()

    def token_log_prob(self, tokens: Tokens) -> Float[Tensor, "batch time"]:
        """log P of each free token given all that the network read before it, in reading order; 0 elsewhere.

        Only the rows before a free token meet the vocabulary. A free token that nothing stands before has no probability
        and is refused: give a context, or a tokenizer with BOS.
        """
        read = self.oriented(tokens)
        wanted = read.free & read.mask
        if bool(wanted[:, 0].any()):
            raise LexergyError(
                "The first token of a text has no probability: nothing stands before it. Give a context, or bos='always'."
            )
        self.check_length(read.ids.shape[1])
        states_at = wanted[:, 1:]
        ids, mask = read.ids.to(self.device), read.mask.to(self.device)
        # Without padding there is nothing to mask, and every family then takes its fastest path.
        attention = None if bool(mask.all()) else mask.long()
        targets = ids[:, 1:][states_at.to(self.device)]
        with torch.no_grad(), evaluating(self.model):
            if self._head is not None:
                states = self.model.base_model(input_ids=ids, attention_mask=attention, use_cache=False).last_hidden_state
                found = vocabulary.token_log_prob(self._head, states[:, :-1][states_at.to(self.device)], targets, self.vocabulary)
            else:
                logits = self.model(input_ids=ids, attention_mask=attention, use_cache=False).logits
                rows = logits[:, :-1][states_at.to(self.device)]
                found = vocabulary.token_log_prob(lambda x: x, rows, targets, self.vocabulary)
        out = torch.zeros(wanted.shape, dtype=found.dtype, device=self.device)
        out[:, 1:][states_at.to(self.device)] = found
        return self._restored(tokens, read, out)

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
            raise LexergyError(f"{self.name} has no EOS token, so no text of it ends. Pass eos= when loading it, or eos=False here.")

        def run(batch: Tokens) -> Tensor:
            read = self.oriented(batch)
            ids, mask = read.ids.to(self.device), read.mask.to(self.device)
            with torch.no_grad(), evaluating(self.model):
                logits = self.model(
                    input_ids=ids, attention_mask=None if bool(mask.all()) else mask.long(), use_cache=False
                ).logits
            last = logits[torch.arange(len(read), device=self.device), read.lengths.to(self.device) - 1]
            log_p = torch.log_softmax(last.to(torch.promote_types(last.dtype, torch.float32)), dim=-1)
            return torch.logsumexp(log_p[:, list(self.eos)].double(), dim=-1)

        return score.score(run, tokens, self.plan.tokens)
