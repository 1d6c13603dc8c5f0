"""str to Tokens: tokenisers, corpora, windows, stored token sets."""
