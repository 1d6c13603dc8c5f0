"""Near-duplicate removal, before any split: a document most of whose 13-grams were seen in earlier documents
is dropped.

Words are separated by whitespace and lower-cased. A document shorter than n words is compared whole. One
pass; what is remembered is an 8-byte hash of each n-gram kept, in sorted arrays that are merged as they grow.
"""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lexergy.core.errors import LexergyError
from lexergy.text.document import Document

Words = NDArray[np.uint64]
_FACTOR = 0x9E3779B97F4A7C15  # odd, so that multiplying by it loses nothing modulo 2⁶⁴


class NearDuplicates:
    """The filter and what it has seen: `kept` and `dropped` count documents once the stream has run.

    `share`: drop a document when more than this share of its n-grams stood in documents kept before it.
    """

    def __init__(self, n: int = 13, share: float = 0.5) -> None:
        if n < 1 or not 0 <= share <= 1:
            raise LexergyError(f"n is at least 1 and share between 0 and 1; received n={n}, share={share}.")
        self.n = n
        self.share = share
        self.kept = 0
        self.dropped = 0
        self._seen = _Seen()
        self._of_word: dict[str, int] = {}

    def without(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents that are no near-duplicate of an earlier one."""
        for document in documents:
            grams = self._grams(document.text)
            if self._seen.count(grams) > self.share * len(grams):
                self.dropped += 1
                continue
            self._seen.add(grams)
            self.kept += 1
            yield document

    def _grams(self, text: str) -> Words:
        words = text.lower().split()
        codes = np.array([self._code(word) for word in words], dtype=np.uint64)
        # A short text's one gram starts from its length, so that it never meets a gram of a longer text by
        # chance.
        size, start = (self.n, 0) if len(words) >= self.n else (len(words), len(words) + 1)
        total = np.full(len(words) - size + 1, start, dtype=np.uint64)
        for shift in range(size):
            total = total * np.uint64(_FACTOR) + codes[shift : shift + len(total)]
        return total ^ (total >> np.uint64(32))

    def _code(self, word: str) -> int:
        code = self._of_word.get(word)
        if code is None:
            code = int.from_bytes(hashlib.blake2b(word.encode("utf-8"), digest_size=8).digest(), "little")
            if len(self._of_word) >= 1 << 20:  # rare words must not fill the memory; they are hashed again
                self._of_word.clear()
            self._of_word[word] = code
        return code


class _Seen:
    """A set of 64-bit words that only grows: a small hash set in front of sorted arrays, each over twice the
    next.
    """

    def __init__(self, front: int = 1 << 17) -> None:
        self._front: set[int] = set()
        self._limit = front
        self._runs: list[Words] = []

    def count(self, words: Words) -> int:
        """How many of the words are in the set, repeats counted."""
        found = np.fromiter((word in self._front for word in words.tolist()), dtype=bool, count=len(words))
        for run in self._runs:
            at = np.searchsorted(run, words)
            found |= run[np.minimum(at, len(run) - 1)] == words
        return int(found.sum())

    def add(self, words: Words) -> None:
        """Put words into the set."""
        self._front.update(words.tolist())
        if len(self._front) < self._limit:
            return
        self._runs.append(np.sort(np.fromiter(self._front, dtype=np.uint64, count=len(self._front))))
        self._front.clear()
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.union1d(self._runs[-1], last)
