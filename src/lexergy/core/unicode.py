"""Text that can be written: half of a surrogate pair, as a tokeniser may leave behind, has no place in any encoding."""


def writable(text: str) -> str:
    """The text with a replacement character for each half of a surrogate pair."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
