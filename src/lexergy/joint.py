"""A language model corrected by an energy: P(x | c) = P_LM(x | c) · exp(−E(c, x)) / Z(c), Z(c) = E_{x ~ P_LM} exp(−E).

Generation paper, Eq. 2. The language model stays as it is; the energy judges whole continuations. Samples come weighted
(Algorithm 1), probabilities come as bounds, since Z is estimated; the certified perplexity holds at every n.

*Requirements*: one space of continuations for data, samples and Z: it is fixed here, with its length, and saved.

Example:

    joint = lx.Joint(lm, energy, space="until_eos", length=40)
    joint.sample("The council voted", n=64, seed=0).pick(3)
"""

import dataclasses
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core import files
from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed
from lexergy.core.types import Bounds, Law, Samples, Space, Tokens
from lexergy.energies import saved
from lexergy.energies.base import Energy
from lexergy.energies.function import Function
from lexergy.estimators.partition import partition
from lexergy.evaluation.held_out import held_out
from lexergy.evaluation.perplexity import Judged, Perplexity, perplexity
from lexergy.loading import load_proposal, saved_place
from lexergy.proposals.causal import Causal
from lexergy.text.corpus import read_corpus
from lexergy.text.document import Document
from lexergy.text.windows import Window
from lexergy.training.progress import Shown

Base = Literal["draw", "full"]

NAME = "joint.json"
_ROWS = 1024
"""Draws in one call: prompts with few draws each go through the language model together."""


