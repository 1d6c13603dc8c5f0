"""What training costs, in floating-point operations: 6 a weight and token trained on, 2 a weight and token read.

Two for the product forwards, four for its two gradients; attention's own products, small at these lengths, are left out,
and so are weights that take part in no product: embeddings, unless they are the output matrix too.
"""

from torch import nn


def size(module: nn.Module) -> int:
    """How many numbers its weights are, each once."""
    return sum(parameter.numel() for parameter in module.parameters())


def multiplied(module: nn.Module, head: nn.Module | None = None) -> int:
    """How many of them a token meets in a product. `head`: the output matrix, which may be an embedding as well."""
    tables = [part.weight for part in module.modules() if isinstance(part, nn.Embedding)]
    output = None if head is None else head.weight
    return size(module) - sum(table.numel() for table in tables if table is not output)


def flops(trained: float, read: float, weights: int) -> float:
    """Of a network of so many multiplied weights, over tokens trained on and tokens only read."""
    return (6.0 * trained + 2.0 * read) * weights
