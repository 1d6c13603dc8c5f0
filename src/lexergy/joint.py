"""A language model corrected by an energy: P(x | c) = P_LM(x | c) · exp(−E(c, x)) / Z(c), Z(c) = E_{x ~ P_LM} exp(−E(c, x)).

Generation paper, Eq. 2. The language model stays as it is; the energy judges whole continuations. Samples come weighted
(Algorithm 1), probabilities come as bounds, since Z is estimated; the certified perplexity holds at every n.

*Requirements*: one space of continuations for data, samples and Z: it is fixed here, with its length, and saved.

Example:

    joint = lx.Joint(lm, energy, space="until_eos", length=40)
    joint.sample("The council voted", n=64, seed=0).pick(3)
"""

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core import files, random
from lexergy.core.errors import LexergyError
from lexergy.core.types import Bounds, Law, Samples, Space, Tokens
from lexergy.energies import saved
from lexergy.energies.base import Energy
from lexergy.energies.function import Function
from lexergy.evaluation.held_out import held_out
from lexergy.evaluation.perplexity import Judged, Perplexity, perplexity
from lexergy.loading import load_proposal
from lexergy.proposals.causal import Causal
from lexergy.estimators.partition import partition
from lexergy.text.corpus import read_corpus
from lexergy.text.document import Document
from lexergy.text.windows import Window
from lexergy.training.progress import Shown

Base = Literal["draw", "full"]


