"""Where the library keeps what it can make again: one folder, named by the user or by custom."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """$LEXERGY_CACHE, else $XDG_CACHE_HOME/lexergy, else ~/.cache/lexergy. It need not exist yet."""
    named = os.environ.get("LEXERGY_CACHE")
    if named:
        return Path(named).expanduser()
    # The custom asks that a relative XDG_CACHE_HOME be ignored.
    custom = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(custom):
        return Path(custom) / "lexergy"
    return Path(os.path.expanduser("~")) / ".cache" / "lexergy"
