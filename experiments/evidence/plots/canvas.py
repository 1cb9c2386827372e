"""The sheet every picture is drawn on: the same bytes for the same record, text as text, readable without colour.

Passed and failed differ in fill and hatching, lines in dash and marker; colour comes on top.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.environments.errors import LabError

INK = "#222222"
PASSED = "#3d5a80"
FAILED = "#ee6c4d"
PALE = "#cfd8e3"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
SHADES = ("#3d5a80", "#ee6c4d", "#98c1d9", "#6d597a", "#b56576", "#355070")

THEME = {
    "svg.hashsalt": "training-mechanism-lab",
    "svg.fonttype": "none",
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
}


@contextmanager
def sheet(
    path: Path, title: str, panels: int, *, rows: int = 1, width: float = 5.0, height: float = 3.0
) -> Iterator[Sequence[Any]]:
    """Axes for `panels` side by side; on leaving, the picture stands at `path`. Raises LabError if it cannot."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context(THEME):
        drawn = Figure(figsize=(width * panels, height * rows), layout="constrained")
        FigureCanvasSVG(drawn)
        axes = list(drawn.subplots(rows, panels, squeeze=False).flat)
        yield axes
        drawn.suptitle(title, fontsize=9, x=0.01, ha="left")
        try:
            drawn.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        except OSError as error:
            found = os.strerror(error.errno) if error.errno else str(error)
            mend = "free some space, or check the folder's owner and mode"
            raise LabError("a folder a picture can be written to", found, mend, path.name) from None


def bars(axis: Any, names: Sequence[str], values: Sequence[float], passed: Sequence[bool], left: float = 0.0) -> None:
    """Horizontal bars from the top down; one that failed is hatched."""
    places = range(len(names))
    drawn = axis.barh(places, values, left=left, color=[PASSED if good else "white" for good in passed], height=0.62)
    for bar, good in zip(drawn, passed, strict=True):
        bar.set_edgecolor(PASSED if good else FAILED)
        if not good:
            bar.set_hatch("////")
    axis.set_yticks(list(places), list(names))
    axis.invert_yaxis()


def note(axis: Any, x: float, y: float, text: str) -> None:
    """A small text just right of a point."""
    axis.annotate(text, (x, y), textcoords="offset points", xytext=(5, 0), va="center", fontsize=8, color=INK)
