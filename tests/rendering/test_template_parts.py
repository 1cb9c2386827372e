"""The walk-through shows what `new` writes, and a part that asks for what there is not is a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.cli import templates
from tools.environments.errors import LabError
from tools.environments.layout import ROOT
from tools.rendering import blocks, template_parts

PAGE = ROOT / "CONTRIBUTING.md"


def test_the_walk_through_is_current_and_shows_what_is_written() -> None:
    text = PAGE.read_text(encoding="utf-8")
    ours = [part for part in blocks.parts(PAGE, text)[0] if part.name in template_parts.makers(ROOT)]
    assert ours
    for part in ours:
        kind, place, file = part.arguments
        written = {Path(path).name: text for path, text in templates.find(kind).files(*place.split("/"))}
        assert text.splitlines()[part.begin : part.end - 1] == ["```python", *written[file].splitlines(), "```"]
        assert "Change: " in written[file]


@pytest.mark.parametrize(
    "arguments", [(), ("operator",), ("operator", "a/b", "kind.py"), ("operator", "a/b", "x", "y")]
)
def test_a_part_that_cannot_be_made_says_why(arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"this part takes KIND|there is no kind\.py among"):
        template_parts.new_experiment(arguments, ROOT)
    with pytest.raises(LabError):
        template_parts.new_experiment(("conformance", "a/b", "worker.py"), ROOT)
