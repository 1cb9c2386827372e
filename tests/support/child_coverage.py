"""Coverage inside the interpreters that tests make, which hold no coverage of their own.

Where the tests themselves are measured, a .pth lets such an interpreter report too: it borrows the package from the
tests' environment for the import alone, so that sys.path and the installed distributions stay as the test made them.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

CONFIG = "COVERAGE_PROCESS_CONFIG"  # set by coverage's `patch = subprocess`; holds the settings, with absolute paths


def follow(site: Path) -> None:
    """Let interpreters that read `site` be measured; nothing where the tests are not."""
    found = importlib.util.find_spec("coverage")
    if CONFIG not in os.environ or found is None or found.origin is None:
        return
    place = str(Path(found.origin).parent.parent)
    (site / "zz_coverage_of_the_tests.pth").write_text(
        f"import os, sys; {CONFIG!r} in os.environ and (sys.path.insert(0, {place!r}), "
        f"__import__('coverage').process_startup(), sys.path.remove({place!r}))\n"
    )


def variables() -> dict[str, str]:
    """What a child with an otherwise bare set of variables needs to be measured; empty where nothing is."""
    return {CONFIG: os.environ[CONFIG]} if CONFIG in os.environ else {}


def unmeasured(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a child that is to be killed: one that was killed as it wrote its data leaves half a file.

    What such a child reached by then is chance, and no share of the code to be counted.
    """
    return {name: value for name, value in environ.items() if name != CONFIG}