class Joint:
    """P_LM · exp(−E), over continuations of one space."""

    def __init__(
        self,
        proposal: Causal,
        energy: Energy | Callable[[list[str]], Sequence[float]],
        space: Space = "until_eos",
        length: int = 40,
    ) -> None:
        if not isinstance(proposal, Causal):
            raise LexergyError(f"proposal is a language model, as load_proposal gives it; received {proposal!r}.")
        if not callable(energy):
            raise LexergyError(
                f"energy is an energy, as load_energy gives it, or a function of texts; received {energy!r}."
            )
        if space not in ("fixed", "until_eos"):
            raise LexergyError(f'space is "fixed" or "until_eos"; received {space!r}.')
        if length < 1:
            raise LexergyError(f"length must be at least 1 token; received {length}.")
        if proposal.direction != "left_to_right":
            raise LexergyError(f"{proposal.lm.name} reads right to left; a joint model continues texts, left to right.")
        self.proposal = proposal
        self.energy = energy if isinstance(energy, Energy) else Function(energy)
        self.space: Space = space
        self.length = length
        self._reader = self.energy.reading(proposal.tokenizer)
        self._mined = {part.mined for part in self.energy.modules() if isinstance(part, Energy) and part.mined}
        for law in self._mined:
            self._check(law)

    def __repr__(self) -> str:
        return f"Joint({self.proposal!r}, {type(self.energy).__name__}, space={self.space!r}, length={self.length})"

    def _check(self, mined: Law) -> None:
        """An energy learns what one law gets wrong; over another law it is still an energy, but not the one meant."""
        if mined.space != self.space:
            raise LexergyError(
                f"The energy was trained on texts in the space {mined.space!r}, this joint model is over {self.space!r}: "
                "the ends of texts alone would tell them apart. Use the same space, or mine again."
            )
        if mined.hash != self.proposal.lm.hash:
            name = self.proposal.lm.name
            self._warn(f"was trained against {mined.model}, another model than {name}: its correction may not fit.")
        if not mined.exact:
            self._warn(
                f"was trained against draws by another law than the model's own ({mined}): where those never or seldom "
                "come it is undefined, and log Z and perplexity rest on it."
            )
        if mined.max_new_tokens < self.length:
            self._warn(f"was trained on texts of up to {mined.max_new_tokens} tokens, not {self.length}.")

    @staticmethod
    def _warn(what: str) -> None:
        warnings.warn(f"The energy {what}", stacklevel=4)

    def _law(self, max_new_tokens: int | None, seed: int | None, **options: Any) -> Law:
        length = self.length if max_new_tokens is None else max_new_tokens
        if length > self.length:
            raise LexergyError(
                f"This joint model is over texts of at most {self.length} tokens; received max_new_tokens={length}. Make "
                "one with a larger length."
            )
        return self.proposal.law_of(length, space=self.space, seed=seed, **options)

    def _prompts(self, prompt: str | Sequence[str]) -> list[list[int]]:
        return [self.proposal.prompt_ids(one) for one in ([prompt] if isinstance(prompt, str) else prompt)]

    @overload
    def sample(  # pyright: ignore[reportOverlappingOverload]  a str is a Sequence[str], too
        self, prompt: str, n: int = 64, max_new_tokens: int | None = None, **options: Any
    ) -> Samples: ...
    @overload
    def sample(
        self, prompt: Sequence[str], n: int = 64, max_new_tokens: int | None = None, **options: Any
    ) -> list[Samples]: ...
    def sample(  # pyright: ignore[reportInconsistentOverload]  the options are those that follow
        self,
        prompt: str | Sequence[str],
        n: int = 64,
        max_new_tokens: int | None = None,
        *,
        base: Base = "draw",
        seed: int | None = None,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
    ) -> Samples | list[Samples]:
        """n weighted continuations of a prompt, or of each of a list (Algorithm 1; `pick` resamples by weight).

        base="draw": weights exp(−E), targeting Q·exp(−E), Q the law drawn from. base="full": weights P_LM/Q·exp(−E).
        """
        law = self._law(max_new_tokens, seed, temperature=temperature, top_k=top_k, top_p=top_p)
        found = self.weigh(self._prompts(prompt), n, law, base)
        return found[0] if isinstance(prompt, str) else found

    def weigh(self, prompts: Sequence[Sequence[int]], n: int, law: Law, base: Base = "draw") -> list[Samples]:
        """The same after prompts given by ids, by a stated law."""
        if base == "full" and any(mined.truncated for mined in self._mined):
            raise LexergyError(
                'base="full" needs an energy that is defined everywhere; this one was trained against truncated draws. '
                'Use base="draw" with the same truncation, or mine again untruncated.'
            )
        draws = self.proposal.draw(prompts, n, law)
        return [Samples.weigh(one, self._reader.of_tokens(one.tokens), base) for one in draws]

    @overload
    def log_z(  # pyright: ignore[reportOverlappingOverload]
        self, prompt: str, n: int = 1024, max_new_tokens: int | None = None, seed: int | None = None
    ) -> Bounds: ...
    @overload
    def log_z(
        self, prompt: Sequence[str], n: int = 1024, max_new_tokens: int | None = None, seed: int | None = None
    ) -> list[Bounds]: ...
    def log_z(
        self, prompt: str | Sequence[str], n: int = 1024, max_new_tokens: int | None = None, seed: int | None = None
    ) -> Bounds | list[Bounds]:
        """Bounds on log Z of a prompt from n untruncated draws, or of each of a list."""
        law = self._law(max_new_tokens, seed)
        found = [_bounds(one, law) for one in self._energies(self._prompts(prompt), n, law)]
        return found[0] if isinstance(prompt, str) else found

    def _energies(self, prompts: Sequence[Sequence[int]], n: int, law: Law) -> Iterator[Float[Tensor, "_n"]]:
        """Energies of n draws after each prompt; a prompt that comes again gets draws of its own."""
        seen = Counter[tuple[int, ...]]()
        at_once = max(1, _ROWS // max(n, 1))
        for begin in range(0, len(prompts), at_once):
            some = prompts[begin : begin + at_once]
            first: list[int] = []
            for prompt in some:
                first.append(seen[tuple(prompt)] * n)
                seen[tuple(prompt)] += 1
            for draws in self.proposal.draw(some, n, law, Keyed.draws(law.seed, some, n, first)):
                energy = self._reader.of_tokens(draws.tokens)
                if bool(torch.isposinf(energy).all()):
                    raise LexergyError(
                        f"The energy forbids (+inf) all {n} draws after a prompt, such as {draws.texts[0][:60]!r}, so "
                        "nothing is known of Z there. Raise n, or loosen the constraint."
                    )
                yield energy

    def log_prob(
        self, texts: Sequence[str], context: str | Sequence[str] = "", n: int = 1024, seed: int | None = None
    ) -> list[Bounds]:
        """Bounds on log P(text | context). In the space `until_eos` a text shorter than the length ends there, EOS
        included, whichever of several; in `fixed` it has exactly the length."""
        rows = self.proposal.encode([texts] if isinstance(texts, str) else list(texts), context)
        members = [self._members(ids, start) for ids, start, _ in rows]
        tokens = Tokens.of(
            [ids for every in members for ids in every],
            [start for every, (_, start, _) in zip(members, rows, strict=True) for _ in every],
        )
        prompts = [tuple(ids[:start]) for ids, start, _ in rows]
        distinct = list(dict.fromkeys(prompts))
        law = self._law(None, seed)
        z = {prompt: _bounds(e, law) for prompt, e in zip(distinct, self._energies(distinct, n, law), strict=True)}
        weighed = self.proposal.token_log_prob(tokens) - self._reader.of_tokens(tokens)
        parts = weighed.split([len(every) for every in members]) if members else []
        return [_less(float(torch.logsumexp(part, 0)), z[prompt]) for prompt, part in zip(prompts, parts, strict=True)]

    def _members(self, ids: list[int], start: int) -> list[list[int]]:
        """The members of the space that a text stands for: one, or one an EOS where it is to end."""
        free, eos, count = ids[start:], self.proposal.lm.eos, len(ids) - start
        if count > self.length or (self.space == "fixed" and count != self.length):
            wanted = f"exactly {self.length}" if self.space == "fixed" else f"at most {self.length}"
            raise LexergyError(f"A text of this joint model has {wanted} tokens; received one of {count}.")
        if self.space == "until_eos" and set(free[:-1]) & set(eos):
            raise LexergyError("A text goes on after an EOS token, which in the space 'until_eos' no text does.")
        if count == self.length or (free and free[-1] in eos):
            return [ids]
        if not eos:
            raise LexergyError(
                f"{self.proposal.lm.name} has no EOS, so a text of fewer than {self.length} tokens never ends."
            )
        return [[*ids, one] for one in eos]

    def perplexity(
        self,
        file: str | Path | None = None,
        n: int = 1024,
        prefix: int = 120,
        windows: int = 256,
        seed: int = 0,
        *,
        documents: Sequence[Document] | None = None,
        quiet: bool = False,
    ) -> Perplexity:
        """Base, lower, upper and certified perplexity on held-out text, with intervals over documents."""
        if (file is None) == (documents is None):
            raise LexergyError("Give the held-out text as file= or as documents=, one of the two.")
        text = read_corpus(file) if file is not None else documents or []
        return perplexity(self.judge(self.held_out(text, prefix, windows, seed), n, seed, quiet), seed)

    def held_out(self, documents: Iterable[Document], prefix: int, count: int, seed: int = 0) -> list[Window]:
        """Windows of a held-out text, in this joint model's space."""
        lm = self.proposal
        eos = lm.lm.eos[0] if lm.lm.eos else None
        return held_out(documents, lm.tokenizer, prefix, self.length, self.space, count, seed, eos=eos, bos=lm.bos)

    def judge(self, windows: Sequence[Window], n: int, seed: int = 0, quiet: bool = False) -> Judged:
        """Draws and energies for each window."""
        if not windows:
            raise LexergyError("There is no window of held-out text to judge on.")
        law = self._law(None, seed)
        contexts = [window.context or self.proposal.prompt_ids("") for window in windows]
        true = Tokens.of(
            [[*c, *w.continuation] for c, w in zip(contexts, windows, strict=True)], [len(c) for c in contexts]
        )
        log_p, own = self.proposal.token_log_prob(true), self._reader.of_tokens(true)
        energies: list[Tensor] = []
        with closing(Shown(len(windows), 0, quiet, "window")) as shown:
            for energy in self._energies(contexts, n, law):
                energies.append(energy)
                shown.show(len(energies))
        sizes = torch.tensor([len(window.continuation) for window in windows])
        groups = [window.group for window in windows]
        return Judged(log_p, own, torch.stack(energies), sizes, groups, str(law))

    def save_pretrained(self, folder: str | Path) -> None:
        """A folder with the energy and the name, revision and hash of the language model, whose weights are never
        copied."""
        place, lm = Path(folder), self.proposal.lm
        self.energy.config()  # refuses here, before anything is written
        named: dict[str, Any] = {
            "name": lm.name,
            "revision": lm.revision,
            "hash": lm.hash,
            "bos": self.proposal.bos,
            "eos": list(lm.eos),
        }
        if Path(lm.name).is_dir():
            # A model on disk is also named from the joint's own folder, so that both can move together.
            named["beside"] = os.path.relpath(Path(lm.name).resolve(), place.resolve())
        with files.atomic(place) as draft:
            (draft / "energy").mkdir(parents=True)
            self.energy.write(draft / "energy")
            files.write_json(draft / NAME, {"space": self.space, "length": self.length, "proposal": named})

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, proposal: Causal | None = None, *, revision: str | None = None, **options: Any
    ) -> "Joint":
        """Read a joint model back from a folder or a Hub id. `proposal`: the language model, where it has moved or was an
        object; `revision`: of the joint model on the Hub; options: device, dtype, attn_implementation."""
        otherwise = "Give a folder that a joint model's save_pretrained wrote, or its Hub id."
        place = saved_place(folder, NAME, "saved joint model", otherwise, revision)
        content = files.read_json(place / NAME)
        if not isinstance(content, dict) or not {"space", "length", "proposal"} <= content.keys():
            raise LexergyError(f"{place / NAME} lacks its space, length or proposal: save_pretrained did not write it.")
        named = content["proposal"]
        lm = _proposal(place, named, options) if proposal is None else proposal
        if lm.lm.hash != named["hash"]:
            raise LexergyError(
                f"This joint model was made over {named['name']} (hash {named['hash'][:12]}); {lm.lm.name} has other "
                f"weights (hash {lm.lm.hash[:12]}). Give the right one as proposal=."
            )
        return cls(lm, saved.read(place / "energy", **options), space=content["space"], length=content["length"])


def _proposal(place: Path, named: dict[str, Any], options: dict[str, Any]) -> Causal:
    """The language model that a saved joint model names: beside it, else where it was."""
    beside = place / named["beside"] if "beside" in named else None
    if beside is not None and beside.is_dir():
        source = str(beside)
    elif named["revision"] == "object" and not Path(named["name"]).is_dir():
        raise LexergyError(
            f"This joint model was made over a model object ({named['name']}), which is not saved with it: give it as "
            "proposal=."
        )
    else:
        source = named["name"]
    revision = None if named["revision"] in ("object", "main") else named["revision"]
    return load_proposal(source, bos=named["bos"], eos=named["eos"], revision=revision, **options)


def _bounds(energy: Float[Tensor, "_n"], law: Law) -> Bounds:
    """Bounds on log Z, with the seed by which they can be had again."""
    return dataclasses.replace(partition(energy), seed=law.seed)


def _less(unnormalised: float, z: Bounds) -> Bounds:
    """log P lies between (…) − U_n and (…) − T_n; where there is no U_n nothing holds it from below."""
    lower = float("-inf") if z.upper is None else unnormalised - z.upper
    return dataclasses.replace(z, lower=lower, upper=unnormalised - z.lower)