class Joint:
    """P_LM · exp(−E), over continuations of one space."""

    def __init__(
        self,
        proposal: Causal,
        energy: Energy | Callable[[list[str]], Sequence[float]],
        space: Space = "until_eos",
        length: int = 40,
    ) -> None:
        if space not in ("fixed", "until_eos"):
            raise LexergyError(f'space is "fixed" or "until_eos"; received {space!r}.')
        if length < 1:
            raise LexergyError(f"length must be at least 1 token; received {length}.")
        self.proposal = proposal
        self.energy = energy if isinstance(energy, Energy) else Function(energy)
        self.space: Space = space
        self.length = length
        self._reader = self.energy.reading(proposal.tokenizer)
        self._check_training()

    def __repr__(self) -> str:
        return f"Joint({self.proposal!r}, {type(self.energy).__name__}, space={self.space!r}, length={self.length})"

    def _check_training(self) -> None:
        """An energy learns what one law gets wrong; over another law it is still an energy, but not the one meant."""
        mined = self.energy.mined
        if mined is None:
            return
        if mined.space != self.space:
            raise LexergyError(
                f"The energy was trained on texts in the space {mined.space!r}, this joint model is over {self.space!r}: the "
                "ends of texts alone would tell them apart. Use the same space, or mine again."
            )
        if mined.hash != self.proposal.lm.hash:
            warnings.warn(
                f"The energy was trained against {mined.model}, another model than {self.proposal.lm.name}: its correction may "
                "not fit.",
                stacklevel=3,
            )
        if mined.truncated:
            warnings.warn(
                f"The energy was trained against truncated draws ({mined}): outside what they reach it is undefined, and "
                "log Z and perplexity of the untruncated model rest on it.",
                stacklevel=3,
            )

    def _law(self, max_new_tokens: int | None, seed: int | None, **options: Any) -> Law:
        length = self.length if max_new_tokens is None else max_new_tokens
        if length > self.length:
            raise LexergyError(
                f"This joint model is over texts of at most {self.length} tokens; received max_new_tokens={length}. Make one with a "
                "larger length."
            )
        return self.proposal.law_of(length, space=self.space, seed=seed, **options)

    def _prompts(self, prompt: str | Sequence[str]) -> list[list[int]]:
        return [self.proposal.prompt_ids(one) for one in ([prompt] if isinstance(prompt, str) else prompt)]

    @overload
    def sample(self, prompt: str, n: int = 64, max_new_tokens: int | None = None, **options: Any) -> Samples: ...
    @overload
    def sample(
        self, prompt: Sequence[str], n: int = 64, max_new_tokens: int | None = None, **options: Any
    ) -> list[Samples]: ...
    def sample(
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
        if base == "full" and self.energy.mined is not None and self.energy.mined.truncated:
            raise LexergyError(
                'base="full" needs an energy that is defined everywhere; this one was trained against truncated draws. Use '
                'base="draw" with the same truncation, or mine again untruncated.'
            )
        draws = self.proposal.draw(self._prompts(prompt), n, law)
        found = [Samples.weigh(one, self._reader.of_tokens(one.tokens), base) for one in draws]
        return found[0] if isinstance(prompt, str) else found

    @overload
    def log_z(
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
        found = [
            partition(energy) for energy in self._energies(self._prompts(prompt), n, self._law(max_new_tokens, seed))
        ]
        return found[0] if isinstance(prompt, str) else found

    def _energies(self, prompts: Sequence[Sequence[int]], n: int, law: Law) -> list[Float[Tensor, "n"]]:
        """Energies of n draws after each prompt."""
        return [self._reader.of_tokens(draws.tokens) for draws in self.proposal.draw(prompts, n, law)]

    def log_prob(
        self, texts: Sequence[str], context: str | Sequence[str] = "", n: int = 1024, seed: int | None = None
    ) -> list[Bounds]:
        """Bounds on log P(text | context). In the space `until_eos` a text shorter than the length ends there, EOS included; in
        `fixed` it has exactly the length."""
        rows = [self._complete(ids, start) for ids, start, _ in self.proposal.encode(texts, context)]
        tokens = Tokens.of([ids for ids, _ in rows], [start for _, start in rows])
        log_p, own = self.proposal.token_log_prob(tokens), self._reader.of_tokens(tokens)
        law = self._law(None, random.resolve(seed))
        prompts = [tuple(ids[:start]) for ids, start in rows]
        distinct = list(dict.fromkeys(prompts))
        z = dict(zip(distinct, map(partition, self._energies(distinct, n, law)), strict=True))
        found = []
        for prompt, unnormalised in zip(prompts, (log_p - own).tolist(), strict=True):
            one = z[prompt]
            lower = unnormalised - one.upper if one.upper is not None else None
            found.append(_log_prob_bounds(lower, unnormalised - one.lower, one))
        return found

    def _complete(self, ids: list[int], start: int) -> tuple[list[int], int]:
        """A text as a member of the space."""
        count, eos = len(ids) - start, self.proposal.lm.eos
        ended = count > 0 and ids[-1] in eos
        if count > self.length or (self.space == "fixed" and count != self.length):
            wanted = f"exactly {self.length}" if self.space == "fixed" else f"at most {self.length}"
            raise LexergyError(f"A text of this joint model has {wanted} tokens; received one of {count}.")
        if self.space == "until_eos" and count < self.length and not ended:
            if not eos:
                raise LexergyError(
                    f"{self.proposal.lm.name} has no EOS, so a text of fewer than {self.length} tokens never ends."
                )
            return [*ids, eos[0]], start
        return ids, start

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
        eos = self.proposal.lm.eos
        chosen = held_out(
            text, self.proposal.tokenizer, prefix, self.length, self.space, windows, seed, eos=eos[0] if eos else None
        )
        law = self._law(None, seed)
        return perplexity(self.judge(chosen, n, law, quiet), str(law), seed)

    def judge(self, windows: Sequence[Window], n: int, law: Law, quiet: bool = False) -> Judged:
        """Draws and energies for each window, a few windows at a time."""
        if not windows:
            raise LexergyError("There is no window of held-out text to judge on.")
        start = self.proposal.prompt_ids("")
        contexts = [window.context or start for window in windows]
        true = Tokens.of(
            [[*c, *w.continuation] for c, w in zip(contexts, windows, strict=True)], [len(c) for c in contexts]
        )
        log_p, own = self.proposal.token_log_prob(true), self._reader.of_tokens(true)
        energies: list[Tensor] = []
        with closing(Shown(len(windows), 0, quiet)) as shown:
            for context in contexts:
                energies += self._energies([context], n, law)
                shown.show(len(energies))
        sizes = torch.tensor([len(window.continuation) for window in windows])
        return Judged(log_p, own, torch.stack(energies), sizes, [window.group for window in windows])

    def save_pretrained(self, folder: str | Path) -> None:
        """A folder with the energy and the name, revision and hash of the language model; its weights are never copied."""
        place, lm = Path(folder), self.proposal.lm
        self.energy.config()  # refuses here, before anything is written
        content: dict[str, Any] = {
            "space": self.space,
            "length": self.length,
            "proposal": {"name": lm.name, "revision": lm.revision, "hash": lm.hash, "bos": self.proposal.bos},
        }
        if Path(lm.name).is_dir():
            # A model on disk is also named from the joint's own folder, so that both can move together.
            content["proposal"]["beside"] = os.path.relpath(Path(lm.name).resolve(), place.resolve())
        with files.atomic(place) as draft:
            draft.mkdir(parents=True)
            (draft / "energy").mkdir()
            self.energy.write(draft / "energy")
            files.write_json(draft / "joint.json", content)

    @classmethod
    def from_pretrained(cls, folder: str | Path, proposal: Causal | None = None, **options: Any) -> "Joint":
        """Read a joint model back. `proposal`: the language model where it has moved; options: device, dtype, …"""
        place = Path(folder)
        if not (place / "joint.json").is_file():
            raise LexergyError(f"{place} is no saved joint model: there is no joint.json in it.")
        content = files.read_json(place / "joint.json")
        named = content["proposal"]
        if proposal is None:
            beside = place / named["beside"] if "beside" in named else None
            source = str(beside) if beside is not None and beside.is_dir() else named["name"]
            revision = None if named["revision"] in ("object", "main") else named["revision"]
            proposal = load_proposal(source, bos=named["bos"], revision=revision, **options)
        if proposal.lm.hash != named["hash"]:
            raise LexergyError(
                f"This joint model was made over {named['name']} (hash {named['hash'][:12]}); {proposal.lm.name} has other weights "
                f"(hash {proposal.lm.hash[:12]}). Give the right one as proposal=."
            )
        energy = saved.read(place / "energy", **options)
        return cls(proposal, energy, space=content["space"], length=content["length"])


def _log_prob_bounds(lower: float | None, upper: float, z: Bounds) -> Bounds:
    """log P lies between (…) − U_n and (…) − T_n; where there is no U_n there is no lower bound."""
    return Bounds(float("-inf") if lower is None else lower, upper, z.n, z.ess, z.max_weight, z.resolved)
