"""One step of a network over many rows that share prompts, written out for the families whose layers are plain: Llama, Qwen2,
Mistral, and transformers of ours. Anything else is stepped through its own code (`engine.decode`).

The arithmetic is the family's own, in its own dtype; what differs is that a step is a handful of products over all rows,
and that attention reads each prompt once (`engine.prefix`). Weights are read where they are: nothing is copied or fused, so
that a network that is trained on stays right.

Relations: equals the network's own forward pass, up to rounding (tested for each family).
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformers import LlamaForCausalLM, MistralForCausalLM, PreTrainedModel, Qwen2ForCausalLM

from lexergy.engine.prefix import SharedPrefix
from lexergy.nets.attention import rotary, turn
from lexergy.nets.transformer import TransformerForCausalLM


class FastStep(ABC):
    """A token a row in, states a row out."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @staticmethod
    @abstractmethod
    def fits(model: Any) -> bool:
        """Whether this is such a network, with nothing out of the ordinary in its configuration."""

    @abstractmethod
    def states(self, tokens: Int[Tensor, "rows"], prefix: SharedPrefix) -> Float[Tensor, "rows width"]:
        """The last states after reading one token a row; the caller then counts it as written."""


@final
class _Llama(FastStep):
    """RMS norms, gated feed-forward parts, rotary positions, grouped heads; Qwen2 adds biases."""

    FAMILIES: ClassVar[tuple[type, ...]] = (LlamaForCausalLM, Qwen2ForCausalLM, MistralForCausalLM)

    @staticmethod
    def fits(model: Any) -> bool:
        config = model.config
        windowed = getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True)
        return type(model) in _Llama.FAMILIES and config.hidden_act == "silu" and not windowed

    def states(self, tokens: Int[Tensor, "rows"], prefix: SharedPrefix) -> Float[Tensor, "rows width"]:
        trunk, rows = self.model.model, len(tokens)
        x = trunk.embed_tokens(tokens)
        place = torch.full((1, 1), prefix.position, device=tokens.device)
        # The network's own angles, whatever scaling its configuration asks for; the halves are equal.
        cosine, sine = (part[..., : part.shape[-1] // 2] for part in trunk.rotary_emb(x[None], place))
        for number, layer in enumerate(trunk.layers):
            attention = layer.self_attn
            width, heads = attention.head_dim, prefix.keys[number].shape[1]
            h = _rms(layer.input_layernorm, x)
            q = turn(attention.q_proj(h).view(1, rows, -1, width).transpose(1, 2), cosine[:, None], sine[:, None])
            k = turn(attention.k_proj(h).view(1, rows, -1, width).transpose(1, 2), cosine[:, None], sine[:, None])
            q = q[0].transpose(0, 1).reshape(rows, heads, -1, width)
            v = attention.v_proj(h).view(rows, heads, width)
            mixed = prefix.attend(number, q, k[0].transpose(0, 1), v, attention.scaling)
            x = x + attention.o_proj(mixed.reshape(rows, -1))
            h = _rms(layer.post_attention_layernorm, x)
            x = x + layer.mlp.down_proj(F.silu(layer.mlp.gate_proj(h)).mul_(layer.mlp.up_proj(h)))
        return _rms(trunk.norm, x)


def _rms(norm: Any, x: Float[Tensor, "rows width"]) -> Float[Tensor, "rows width"]:
    """The family's norm as one kernel; written out it is six passes over x."""
    return F.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


@final
class _Ours(FastStep):
    """`nets.transformer`, causal."""

    @staticmethod
    def fits(model: Any) -> bool:
        return type(model) is TransformerForCausalLM and model.config.causal

    def states(self, tokens: Int[Tensor, "rows"], prefix: SharedPrefix) -> Float[Tensor, "rows width"]:
        trunk, rows = self.model.model, len(tokens)
        config = trunk.config
        heads = config.num_attention_heads
        width = config.hidden_size // heads
        place = torch.full((1, 1), prefix.position, device=tokens.device)
        cosine, sine = rotary(place, width, config.rope_theta)
        x = trunk.embedding(tokens)
        for number, block in enumerate(trunk.blocks):
            qkv = block.qkv(block.attention_norm(x)).view(rows, 3, heads, width)
            # As [parts, 1, heads, rows, width]: one angle serves all rows, which stand where time does.
            q, k = turn(qkv[:, :2].permute(1, 2, 0, 3)[:, None], cosine, sine)[:, 0].transpose(1, 2)
            mixed = prefix.attend(number, q[:, :, None], k, qkv[:, 2], width**-0.5)
            x = x + block.out(mixed.reshape(rows, -1))
            x = x + block.down(F.gelu(block.up(block.feedforward_norm(x)), approximate="tanh"))
        return trunk.norm(x)


def fast_step(model: PreTrainedModel) -> FastStep | None:
    """The fast step of a network, if its family has one."""
    return next((kind(model) for kind in (_Llama, _Ours) if kind.fits(model)), None)
