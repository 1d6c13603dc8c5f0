"""Tiny random models of the families that people load, their tokenizers, and slow obvious readings of what they say.

Weights are drawn wide, so that positions, masks and padding matter to every number.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import (
    BertConfig,
    BertModel,
    CohereConfig,
    CohereForCausalLM,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MPNetConfig,
    MPNetModel,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    RobertaConfig,
    RobertaModel,
)

from lexergy.core.random import seeded
from lexergy.engine.load import Loaded
from lexergy.engine.probe import plan
from lexergy.nets.transformer import TransformerForCausalLM, TransformerModel, preset

EOS, BOS, PAD = "<eos>", "<bos>", "<pad>"
TEXTS = ["the council voted on it", "a river in winter", "naïve café, 東京", "letters and stones", "it rained", "so"]
POSITIONS = 40
"""Tokens that the models here have positions for."""


@cache
def byte_level(bos: bool = False, eos: bool = True) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer; with `bos`, one that puts it in front of every text, as Llama's does."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = [*([BOS] if bos else []), *([EOS] if eos else []), PAD]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend.train_from_iterator(
        TEXTS * 3,
        trainers.BpeTrainer(vocab_size=290, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    if bos:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{BOS} $A", special_tokens=[(BOS, backend.token_to_id(BOS))]
        )
    names = {"bos_token": BOS if bos else None, "eos_token": EOS if eos else None, "pad_token": PAD}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


@cache
def word_piece(roberta: bool = False) -> PreTrainedTokenizerFast:
    """A lower-casing WordPiece tokenizer that frames a text, as BERT's does; `roberta`: with its names and its ids."""
    front, back, pad = ("<s>", "</s>", "<pad>") if roberta else ("[CLS]", "[SEP]", "[PAD]")
    special = [front, pad, back, "[UNK]"] if roberta else [pad, "[UNK]", front, back]
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.train_from_iterator(
        TEXTS * 3, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    )
    ids = [(name, backend.token_to_id(name)) for name in (front, back)]
    backend.post_processor = processors.TemplateProcessing(single=f"{front} $A {back}", special_tokens=ids)
    names = {"cls_token": front, "sep_token": back, "pad_token": pad, "unk_token": "[UNK]"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


def _llama_like(config: Any, model: Any, **more: Any) -> Callable[..., PreTrainedModel]:
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": POSITIONS,
        "initializer_range": 0.4,
    }
    return lambda **ids: model(config(**sizes, **more, **ids))


def _ours(model: Any, **more: Any) -> Callable[..., PreTrainedModel]:
    def build(**ids: Any) -> PreTrainedModel:
        sizes = {"hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": POSITIONS}
        made = model(preset("tiny", **sizes, **more, **ids))
        for weight in made.parameters():
            weight.data *= 12 if weight.dim() == 2 else 1
        return made

    return build


GROUPED = {"num_key_value_heads": 1}
CAUSAL: dict[str, Callable[..., PreTrainedModel]] = {
    "gpt2": lambda **ids: GPT2LMHeadModel(
        GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=POSITIONS, initializer_range=0.4, **ids)
    ),
    "llama": _llama_like(LlamaConfig, LlamaForCausalLM, **GROUPED),
    "qwen2": _llama_like(Qwen2Config, Qwen2ForCausalLM, **GROUPED),
    "gemma2": _llama_like(
        *(Gemma2Config, Gemma2ForCausalLM), **GROUPED, head_dim=8, sliding_window=4, final_logit_softcapping=3.0
    ),
    "gemma3": _llama_like(Gemma3TextConfig, Gemma3ForCausalLM, **GROUPED, head_dim=8, sliding_window=4),
    "gpt_neox": _llama_like(GPTNeoXConfig, GPTNeoXForCausalLM),
    "opt": lambda **ids: OPTForCausalLM(
        OPTConfig(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            ffn_dim=32,
            word_embed_proj_dim=16,
            max_position_embeddings=POSITIONS,
            init_std=0.4,
            **ids,
        )
    ),
    "mistral": _llama_like(MistralConfig, MistralForCausalLM, **GROUPED, sliding_window=4),
    "cohere": _llama_like(CohereConfig, CohereForCausalLM, **GROUPED, logit_scale=0.25),
    "ours": _ours(TransformerForCausalLM),
    "ours backwards": _ours(TransformerForCausalLM, direction="right_to_left"),
}
"""Families of causal language models. Two change their logits after the product; three see four tokens back only."""

