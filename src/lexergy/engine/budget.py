"""When memory runs out: halve the batch that failed and go on from there; nothing done is done again.

A batch costs rows × (its longest row) tokens. `for_each_batch` takes rows from longest to shortest, so that a
batch which does not fit shows at once, and a budget that held for one batch holds for all that follow. A GPU,
or a CPU under a limit of address space, raises when it is out of memory; a CPU machine that has merely filled
up kills instead, which is why the probe's budgets there come from the memory that is free.

Scoring and drawing go through here. Training does not: its batch is the user's, and half of it would be another run.
"""

import logging
from collections.abc import Callable, Sequence

import torch

from lexergy.core.errors import LexergyError

_log = logging.getLogger(__name__)

_SAID_WHEN_FULL = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "defaultcpuallocator",
    "cublas_status_alloc_failed",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: torch has a type for it on GPUs, on CPUs only a sentence."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error).lower() for said in _SAID_WHEN_FULL)


def rows_that_fit(longest: int, budget: int) -> int:
    """How many rows of this length a token budget holds; a row longer than the budget still goes, alone."""
    return max(1, budget // max(1, longest))


def for_each_batch(rows: Sequence[int], lengths: Sequence[int], budget: int, run: Callable[[list[int]], None]) -> int:
    """Call `run` on batches of `rows`, which come longest first; `lengths[row]` is a row's tokens.

    Where `run` runs out of memory, the budget becomes half of what that batch took and the same rows are
    tried again in smaller batches. Returns the budget that held in the end.
    """
    if budget < 1:
        raise LexergyError(f"A token budget is at least 1; received {budget}.")
    start = 0
    while start < len(rows):
        longest = lengths[rows[start]]
        batch = list(rows[start : start + rows_that_fit(longest, budget)])
        if _fits(batch, longest, run):
            start += len(batch)
            continue
        taken = len(batch) * max(1, longest)
        budget = taken // 2
        _log.warning("Out of memory at %d tokens a batch: going on with %d.", taken, budget)
    return budget


def _fits(batch: list[int], longest: int, run: Callable[[list[int]], None]) -> bool:
    """Run a batch; False when memory ran out and fewer rows can be tried."""
    try:
        run(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if len(batch) == 1:
            raise LexergyError(
                f"Row {batch[0]}, of {longest} tokens, does not fit into memory on its own. Give shorter "
                'texts, score in windows (windows="sum" or "mean"), use dtype="bfloat16" or a smaller model, '
                "or free some memory."
            ) from error
    else:
        return True
    # Only here, with the error gone, are the tensors of the failed batch free to be given back.
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return False
