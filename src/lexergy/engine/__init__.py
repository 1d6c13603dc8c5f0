"""How networks run fast: the probe, batches by token budget, decoding, scoring."""
