"""Small models on disk, made once: what the command line's tests load, score with and draw from."""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

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


def documents(count: int) -> list[str]:
    """Different paragraphs of plain words, too different to be taken for near-duplicates."""
    chosen = [random.Random(i).choices(WORDS, k=24) for i in range(count)]
    return [f"Part {i} of the book. {' '.join(words)}." for i, words in enumerate(chosen)]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A corpus, a language model, two energies and a joint model."""
    # Here, not above: most tests of this folder need none of it.
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
    return Tiny(corpus, str(root / "lm"), str(root / "bag"), str(root / "network"), str(root / "joint"))


@pytest.fixture(scope="session")
def tiny_mined(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set mined with the small language model: 64 windows 8 + 6, two negatives each."""
    from lexergy.loading import load_proposal
    from lexergy.training.mine import mine

    place = tmp_path_factory.mktemp("mined") / "set"
    lm = load_proposal(tiny.lm, device="cpu", dtype="float32")
    mine(lm, tiny.corpus, place, 2, 8, 6, space="fixed", seed=0, limit=64, quiet=True)
    return place
