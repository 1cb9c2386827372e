"""Parts made from what experiments begin from: a file of a template, as `python -m experiments new` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.cli import templates
from tools.rendering.blocks import Maker


def makers(root: Path) -> dict[str, Maker]:
    """The generated parts of this module, by name."""
    return {"new-experiment": lambda arguments, path: new_experiment(arguments, root)}


def new_experiment(arguments: Sequence[str], root: Path) -> str:
    """KIND TOPIC/NAME FILE: that file of the experiment, as code. ValueError for another number of arguments, or file.

    LabError for a kind without a template.
    """
    if len(arguments) != 3:
        raise ValueError(f"this part takes KIND TOPIC/NAME FILE, found {' '.join(arguments) or 'nothing'}")
    kind, place, file = arguments
    topic, _, name = place.partition("/")
    written = {Path(path).name: text for path, text in templates.find(kind, root).files(topic, name)}
    if file not in written:
        raise ValueError(f"there is no {file} among {', '.join(written)}")
    return f"```python\n{written[file]}```"
