"""A corpus parted on disk: each document, near-duplicates out, in the file of the part that its group hashes to.

Reading, filtering and parting a corpus takes as long as training a small model on it; whoever needs several parts, or
one part several times, does it once. *Relations*: `in_part` is the same without a folder.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from lexergy.core import files
from lexergy.core.errors import LexergyError, unknown
from lexergy.text.corpus import read_corpus
from lexergy.text.duplicates import NearDuplicates
from lexergy.text.split import part_of


def divide(place: str | Path, parts: Mapping[str, float], out: Path, limit_words: int | None = None) -> None:
    """Write each part of a corpus to out/<part>.jsonl, and what was counted to out/counts.json; whole or not at all."""
    filtered = NearDuplicates()
    counts = dict.fromkeys(parts, 0)
    with files.atomic(out) as draft, ExitStack() as opened:
        draft.mkdir(parents=True)
        written = {name: opened.enter_context((draft / f"{name}.jsonl").open("w", encoding="utf-8")) for name in parts}
        for document in filtered.without(read_corpus(place, limit_words=limit_words)):
            part = part_of(document.group, parts)
            counts[part] += 1
            written[part].write(json.dumps({"text": document.text, "group": document.group}) + "\n")
        content = {"documents": filtered.kept, "near_duplicates_dropped": filtered.dropped, "parts": counts}
        (draft / "counts.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def part_file(folder: Path, part: str) -> Path:
    """The file of a part; an empty one is an error that says how the documents fell."""
    counts = files.read_json(folder / "counts.json")
    if part not in counts["parts"]:
        raise unknown("part", part, counts["parts"])
    if not counts["parts"][part]:
        raise LexergyError(
            f"No document of the corpus fell into the part {part!r}: {counts['documents']} documents, {counts['parts']}. "
            "Give more text, or the part a larger share."
        )
    return folder / f"{part}.jsonl"
