"""A mechanism's code as it runs: read from `experiments.mechanisms`, where it exists once, never copied into a page."""

from __future__ import annotations

import importlib
import inspect

from experiments.notebooks.markdown import Markdown, block, finding
from tools.environments.errors import LabError


def mechanism(module: str, *names: str) -> Markdown:
    """Source of the named functions and classes of `experiments.mechanisms.MODULE`; a finding where torch is missing.

    Raises AttributeError for a name that is not there: a page that asks for it is wrong, not its reader.
    """
    try:
        found = importlib.import_module(f"experiments.mechanisms.{module}")
    except ImportError as error:
        missing = LabError(
            wanted="a kernel whose environment has torch: the mechanisms are written for it",
            found=str(error).splitlines()[0],
            next="choose the kernel of the profile's environment: section 3 names it",
            where="kernel",
        )
        return Markdown(finding(missing))
    sources = [inspect.getsource(getattr(found, name)) for name in names]
    place = f"experiments/mechanisms/{module.replace('.', '/')}.py"
    return Markdown(f"`{place}` · {', '.join(names)}\n\n" + block("\n\n".join(s.rstrip() for s in sources), "python"))
