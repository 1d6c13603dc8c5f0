"""Memory that runs out: what it is tried on, in place of a machine that is full."""

import torch

ON_A_CPU = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)"
)


class Memory:
    """A function of rows that runs out of memory above so many tokens, and remembers what it was asked."""

    def __init__(self, lengths, room, error=None):
        self.lengths, self.room, self.error, self.asked = lengths, room, error or RuntimeError(ON_A_CPU), []

    def __call__(self, rows):
        tokens = len(rows) * max(self.lengths[row] for row in rows)
        self.asked.append((list(rows), tokens <= self.room))
        if tokens > self.room:
            raise self.error
        return torch.tensor([float(self.lengths[row]) * 10 + row for row in rows])
