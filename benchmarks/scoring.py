"""Scoring throughput of an energy over texts of 10 to 400 tokens, against the loop a user would write with transformers.

    python benchmarks/scoring.py [--texts 256] [--turns 3]

A 22M-parameter encoder (6 layers, width 384, BERT's shape, random weights). The other side: texts in their given order, 32 at
once, padded to the longest, one forward pass, a linear head; in float32 as it comes, and in the dtype that ours runs in.
"""

import argparse
import time

import torch
from transformers import BertConfig, BertModel

from compare import alternate, matrix_rate, write
from lexergy.core.random import Keyed, seeded
from lexergy.energies.transformer import Transformer
from lexergy.engine.load import Loaded
from lexergy.engine.probe import Shape, plan
from lexergy.report.results import Row
from lexergy.text.ragged import Ragged
from lexergy.text.tokenisers import character_tokenizer

SHAPE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    begun = time.monotonic()
    config = BertConfig(vocab_size=30_522, **SHAPE)
    with seeded(0):
        network = BertModel(config, add_pooling_layer=False).eval()
    lengths = (10 + Keyed.of(0, "lengths").integers(391, arguments.texts)[0]).tolist()
    ids = [(1000 + Keyed.of(0, "ids", i).integers(29_000, length)[0]).tolist() for i, length in enumerate(lengths)]
    rows = Ragged.of([(row, 0, len(row)) for row in ids])
    chosen = plan(Shape.of(config))
    tokenizer = character_tokenizer("ab")
    half = BertModel(config, add_pooling_layer=False).eval().to(chosen.torch_dtype)
    half.load_state_dict(network.state_dict())
    energy = Transformer(Loaded(half, tokenizer, chosen, "random", "object"))
    everything = rows.batch(torch.arange(len(rows)))

    def plain(model: BertModel) -> None:
        head = torch.nn.Linear(SHAPE["hidden_size"], 1).to(model.dtype)
        with torch.no_grad():
            for start in range(0, len(ids), 32):
                batch = ids[start : start + 32]
                width = max(len(row) for row in batch)
                padded = torch.tensor([row + [0] * (width - len(row)) for row in batch])
                mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in batch])
                states = model(input_ids=padded, attention_mask=mask).last_hidden_state
                head((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))

    sides = {
        "ours": lambda: energy.of_tokens(everything),
        "float32": lambda: plain(network),
        "same": lambda: plain(half),
    }
    found = alternate(sides, arguments.turns)
    ours = len(ids) / found["ours"].median
    tokens = sum(lengths)
    layer = 2 * (4 * 384 * 384 + 2 * 384 * 1536)
    work = 6 * (layer * tokens + 4 * 384 * sum(length * length for length in lengths))
    rate = matrix_rate(384, chosen.torch_dtype)
    floor = len(ids) / (work / rate)
    table = []
    for name, other_dtype in (("float32", "float32"), ("same", chosen.dtype)):
        other = len(ids) / found[name].median
        table.append(
            Row(
                "energy of mixed lengths",
                "texts a second",
                ours / other,
                ours=ours,
                other=other,
                ratio=ours / other,
                other_name=f"transformers, padded to the longest of 32, {other_dtype}",
                floor=floor,
                share_of_floor=ours / floor,
                dtype=chosen.dtype,
                checkpoint="BERT shape, 22M, random weights",
                n=arguments.turns,
            )
        )
    held = table[0].value >= 4 and table[1].value >= 1.5
    note = (
        f"Ours scores {ours:.0f} texts a second in {chosen.dtype}: {table[0].value:.2f} times the plain loop in float32 and "
        f"{table[1].value:.2f} times the same loop in {chosen.dtype}. The floor is the products' work at the matrix rate measured "
        f"here ({rate / 1e9:.0f} GFLOP/s); ours takes {found['ours'].spread}."
    )
    write(
        "benchmarks/scoring", "At least 4 times the plain loop in float32 and 1.5 times it in the same dtype",
        {"name": "random ids, 10 to 400 tokens", "texts": len(ids), "tokens": tokens}, table, held, note, time.monotonic() - begun,
    )  # fmt: skip


if __name__ == "__main__":
    main()
