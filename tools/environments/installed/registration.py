"""One .pth file per environment, so that `import tools` and `import experiments` work from any notebook folder.

The file runs at every start of that environment's interpreter, in its Jupyter kernels too. It puts this checkout in
front of site-packages (some distributions ship a top-level `tools` of their own) and takes the folders of PYTHONPATH
off sys.path, because a ROS or system tree there beats the environment without a word. What it took off is kept in
TMLAB_STRIPPED_PYTHONPATH, for preflight to warn about.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.environments.errors import LabError
from tools.environments.layout import ROOT
from tools.environments.model import Check

PTH_NAME = "training_mechanism_lab.pth"
STRIPPED_VARIABLE = "TMLAB_STRIPPED_PYTHONPATH"
CHECK_ID = "notebook.registration"
COMMAND = "python tools/register_notebook_runtime.py"

# Runs inside site.py, before anything of ours can be imported, so it may only lean on os and sys. It keeps the standard
# library and site-packages themselves: PYTHONPATH may name them too, and then theirs is the only entry on sys.path.
_STARTUP = """
import os, sys
root, strip = {root}, {strip}
folded = lambda path: os.path.normcase(os.path.realpath(path))
added = os.environ.get("PYTHONPATH") if strip else None
if added is not None:
    own = os.path.dirname(folded(os.__file__))
    kept = (own, os.path.join(own, "lib-dynload"), os.path.join(own, "site-packages"), {site})
    foreign = set(map(folded, added.split(os.pathsep))) - set(map(folded, kept))
    sys.path[:] = [path for path in sys.path if folded(path) not in foreign]
    del os.environ["PYTHONPATH"]
    if added:
        os.environ[{variable!r}] = added
if os.path.isdir(root):
    sys.path[:] = [path for path in sys.path if folded(path) != folded(root)]
    places = [at for at, path in enumerate(sys.path) if os.path.basename(path) in ("site-packages", "dist-packages")]
    sys.path.insert(places[0] if places else len(sys.path), root)
"""

_PROBE = """
import json, sys
facts = {"prefix": sys.prefix, "path": sys.path, "tools": None, "experiments": None, "error": ""}
try:
    import tools, experiments
    facts.update(tools=tools.__file__, experiments=experiments.__file__)
except BaseException as error:
    facts["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(facts))
"""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a .pth of ours says: the checkout it points at, and whether it strips PYTHONPATH."""

    root: Path
    strips: bool


def site_packages() -> Path:
    """The folder whose .pth files the running interpreter reads for its own environment."""
    return Path(sysconfig.get_path("purelib"))


def is_environment(prefix: str = sys.prefix, base_prefix: str = sys.base_prefix) -> bool:
    """True in a venv or a conda environment; False in the system's own Python, which other programs depend on."""
    return prefix != base_prefix or os.path.isdir(os.path.join(prefix, "conda-meta"))


def text(root: Path, site: Path, *, strip: bool = True) -> str:
    """The .pth: a comment with its facts, and one line of code. ASCII, as site.py reads it in the locale's encoding.

    It is the same for every path that leads to `site`, since an image's environment is also reached through a link.
    """
    facts = json.dumps({"root": str(root), "strip": strip})
    real = ascii(os.path.realpath(site))
    source = _STARTUP.format(root=ascii(str(root)), site=real, strip=strip, variable=STRIPPED_VARIABLE)
    return f"# {facts}\nimport sys; exec({source!a}, {{}})\n"


def register(site: Path, root: Path = ROOT, *, strip: bool = True) -> bool:
    """Write the .pth into `site`; False when it already said exactly this. Raises LabError where the folder refuses."""
    wanted = text(root, site, strip=strip)
    target = site / PTH_NAME
    if _content(target) == wanted:
        return False
    try:
        handle, name = tempfile.mkstemp(dir=site, prefix=".tmlab-", suffix=".part")
        with os.fdopen(handle, "w", encoding="ascii") as part:
            part.write(wanted)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except OSError as error:
        raise _unwritable(site, error) from error
    return True


def remove(site: Path) -> bool:
    """Take the .pth away; False when there was none. Raises LabError where the folder refuses."""
    try:
        (site / PTH_NAME).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unwritable(site, error) from error
    return True


def read(site: Path) -> Registration | None:
    """What is registered in `site`, without running it; None when nothing (or nothing of ours) is."""
    content = _content(site / PTH_NAME) or ""
    try:
        facts = json.loads(content.partition("\n")[0].removeprefix("#"))
        found = Registration(Path(facts["root"]), facts["strip"] is True)
    except (KeyError, TypeError, ValueError):
        return None
    return found if content == text(found.root, site, strip=found.strips) else None


def check(site: Path, root: Path = ROOT, python: str = sys.executable, *, time_limit_s: float = 20.0) -> Check:
    """Run `python` in an empty folder that PYTHONPATH names too, and see that both packages come from `root`."""
    mend = COMMAND if is_environment() else f"activate an environment, then: {COMMAND}; without any: {COMMAND} --system"
    wanted = f"tools and experiments import from {root} in any folder"
    found = read(site)
    if found is None:
        return Check(CHECK_ID, "blocked", wanted, f"no {PTH_NAME} of this lab in {site}", mend)
    if found.root != root:
        gone = "" if found.root.is_dir() else ", which is gone"
        return Check(CHECK_ID, "blocked", wanted, f"registered for the checkout {found.root}{gone}", mend)
    problem = _prove(root, python, strips=found.strips, time_limit_s=time_limit_s)
    if problem:
        return Check(CHECK_ID, "blocked", wanted, problem, mend)
    return Check(CHECK_ID, "ok", wanted, f"{python} does" + ("" if found.strips else " (PYTHONPATH is left as it is)"))


def _prove(root: Path, python: str, *, strips: bool, time_limit_s: float) -> str:
    """What is wrong with the registered interpreter, or nothing."""
    with tempfile.TemporaryDirectory(prefix="tmlab-registration-") as empty:
        environment = {**os.environ, "PYTHONPATH": empty}
        try:
            child = subprocess.run(
                [python, "-c", _PROBE], cwd=empty, env=environment, capture_output=True, text=True, timeout=time_limit_s
            )
            facts = json.loads(child.stdout.splitlines()[-1])
        except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
            return f"{python} does not start as it should ({type(error).__name__})"
        if facts["error"]:
            return str(facts["error"])
        strays = [name for name in ("tools", "experiments") if not _inside(facts[name], root)]
        if strays:
            return f"{strays[0]} comes from {facts[strays[0]]}"
        if strips and os.path.realpath(empty) in map(os.path.realpath, filter(None, facts["path"])):
            return "a folder named by PYTHONPATH stays on sys.path"
    return ""


def _inside(path: str | None, root: Path) -> bool:
    return bool(path) and Path(str(path)).resolve().is_relative_to(root.resolve())


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return None


def _unwritable(site: Path, error: OSError) -> LabError:
    return LabError(
        wanted="a site-packages folder this user may write",
        found=f"{type(error).__name__}: {error.strerror}",
        next="activate the environment that you made, then run it again; nothing here needs administrator rights",
        where=str(site),
    )
