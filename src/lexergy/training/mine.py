"""Mining: cut a corpus into windows, let a language model go on after each context, and keep what it wrote.

Negatives for noise-contrastive training are mined once, offline; training then never runs the language model. Untruncated
draws at temperature 1 are the default, since an energy trained on truncated ones is undefined outside their support.

*Inputs.* A folder or file of documents; near-duplicates are dropped before windows are cut. *Resumption*: draws are keyed
by (seed, prompt, sample), so a run that was stopped goes on to the same set.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from lexergy.core import files, random
from lexergy.core.errors import LexergyError
from lexergy.core.types import Law, Space, Tokens
from lexergy.proposals.base import Proposal
from lexergy.text.corpus import read_corpus
from lexergy.text.document import Document
from lexergy.text.duplicates import NearDuplicates
from lexergy.text.mined import DRAWS, TOKENIZER, WINDOWS, Mined
from lexergy.text.shards import ShardWriter, pack_rows
from lexergy.text.split import PARTS, in_part
from lexergy.text.store import StoredWindows, write_windows
from lexergy.text.windows import windows
from lexergy.training.progress import Shown


def mine(
    lm: Proposal,
    file: str | Path,
    out: str | Path,
    per_prefix: int = 4,
    prefix: int = 120,
    length: int = 40,
    *,
    space: Space = "until_eos",
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    limit: int | None = None,
    part: str | None = None,
    parts: Mapping[str, float] = PARTS,
    limit_words: int | None = None,
    shard: int = 64,
    quiet: bool = False,
) -> Mined:
    """Mine `per_prefix` negatives for each window of a corpus into a folder.

    `limit`: at most so many windows. `part`: only the documents of that part of the corpus (`parts`: the shares, by a hash
    of the group), so that the energy never sees what the language model was trained on. `limit_words`: read no further.
    """
    if per_prefix < 1:
        raise LexergyError(f"per_prefix must be at least 1; received {per_prefix}.")
    if lm.direction != "left_to_right":
        raise LexergyError(
            "Mining writes continuations, which needs a language model that reads left to right."
        )
    law = lm.law_of(length, temperature=temperature, top_k=top_k, top_p=top_p, space=space, seed=seed)
    cut_from = {
        "corpus": Path(file).name,
        "tokenizer": random.word(json.dumps(lm.tokenizer.get_vocab(), sort_keys=True)),
        "space": space,
        "prefix": prefix,
        "length": length,
        "limit": limit,
        "limit_words": limit_words,
        "part": part,
        "parts": dict(parts) if part is not None else None,
    }
    place = Path(out)
    stored = _cut(lm, file, place, cut_from, law)
    start = lm.prompt_ids("")
    meta = {
        **cut_from,
        "kind": "mined",
        "law": law.to_json(),
        "per_prefix": per_prefix,
        "start": start,
        "shard": shard,
    }
    writer = ShardWriter(place / DRAWS, meta)
    if not writer.complete:
        if not (place / TOKENIZER).is_dir():
            with files.atomic(place / TOKENIZER) as draft:
                lm.tokenizer.save_pretrained(draft)
        _draw(lm, writer, stored, law, meta, quiet)
        writer.finish()
    return Mined(place)


def _cut(lm: Proposal, file: str | Path, place: Path, cut_from: Mapping[str, Any], law: Law) -> StoredWindows:
    """The windows on disk: cut once, so that a resumed run neither tokenises again nor wonders how many there are."""
    filtered = NearDuplicates()
    documents: Iterator[Document] = filtered.without(read_corpus(file, limit_words=cut_from["limit_words"]))
    if cut_from["part"] is not None:
        documents = in_part(documents, cut_from["part"], cut_from["parts"])
    eos = law.eos[0] if law.eos else None
    cut = windows(documents, lm.tokenizer, cut_from["prefix"], cut_from["length"], law.space, eos_id=eos)
    stored = write_windows(place / WINDOWS, islice(cut, cut_from["limit"]), cut_from)
    if filtered.kept:
        counts = {
            "windows": len(stored),
            "documents": filtered.kept,
            "near_duplicates_dropped": filtered.dropped,
        }
        files.write_json(place / "counts.json", counts)
    if not len(stored):
        raise LexergyError(
            f"{file} gave no window: shorten prefix or length, give more text, or another part."
        )
    return stored


def _draw(
    lm: Proposal, writer: ShardWriter, stored: StoredWindows, law: Law, meta: Mapping[str, Any], quiet: bool
) -> None:
    rest = islice(stored, writer.rows, None)
    with closing(Shown(len(stored), writer.rows, quiet)) as shown:
        while batch := list(islice(rest, meta["shard"])):
            contexts = [window.context or meta["start"] for window in batch]
            draws = lm.draw(contexts, meta["per_prefix"], law)
            real = [[*c, *w.continuation] for c, w in zip(contexts, batch, strict=True)]
            tensors = {
                **pack_rows(
                    "negative", [one.tokens.free_ids(row) for one in draws for row in range(len(one))]
                ),
                "log_q": torch.stack([one.log_q for one in draws]),
                "log_p": torch.stack([one.log_p for one in draws if one.log_p is not None]),
                "real_log_p": lm.token_log_prob(Tokens.of(real, [len(c) for c in contexts])),
            }
            writer.write(writer.done, tensors, rows=len(batch))
            shown.show(writer.rows)