ENCODERS: dict[str, Callable[..., PreTrainedModel]] = {
    "bert": _llama_like(BertConfig, BertModel),
    "roberta": _llama_like(RobertaConfig, RobertaModel),
    "distilbert": lambda **ids: DistilBertModel(
        DistilBertConfig(
            dim=16,
            hidden_dim=32,
            n_layers=2,
            n_heads=2,
            max_position_embeddings=POSITIONS,
            initializer_range=0.4,
            **ids,
        )
    ),
    "mpnet": _llama_like(MPNetConfig, MPNetModel),
    "electra": _llama_like(ElectraConfig, ElectraModel, embedding_size=8),
    "ours looking both ways": _ours(TransformerModel, causal=False),
    "ours": _ours(TransformerModel),
}
"""Families of networks that energies read texts with."""


@cache
def causal(family: str, bos: bool = False, eos: tuple[int, ...] | int | None = None) -> Loaded:
    """A language model of a family over a byte-level tokenizer; padding is EOS. Shared: tests leave it as it is."""
    tokenizer = byte_level(bos)
    end = tokenizer.eos_token_id if eos is None else eos
    ends = list(end) if isinstance(end, tuple) else end
    pad = tokenizer.eos_token_id
    ids = {"vocab_size": len(tokenizer), "bos_token_id": tokenizer.bos_token_id, "eos_token_id": ends}
    with seeded(0, family):
        model = CAUSAL[family](**ids, pad_token_id=pad).eval()
    return Loaded(model, tokenizer, plan(), family, "object")


@cache
def encoder(family: str) -> Loaded:
    """A network of a family over the tokenizer that goes with it."""
    framed = word_piece(roberta=family in ("roberta", "mpnet"))
    tokenizer = byte_level() if family.startswith("ours") else framed
    with seeded(0, family):
        model = ENCODERS[family](vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id).eval()
    return Loaded(model, tokenizer, plan(), family, "object")


def direction(loaded: Loaded) -> str:
    """Which way a model reads."""
    return getattr(loaded.model.config, "direction", "left_to_right")


@torch.no_grad()
def next_logits(loaded: Loaded, ids: Sequence[int]) -> Tensor:
    """By transformers alone, one text without padding: float32 logits of each next token, in reading order of `ids`."""
    order = list(ids) if direction(loaded) == "left_to_right" else list(ids)[::-1]
    logits = loaded.model(input_ids=torch.tensor([order]), use_cache=False).logits[0].float()
    return logits if direction(loaded) == "left_to_right" else logits.flip(0)


def plain(loaded: Loaded, ids: Sequence[int], free: Sequence[bool]) -> list[float]:
    """log P of each free token, from `next_logits`; 0 elsewhere."""
    log_p = torch.log_softmax(next_logits(loaded, ids), -1)
    step = -1 if direction(loaded) == "left_to_right" else 1
    return [float(log_p[t + step, ids[t]]) if free[t] else 0.0 for t in range(len(ids))]


def slow_law(logits: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> dict[int, float]:
    """Token → probability after temperature, then top-k, then top-p; ties by id."""
    weight = torch.softmax(logits.double() / temperature, -1).tolist()
    order = sorted(range(len(weight)), key=lambda token: (-weight[token], token))
    kept = order[:top_k] if top_k else order
    total, inside, nucleus = sum(weight[token] for token in kept), 0.0, []
    for token in kept:
        if nucleus and inside >= top_p:
            break
        nucleus.append(token)
        inside += weight[token] / total
    mass = sum(weight[token] for token in nucleus)
    return {token: weight[token] / mass for token in nucleus}
