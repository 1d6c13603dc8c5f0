"""The shared words: types, errors, files, log-space maths, randomness, laws, the toy universe."""
