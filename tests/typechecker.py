"""What checks annotations while tests run: beartype, with an int where a float is asked for, as Python's own rule has it."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
