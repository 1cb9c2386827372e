"""mypy serves a topic made tomorrow: its third-party imports need no edit, a missing module of ours is still found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.environments.layout import ROOT

TOPIC = """
import a_package_that_nobody_installed
import transformers
from another_one.deep import Trainer

def steps(count: int) -> int:
    trainer = Trainer(transformers.AutoModel, a_package_that_nobody_installed.option)
    return int(trainer.train(count))
"""


def checked(folder: Path, text: str) -> tuple[int, str]:
    (folder / "topic_of_tomorrow.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", str(folder / "cache")]
    done = subprocess.run(
        [*command, str(folder / "topic_of_tomorrow.py")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_a_new_topics_imports_need_no_edit(tmp_path: Path) -> None:
    assert checked(tmp_path, TOPIC) == (0, "Success: no issues found in 1 source file\n")


def test_a_missing_module_of_ours_and_a_missing_type_are_still_found(tmp_path: Path) -> None:
    code, said = checked(tmp_path, TOPIC + "import experiments.nowhere\nimport tools.nowhere\ndef bare(x): return x\n")
    assert code == 1
    assert 'module named "experiments.nowhere"' in said
    assert 'module named "tools.nowhere"' in said
    assert "missing a type annotation" in said
