"""Pictures as SVG files, plain and the same every time: no dates, no random ids, text as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def figure(panels: int, width: float = 5.2, height: float = 3.2) -> tuple[Any, list[Any]]:
    """A matplotlib figure with `panels` axes side by side, and the axes. Opens no window."""
    from matplotlib import rcParams
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    rcParams.update({"svg.hashsalt": "training-mechanism-lab", "svg.fonttype": "none", "font.size": 9})
    drawn = Figure(figsize=(width * panels, height), layout="constrained")
    FigureCanvasSVG(drawn)
    axes = drawn.subplots(1, panels, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return drawn, list(axes)


def save(drawn: Any, path: Path) -> Path:
    """Write the figure and return its path. Raises OSError."""
    drawn.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    return path
