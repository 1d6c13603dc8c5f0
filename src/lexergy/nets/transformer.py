"""One transformer, causal or bidirectional: h ← h + A(norm h), h ← h + F(norm h), rotary positions, GELU, no biases.

A Hugging Face model like any other (`save_pretrained`, key-value cache, `attention_mask`), so that the rest of the
library has one way to read a network. Its products are few and wide: queries, keys and values come from one matrix,
and no mask is built where none is needed. Measured on two cores, layer norm and GELU cost less under autograd than RMS
norm and gated units do.

Shapes (`presets`): tiny is for tests and the demo, small for two cores, gpu and paper for one large accelerator.

Inputs: `attention_mask [batch, time]`, True at real tokens, on whichever side the padding is; or `[batch, 1, queries,
keys]`, True where a query may look (in floating point: what is added to the scores), which then is the whole rule.
`segments [batch, time]` numbers packed documents, and attention never crosses from one to another.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast, MaskedLMOutput

from lexergy.core.errors import LexergyError, unknown
from lexergy.core.types import Direction
from lexergy.nets.attention import attend, rotary, turn

PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    "small": {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4},
    "medium": {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8},
    "gpu": {"hidden_size": 512, "num_hidden_layers": 12, "num_attention_heads": 8},
    "paper": {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16},
}
"""Sizes by name; the feed-forward part is four times as wide."""


class TransformerConfig(PreTrainedConfig):
    """What makes a transformer of ours: sizes, whether it looks ahead, and which way it was trained to read."""

    model_type = "lexergy"

    def __init__(
        self,
        vocab_size: int = 8192,
        hidden_size: int = 256,
        num_hidden_layers: int = 6,
        num_attention_heads: int = 4,
        intermediate_size: int | None = None,
        max_position_embeddings: int = 1024,
        causal: bool = True,
        direction: Direction = "left_to_right",
        dropout: float = 0.0,
        rope_theta: float = 10_000.0,
        tie_word_embeddings: bool = True,
        **kwargs: Any,
    ) -> None:
        if hidden_size % (2 * num_attention_heads):
            raise LexergyError(
                f"hidden_size must be a multiple of twice num_attention_heads (rotary positions turn pairs); received "
                f"{hidden_size} and {num_attention_heads}."
            )
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size or 4 * hidden_size
        self.max_position_embeddings = max_position_embeddings
        self.causal = causal
        self.direction = direction
        self.dropout = dropout
        self.rope_theta = rope_theta
        super().__init__(**{"tie_word_embeddings": tie_word_embeddings, **kwargs})


def preset(size: str, **changes: Any) -> TransformerConfig:
    """A configuration by size, with changes."""
    if size not in PRESETS:
        raise unknown("size", size, PRESETS)
    return TransformerConfig(**{**PRESETS[size], **changes})


class _Writer(nn.Linear):
    """A matrix that writes into the residual stream: the deeper the network, the smaller it starts."""


class Block(nn.Module):
    """One layer."""

    def __init__(self, config: TransformerConfig, index: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.index = index
        self.heads = config.num_attention_heads
        self.causal = config.causal
        self.dropout = config.dropout
        self.attention_norm = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = _Writer(width, width, bias=False)
        self.feedforward_norm = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, config.intermediate_size, bias=False)
        self.down = _Writer(config.intermediate_size, width, bias=False)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        cosine: Tensor,
        sine: Tensor,
        visible: Bool[Tensor, "#batch 1 #queries keys"] | None,
        cache: Cache | None,
    ) -> Float[Tensor, "batch time width"]:
        qkv = self.qkv(self.attention_norm(x))
        qkv = rearrange(qkv, "batch time (part heads width) -> part batch heads time width", part=3, heads=self.heads)
        (q, k), v = turn(qkv[:2], cosine, sine), qkv[2]
        if cache is not None:
            k, v = cache.update(k, v, self.index)
        mixed = attend(q, k, v, visible, causal=visible is None and self.causal and x.shape[1] > 1)
        x = x + self._drop(self.out(rearrange(mixed, "batch heads time width -> batch time (heads width)")))
        hidden = F.gelu(self.up(self.feedforward_norm(x)), approximate="tanh")
        return x + self._drop(self.down(hidden))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class _Base(PreTrainedModel):
    """What Hugging Face needs to know of all three classes."""

    config_class = TransformerConfig
    base_model_prefix = "model"
    _no_split_modules = ["Block"]  # noqa: RUF012  the name and kind are Hugging Face's
    _supports_sdpa = True
    config: TransformerConfig

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, _Writer):
            nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * self.config.num_hidden_layers))
        elif isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)


class TransformerModel(_Base):
    """The trunk: token ids to states."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embedding = value

    def forward(
        self,
        input_ids: Int[Tensor, "batch time"],
        attention_mask: Tensor | None = None,
        position_ids: Int[Tensor, "some time"] | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        segments: Int[Tensor, "batch time"] | None = None,
        output_hidden_states: bool = False,
        **_: Any,
    ) -> BaseModelOutputWithPast:
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        time = input_ids.shape[1]
        if past + time > self.config.max_position_embeddings:
            raise LexergyError(
                f"A text of {past + time} tokens is longer than the {self.config.max_position_embeddings} that this "
                "network was made for. Cut it, or score it in windows."
            )
        if position_ids is None:
            position_ids = torch.arange(past, past + time, device=input_ids.device)[None]
        width = self.config.hidden_size // self.config.num_attention_heads
        cosine, sine = rotary(position_ids, width, self.config.rope_theta)
        visible = self._visible(attention_mask, segments, past, time, input_ids.device)
        x = self.embedding(input_ids)
        if torch.is_autocast_enabled(x.device.type):
            # The residual stream in the products' dtype: half the traffic of everything that is not a product.
            x = x.to(torch.get_autocast_dtype(x.device.type))
        if self.config.dropout:
            x = F.dropout(x, self.config.dropout, self.training)
        states = [x] if output_hidden_states else None
        for block in self.blocks:
            x = block(x, cosine, sine, visible, past_key_values)
            if states is not None:
                states.append(x)
        x = self.norm(x)
        if states is not None:
            states[-1] = x
        return BaseModelOutputWithPast(
            last_hidden_state=x,
            past_key_values=past_key_values,
            hidden_states=tuple(states) if states is not None else None,
        )

    def _visible(
        self, mask: Tensor | None, segments: Tensor | None, past: int, time: int, device: torch.device
    ) -> Bool[Tensor, "#batch 1 #queries keys"] | None:
        """Which keys each query may look at, or None where the kernel's own causal rule (or none) says it all.

        A causal network over texts that start at column 0 needs no mask at all: padding on the right is never seen.
        """
        keys = past + time
        visible: Tensor | None = None
        if mask is not None and mask.ndim == 4:
            visible = mask == 0 if mask.is_floating_point() else mask.bool()
        elif mask is not None and not bool(mask.all()):
            starts_at_zero = bool(mask[:, 0].all()) and bool((mask[:, 1:] <= mask[:, :-1]).all())
            if not (self.config.causal and past == 0 and starts_at_zero):
                visible = mask.bool()[:, None, None, :]
        if segments is not None:
            same = segments[:, None, :, None] == segments[:, None, None, :]
            visible = same if visible is None else visible & same
        if visible is None and not (self.config.causal and past and time > 1):
            return None
        if self.config.causal and (visible is None or mask is None or mask.ndim != 4):
            order = torch.ones(time, keys, dtype=torch.bool, device=device).tril(past)[None, None]
            visible = order if visible is None else visible & order
        assert visible is not None
        # A padded query that sees nothing would be NaN, and NaN spreads through gradients: let it see everything.
        return visible | ~visible.any(-1, keepdim=True)


