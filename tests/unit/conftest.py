"""Small models on disk, made once: what the command line's tests load, score with and draw from."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from lexergy.core.random import seeded
from lexergy.energies.bag import Bag
from lexergy.energies.transformer import Transformer
from lexergy.engine.load import load
from lexergy.joint import Joint
from lexergy.loading import load_proposal
from lexergy.nets.transformer import TransformerForCausalLM, preset
from lexergy.text.tokenisers import train_tokenizer
from lexergy.training.lm import save_model
from lexergy.training.mine import mine

WORDS = ("river", "stone", "light", "house", "garden", "winter", "letter", "music")
LONGEST = 48
"""Tokens that the small models have positions for."""


@dataclass(frozen=True)
class Tiny:
    """Where the small models are. `bag` and `network` are energies, `bag` with an energy a token."""

    corpus: Path
    lm: str
    bag: str
    network: str
    joint: str
    mined: Path


def documents(count: int) -> list[str]:
    """Different paragraphs of plain words."""
    n = len(WORDS)
    said = [" ".join(WORDS[(i * 5 + j * (1 + i % 7) + j * j) % n] for j in range(24)) for i in range(count)]
    return [f"Part {i} of the book. {text}." for i, text in enumerate(said)]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A corpus, a language model, two energies, a joint model and a mined set."""
    root = tmp_path_factory.mktemp("tiny")
    corpus = root / "corpus.txt"
    corpus.write_text("\n\n".join(documents(120)), encoding="utf-8")
    tokenizer = train_tokenizer(documents(120), 320)
    config = preset(
        "tiny",
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_attention_heads=2,
        max_position_embeddings=LONGEST,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with seeded(0, "tiny models"):
        model = TransformerForCausalLM(config).eval()
        save_model(model, tokenizer, root / "lm")
        network = Transformer(load(root / "lm", "trunk", device="cpu", dtype="float32"))
        torch.nn.init.normal_(network.head.weight)
        bag = Bag(tokenizer)
        torch.nn.init.normal_(bag.weight)
    network.save_pretrained(root / "network")
    bag.save_pretrained(root / "bag")
    lm = load_proposal(str(root / "lm"), device="cpu", dtype="float32")
    Joint(lm, bag, space="fixed", length=6).save_pretrained(root / "joint")
    mine(lm, corpus, root / "mined", 2, 8, 6, space="fixed", seed=0, limit=64, quiet=True)
    return Tiny(corpus, str(root / "lm"), str(root / "bag"), str(root / "network"), str(root / "joint"), root / "mined")
