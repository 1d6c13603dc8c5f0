"""Mining: cut a corpus into windows, let a language model go on after each context, and keep what it wrote.

Negatives for noise-contrastive training are mined once, offline; training then never runs the language model.
Untruncated draws at temperature 1 are the default: an energy trained on truncated ones is undefined outside their
support.

*Inputs.* A folder or file of documents; near-duplicates are dropped before windows are cut. *Resumption*: draws are
keyed by (seed, prompt, sample), so a run that was stopped goes on to the same set, whatever the size of its shards.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from lexergy.core import files, random
from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed
from lexergy.core.types import Law, Space, Tokens
from lexergy.proposals.causal import Causal
from lexergy.text.corpus import read_corpus
from lexergy.text.document import Document
from lexergy.text.duplicates import NearDuplicates
from lexergy.text.mined import DRAWS, KIND, TOKENIZER, WINDOWS, Mined
from lexergy.text.ragged import pack, stack
from lexergy.text.shards import MANIFEST, ShardReader, ShardWriter
from lexergy.text.split import PARTS, in_part
from lexergy.text.store import StoredWindows, write_windows
from lexergy.text.windows import windows
from lexergy.training.progress import Shown

COUNTS = "counts.json"


def mine(
    lm: Causal,
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
    """Mine `per_prefix` negatives for each window of a corpus into a folder; one that was begun there is gone on with.

    `limit`: at most so many windows. `part`: only the documents of that part of the corpus (`parts`: the shares, by a
    hash of the group), so that the energy never sees what the language model was trained on. `limit_words`: read no
    further.
    """
    for name, value in {"per_prefix": per_prefix, "limit": limit, "shard": shard}.items():
        if value is not None and value < 1:
            raise LexergyError(f"{name} must be at least 1; received {value}.")
    if lm.direction != "left_to_right":
        raise LexergyError("Mining writes continuations, which needs a language model that reads left to right.")
    lm.lm.check_length(prefix + length)
    place = Path(out)
    law = lm.law_of(length, temperature=temperature, top_k=top_k, top_p=top_p, space=space, seed=seed)
    law = _begun(place, law)
    cut_from = {
        "corpus": Path(file).name,
        "bytes": _bytes(Path(file)),
        "tokenizer": random.word(json.dumps(lm.tokenizer.get_vocab(), sort_keys=True)),
        "bos": lm.bos,
        "space": space,
        "prefix": prefix,
        "length": length,
        "limit": limit,
        "limit_words": limit_words,
        "part": part,
        "parts": dict(parts) if part is not None else None,
    }
    stored = _cut(lm, file, place, cut_from, law)
    made_from = {
        "kind": KIND,
        "law": law.to_json(),
        "per_prefix": per_prefix,
        "shard": shard,
        "vocabulary": lm.lm.vocabulary,
    }
    # What an empty context stands for; a language model that is never given one may have nothing to start from.
    start = lm.prompt_ids("") if prefix == 0 else []
    writer = ShardWriter(place / DRAWS, {**cut_from, **made_from, "start": start})
    if not writer.complete:
        if not (place / TOKENIZER).is_dir():
            with files.atomic(place / TOKENIZER) as draft:
                lm.tokenizer.save_pretrained(draft)
        _draw(lm, writer, stored, law, quiet)
        writer.finish()
    return Mined(place)


def _begun(place: Path, law: Law) -> Law:
    """The law of the set that was begun here, which must be this one; only the model's name may have changed."""
    if not (place / DRAWS / MANIFEST).is_file():
        return law
    before = Law.from_json(ShardReader(place / DRAWS, partial=True).meta["law"])
    old, new = before.to_json(), law.to_json()
    differ = [name for name in old if old[name] != new[name] and name not in ("model", "revision")]
    if differ:
        found = "; ".join(f"{name}: {old[name]} there, {new[name]} here" for name in differ)
        if differ == ["dtype"]:
            raise LexergyError(
                f"{place} was begun in another dtype ({found}), and what is drawn depends on it. Load the language model "
                f"with dtype={before.dtype!r} to go on, or choose another place."
            )
        raise LexergyError(
            f"{place} holds draws by another law or model ({found}). Choose another place, or remove the folder to "
            "mine again."
        )
    return before


def _bytes(file: Path) -> int | None:
    """The size of a corpus on disk, by which a resumed run notices that it is another one."""
    if file.is_dir():
        return sum(one.stat().st_size for one in file.rglob("*") if one.is_file())
    return file.stat().st_size if file.is_file() else None


def _cut(lm: Causal, file: str | Path, place: Path, cut_from: Mapping[str, Any], law: Law) -> StoredWindows:
    """The windows on disk: cut once, so that a resumed run neither tokenises again nor wonders how many there are."""
    filtered = NearDuplicates()
    documents: Iterator[Document] = filtered.without(read_corpus(file, limit_words=cut_from["limit_words"]))
    if cut_from["part"] is not None:
        documents = in_part(documents, cut_from["part"], cut_from["parts"])
    eos = law.eos[0] if law.eos else None
    every = windows(documents, lm.tokenizer, cut_from["prefix"], cut_from["length"], law.space, bos=lm.bos, eos_id=eos)
    cut = islice(every, cut_from["limit"])
    stored = write_windows(place / WINDOWS, cut, cut_from)
    if not (place / COUNTS).is_file():
        for _ in cut:  # stopped between the last window and this file: count again
            pass
        counts = {"windows": len(stored), "documents": filtered.kept, "near_duplicates_dropped": filtered.dropped}
        files.write_json(place / COUNTS, counts)
    return stored


def _draw(lm: Causal, writer: ShardWriter, stored: StoredWindows, law: Law, quiet: bool) -> None:
    """Draw what is missing, a shard of windows at a time."""
    start, per_prefix = writer.meta["start"], writer.meta["per_prefix"]
    seen = Counter[int]()
    rest = iter(stored)
    for window in islice(rest, writer.rows):
        seen[random.word(tuple(window.context or start))] += 1
    with closing(Shown(len(stored), writer.rows, quiet, "window")) as shown:
        while batch := list(islice(rest, writer.meta["shard"])):
            contexts = [window.context or start for window in batch]
            # A context that comes again gets draws of its own, or its windows would share their negatives.
            first: list[int] = []
            for context in contexts:
                first.append(seen[random.word(tuple(context))] * per_prefix)
                seen[random.word(tuple(context))] += 1
            # Streams that no `sample` uses: a joint model is never judged by the draws its energy was trained on.
            rng = Keyed.draws(law.seed, contexts, per_prefix, first).at("mined")
            draws = lm.draw(contexts, per_prefix, law, rng)
            written, starts = stack([pack(one.tokens) for one in draws])
            real = [[*c, *w.continuation] for c, w in zip(contexts, batch, strict=True)]
            writer.write(
                writer.done,
                {
                    "negative": written,
                    "negative.starts": starts,
                    "log_q": torch.stack([one.log_q for one in draws]),
                    "log_p": torch.stack([one.log_p for one in draws if one.log_p is not None]),
                    "real_log_p": lm.token_log_prob(Tokens.of(real, [len(c) for c in contexts])),
                },
                rows=len(batch),
            )
            shown.show(writer.rows)
