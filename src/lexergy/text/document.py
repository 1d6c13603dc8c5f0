"""A document: a text, the group it may not be parted from, and a name to find it by."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """`group`: what stays together in splits and bootstraps (an author, a module, else the document)."""

    text: str
    group: str
    name: str
