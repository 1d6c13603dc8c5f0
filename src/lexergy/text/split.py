"""Parts of a corpus, by a hash of the group: no shuffling, no list to keep, the same wherever and whenever it
is asked.

Equation: part(group) = the named interval of [0, 1) into which blake2b(salt, group) / 2⁶⁴ falls.

Two experiments over one corpus agree on what is test, and a language model's training part is disjoint from
an energy's. Intervals follow the order of the mapping: growing the last part, or cutting one in two where it
stands, moves nothing else.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping

from lexergy.core.errors import LexergyError, unknown
from lexergy.text.document import Document

PARTS: Mapping[str, float] = {"lm": 0.45, "energy": 0.45, "valid": 0.05, "test": 0.05}


def part_of(group: str, parts: Mapping[str, float] = PARTS, salt: str = "") -> str:
    """The part that a group belongs to. The fractions sum to 1."""
    total = math.fsum(parts.values())
    if not parts or min(parts.values()) < 0 or abs(total - 1) > 1e-6:
        raise LexergyError(
            f"The fractions of the parts are at least 0 and sum to 1; received {dict(parts)} (sum {total:g})."
        )
    digest = hashlib.blake2b(group.encode("utf-8"), digest_size=8, key=_key(salt)).digest()
    place = int.from_bytes(digest, "big") / 2**64
    end = 0.0
    for name, fraction in parts.items():
        end += fraction
        if place < end:
            return name
    # The sum may fall short of 1 by rounding; the last part that has any share takes what is left.
    return [name for name, fraction in parts.items() if fraction > 0][-1]


def in_part(
    documents: Iterable[Document], part: str, parts: Mapping[str, float] = PARTS, salt: str = ""
) -> Iterator[Document]:
    """The documents of one part."""
    if part not in parts:
        raise unknown("part", part, parts)
    return (document for document in documents if part_of(document.group, parts, salt) == part)


def _key(salt: str) -> bytes:
    """A salt of any length as a key: blake2b takes at most 64 bytes."""
    return hashlib.blake2b(salt.encode("utf-8"), digest_size=16).digest() if salt else b""
