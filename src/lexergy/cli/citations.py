"""The papers whose methods are here, as data: enough for a sentence and for BibTeX."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Citation:
    """One work. `kind` is BibTeX's entry type, `venue` the name of the field that says where it appeared."""

    key: str
    kind: str
    authors: tuple[str, ...]
    title: str
    year: int
    venue: tuple[str, str]
    further: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """A sentence for a bibliography."""
        names = self.authors[0]
        if len(self.authors) > 1:
            names = f"{', '.join(self.authors[:-1])} and {self.authors[-1]}"
        title = self.title if self.title.endswith("?") else f"{self.title}."
        shown = dict(self.further)
        volume = shown.get("volume", "") + (f"({shown['number']})" if "number" in shown else "")
        where = ", ".join(part for part in (self.venue[1], volume, shown.get("pages", "").replace("--", "–")) if part)
        return f"{names}. {title} {where}, {self.year}."

    @property
    def bibtex(self) -> str:
        """An entry for a .bib file."""
        fields = {
            "title": f"{{{self.title}}}",  # doubled braces keep the capitals
            "author": " and ".join(self.authors),
            self.venue[0]: self.venue[1],
            "year": str(self.year),
            **dict(self.further),
        }
        lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
        return f"@{self.kind}{{{self.key},\n{lines}\n}}"


GENERATION = Citation(
    "deng2020residual",
    "inproceedings",
    ("Yuntian Deng", "Anton Bakhtin", "Myle Ott", "Arthur Szlam", "Marc'Aurelio Ranzato"),
    "Residual Energy-Based Models for Text Generation",
    2020,
    ("booktitle", "International Conference on Learning Representations"),
)
DISCRIMINATION = Citation(
    "bakhtin2019real",
    "article",
    ("Anton Bakhtin", "Sam Gross", "Myle Ott", "Yuntian Deng", "Marc'Aurelio Ranzato", "Arthur Szlam"),
    "Real or Fake? Learning to Discriminate Machine from Human Generated Text",
    2019,
    ("journal", "arXiv preprint arXiv:1906.03351"),
    (("note", "Also known as: Residual EBMs: Does Real vs. Fake Text Discrimination Generalize?"),),
)
JMLR = Citation(
    "bakhtin2021residual",
    "article",
    ("Anton Bakhtin", "Yuntian Deng", "Sam Gross", "Myle Ott", "Marc'Aurelio Ranzato", "Arthur Szlam"),
    "Residual Energy-Based Models for Text",
    2021,
    ("journal", "Journal of Machine Learning Research"),
    (("volume", "22"), ("number", "40"), ("pages", "1--41")),
)
ELECTRIC = Citation(
    "clark2020electric",
    "inproceedings",
    ("Kevin Clark", "Minh-Thang Luong", "Quoc V. Le", "Christopher D. Manning"),
    "Pre-Training Transformers as Energy-Based Cloze Models",
    2020,
    ("booktitle", "Conference on Empirical Methods in Natural Language Processing"),
    (("pages", "285--294"),),
)
THESIS = Citation(
    "goyal2021characterizing",
    "phdthesis",
    ("Kartik Goyal",),
    "Characterizing and Overcoming the Limitations of Neural Autoregressive Models",
    2021,
    ("school", "Carnegie Mellon University"),
)
NCE = Citation(
    "gutmann2010noise",
    "inproceedings",
    ("Michael Gutmann", "Aapo Hyvärinen"),
    "Noise-contrastive estimation: A new estimation principle for unnormalized statistical models",
    2010,
    ("booktitle", "International Conference on Artificial Intelligence and Statistics"),
    (("pages", "297--304"),),
)
CONDITIONAL_NCE = Citation(
    "ma2018noise",
    "inproceedings",
    ("Zhuang Ma", "Michael Collins"),
    "Noise Contrastive Estimation and Negative Sampling for Conditional Models: Consistency and Statistical Efficiency",
    2018,
    ("booktitle", "Conference on Empirical Methods in Natural Language Processing"),
    (("pages", "3698--3707"),),
)
SOFTWARE = Citation(
    "lexergy",
    "software",
    ("{The Lexergy authors}",),
    "Lexergy: energy-based models of text",
    2026,
    ("publisher", "https://lexergy.readthedocs.io"),
)

PHRASES = {
    "generation paper": (GENERATION,),
    "discrimination paper": (DISCRIMINATION,),
    "jmlr": (JMLR,),
    "electric paper": (ELECTRIC,),
    "thesis": (THESIS,),
    "noise-contrastive": (NCE, CONDITIONAL_NCE),
}
"""How pages and recipes name a paper, and what is meant."""

NAMED = {
    "residual": (GENERATION, JMLR),
    "joint": (GENERATION, JMLR),
    "generation": (GENERATION, JMLR),
    "discrimination": (DISCRIMINATION, JMLR),
    "electric": (ELECTRIC,),
    "thesis": (THESIS,),
    "nce": (NCE, CONDITIONAL_NCE),
    "lexergy": (),
}
"""Methods by a name of their own."""
