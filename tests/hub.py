"""A copy of the Hub small enough for tests: under each id that the docs name, a tiny random model of that family.

It is laid out as the Hub's own cache is, so that nothing of the library is replaced when an example loads by id.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from lexergy.core.random import seeded

COMMIT: Final = "0" * 40
WORDS: Final = (
    *("the", "council", "voted", "on", "a", "river", "stone", "in", "winter", "light"),
    *("and", "old", "house", "heard", "music", "from", "its", "garden"),
)


def sentences(count: int, words: int = 60) -> list[str]:
    """Different texts of plain words."""
    n = len(WORDS)
    chosen = [[WORDS[(i * 7 + j * (1 + i % 5) + j * j) % n] for j in range(words + i % 9)] for i in range(count)]
    return [f"{' '.join(text).capitalize()}. {i}" for i, text in enumerate(chosen)]


def byte_level(end: str) -> PreTrainedTokenizerFast:
    """GPT-2's kind: bytes, no BOS of its own."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=[end], initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(sentences(20), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=end, eos_token=end)


def framed(front: str, pad: str, back: str, unknown: str, mask: str, padding: int = 0) -> PreTrainedTokenizerFast:
    """BERT's kind: pieces of words in lower case, between two tokens of its own; `padding` is what fills a row."""
    backend = Tokenizer(models.WordPiece(unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = [unknown, front, back, mask]
    special.insert(padding, pad)
    backend.train_from_iterator(
        sentences(20), trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    )
    ids = [(name, backend.token_to_id(name)) for name in (front, back)]
    backend.post_processor = processors.TemplateProcessing(single=f"{front} $A {back}", special_tokens=ids)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        cls_token=front,
        sep_token=back,
        pad_token=pad,
        unk_token=unknown,
        mask_token=mask,
        model_max_length=512,
    )


SIZES: Final = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 512,
}


def llama(tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), num_key_value_heads=1, **SIZES, **ids))


def gpt2(tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 512}
    return GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes, **ids))


def masked(config: Any, model: Any) -> Callable[[PreTrainedTokenizerFast], PreTrainedModel]:
    return lambda t: model(config(vocab_size=len(t), pad_token_id=t.pad_token_id, **SIZES))


BERT = (lambda: framed("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"), masked(BertConfig, BertForMaskedLM))
ROBERTA = (
    lambda: framed("<s>", "<pad>", "</s>", "<unk>", "<mask>", padding=1),
    masked(RobertaConfig, RobertaForMaskedLM),
)
HUB: Final[dict[str, tuple[Callable[[], PreTrainedTokenizerFast], Callable[..., PreTrainedModel]]]] = {
    "HuggingFaceTB/SmolLM2-135M": (lambda: byte_level("<|endoftext|>"), llama),
    "openai-community/gpt2": (lambda: byte_level("<|endoftext|>"), gpt2),
    "gpt2": (lambda: byte_level("<|endoftext|>"), gpt2),
    "bert-base-uncased": BERT,
    "google-bert/bert-base-uncased": BERT,
    "sentence-transformers/all-MiniLM-L6-v2": BERT,
    "roberta-base": ROBERTA,
    "FacebookAI/roberta-base": ROBERTA,
}
"""Each id with its tokenizer's kind and its family."""


def build(cache: Path) -> None:
    """Write all of them as the Hub's cache has them."""
    for name, (tokenizer_of, model_of) in HUB.items():
        place = cache / ("models--" + name.replace("/", "--"))
        (place / "refs").mkdir(parents=True)
        (place / "refs" / "main").write_text(COMMIT, encoding="utf-8")
        tokenizer = tokenizer_of()
        with seeded(0, name):
            model = model_of(tokenizer)
        model.save_pretrained(place / "snapshots" / COMMIT)
        tokenizer.save_pretrained(place / "snapshots" / COMMIT)


def files(folder: Path) -> None:
    """What examples read from the folder they run in."""
    texts = sentences(80)
    rows = [json.dumps({"text": text, "author": f"author {i // 2}"}) for i, text in enumerate(texts[:60])]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "heldout.txt").write_text("\n\n".join(texts[60:]) + "\n", encoding="utf-8")
    (folder / "texts.txt").write_text("\n".join(texts[60:64]) + "\n", encoding="utf-8")
    (folder / "texts").mkdir()
    for i, text in enumerate(texts[:20]):
        (folder / "texts" / f"{i}.txt").write_text(text, encoding="utf-8")
