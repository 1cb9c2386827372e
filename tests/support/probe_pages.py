"""A topic of one small conformance page, written wherever a test wants it."""

from __future__ import annotations

from pathlib import Path

PAGE = '''"""Doubling, against torch's own sum."""

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.conformance.tolerance import Tolerance


def by_torch(trial: Trial) -> None:
    """Twice a vector is the vector plus itself, and the same again through a list."""
    x = trial.case.normal(trial.case.integer("length", 1, 5))
    ours = trial.mechanism("probe.doubling").double(x)
    trial.compare.agree("twice x", ours, x + x, Tolerance("float64", 1, "one product"))


PAGE = Page("doubling", ("probe.doubling",), (PageCheck("by_torch", by_torch, "probe.doubling.double", "torch.add"),))
'''
MECHANISM = '''"""Doubling."""

import torch


def double(x: torch.Tensor) -> torch.Tensor:
    """Twice x."""
    return 2 * x
'''
PAGE_TOML = 'order = 1\ntitle = "Doubling"\ntitle_zh = "加倍"\n'
MUTANTS = '[thrice]\nmodule = "probe.doubling"\nold = "2 * x"\nnew = "3 * x"\nfault = "three times"\n'
EXERCISE = """module = "probe.doubling"
task = "Write twice x."

[[gap]]
old = "    return 2 * x"
new = '    gap(1, "what is twice x, without a loop?")'
"""


def page_at(experiments: Path, *, topic: str = "probe", folder: str = "doubling", **files: str | None) -> Path:
    """The page's folder below an `experiments` folder. `files`: another text of a file, by its stem; None: no such."""
    place = experiments / topic / "conformance" / folder
    place.mkdir(parents=True)
    texts = {"page": PAGE_TOML, "mutants": MUTANTS, "exercise": EXERCISE, "__init__": PAGE} | files
    for stem, text in texts.items():
        if text is not None:
            (place / f"{stem}.{'py' if stem == '__init__' else 'toml'}").write_text(text, encoding="utf-8")
    return place


def topic_at(experiments: Path) -> None:
    """The page and the mechanism it teaches."""
    page_at(experiments)
    mechanism = experiments / "mechanisms" / "probe" / "doubling.py"
    mechanism.parent.mkdir(parents=True)
    mechanism.write_text(MECHANISM, encoding="utf-8")