class TransformerForCausalLM(_Base):
    """A language model, either way: `config.direction` says on which side of a text its prompt stands."""

    _tied_weights_keys = {"lm_head.weight": "model.embedding.weight"}  # noqa: RUF012

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.model = TransformerModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.lm_head = new_embeddings

    def forward(
        self, input_ids: Int[Tensor, "batch time"], logits_to_keep: int = 0, **inputs: Any
    ) -> CausalLMOutputWithPast:
        out = self.model(input_ids, **inputs)
        states = out.last_hidden_state[:, -logits_to_keep:] if logits_to_keep else out.last_hidden_state
        return CausalLMOutputWithPast(
            logits=self.lm_head(states), past_key_values=out.past_key_values, hidden_states=out.hidden_states
        )


class TransformerForMaskedLM(_Base):
    """A masked language model: the trunk looks both ways."""

    _tied_weights_keys = {"lm_head.weight": "model.embedding.weight"}  # noqa: RUF012

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.model = TransformerModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.lm_head = new_embeddings

    def forward(self, input_ids: Int[Tensor, "batch time"], **inputs: Any) -> MaskedLMOutput:
        out = self.model(input_ids, **inputs)
        return MaskedLMOutput(logits=self.lm_head(out.last_hidden_state), hidden_states=out.hidden_states)
