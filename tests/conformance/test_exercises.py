"""The exercises: the answer passes, every gap alone gives its hint, a learner's mistakes are told plainly."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from experiments.conformance import catalogue, exercise, gaps
from tools.environments.errors import LabError
from tools.environments.layout import ROOT

GAPS = [(page, number) for page in catalogue.ids() for number in range(len(gaps.load(page).gaps))]


@pytest.mark.parametrize("page", catalogue.ids())
def test_the_answer_passes_every_check(page: str) -> None:
    found = gaps.load(page)
    answers = exercise.check_module(found, exercise._original(found))
    assert len(answers) >= 2
    assert [answer for answer in answers if answer.outcome != "passed"] == []


@pytest.mark.parametrize("page", catalogue.ids())
def test_the_untouched_exercise_fails_with_hints_and_nothing_else(page: str) -> None:
    found = gaps.load(page)
    outcomes = {answer.outcome for answer in exercise.check_module(found, exercise.compiled(found))}
    assert "open" in outcomes
    assert outcomes <= {"open", "passed"}


@pytest.mark.parametrize(("page", "number"), GAPS)
def test_each_gap_by_itself_is_noticed_and_hinted_at(page: str, number: int) -> None:
    found = gaps.load(page)
    only = replace(found, gaps=(found.gaps[number],))
    hints = [
        answer.message for answer in exercise.check_module(only, exercise.compiled(only)) if answer.outcome == "open"
    ]
    assert hints
    assert all(hint.startswith(f"gap {number + 1}: ") and len(hint) > 30 for hint in hints)


@pytest.mark.parametrize("page", catalogue.ids())
def test_an_exercise_is_valid_code_that_says_what_to_do(page: str) -> None:
    found = gaps.load(page)
    text = found.text()
    ast.parse(text)
    assert text.count(" gap(") >= len(found.gaps)
    assert gaps.HELPER in text
    assert found.task
    assert found.answer.is_file()
    assert all(old not in text for old, _ in found.gaps)


def test_a_gap_whose_text_has_moved_on_is_an_error() -> None:
    with pytest.raises(LookupError, match="stands 0 times"):
        replace(gaps.load("attention"), gaps=(("no such text", ""),)).text()


def test_a_learner_starts_fills_in_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "my.py"
    assert exercise.main(["cross_entropy", "--start", str(mine)]) == 0
    assert f"--file {mine}" in capsys.readouterr().out
    assert exercise.main(["cross_entropy", "--file", str(mine)]) == 1
    assert "0 of 6 checks pass · open: gap 1" in capsys.readouterr().out
    text = mine.read_text(encoding="utf-8")
    for old, new in gaps.load("cross_entropy").gaps:
        text = text.replace(new, old)
    mine.write_text(text, encoding="utf-8")
    assert exercise.main(["cross_entropy", "--file", str(mine)]) == 0
    assert "6 of 6 checks pass" in capsys.readouterr().out


def _filled(tmp_path: Path, wrong: str) -> Path:
    """A file in which the first gap is filled in with `wrong`, the others correctly."""
    text = gaps.load("cross_entropy").text()
    (first, *others) = gaps.load("cross_entropy").gaps
    text = text.replace(first[1], wrong)
    for old, new in others:
        text = text.replace(new, old)
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_wrong_answer_is_told_by_value_and_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _filled(tmp_path, "    shifted[..., :] = labels")
    assert exercise.main(["cross_entropy", "--file", str(path)]) == 1
    out = capsys.readouterr().out
    assert "failed   shifted_mean" in out
    assert "cross_entropy.causal_lm_loss gives" in out


def test_an_error_in_a_learner_s_code_names_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _filled(tmp_path, "    shifted[..., :-1] = label[..., 1:]")
    line = path.read_text(encoding="utf-8").splitlines().index("    shifted[..., :-1] = label[..., 1:]") + 1
    assert exercise.main(["cross_entropy", "--file", str(path)]) == 1
    out = capsys.readouterr().out
    assert f"NameError: name 'label' is not defined (line {line})" in out
    assert "Traceback" not in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def broken(:\n", "invalid syntax (line 1)"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module' (line 1)"),
        ("x = 1\n", "AttributeError"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_plainly(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    assert exercise.main(["attention", "--file", str(path)]) == 1
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["attentoin"], "attention"),
        (["attention", "--file", "no_such.py"], "--start no_such.py"),
        (["attention", "--file", "README.md"], ".py"),
    ],
)
def test_what_a_user_gets_wrong_is_answered_with_what_to_do(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exercise.main(arguments) == 2
    assert told in capsys.readouterr().err


def test_a_file_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "my.py"
    mine.write_text("precious", encoding="utf-8")
    assert exercise.main(["attention", "--start", str(mine)]) == 2
    assert mine.read_text(encoding="utf-8") == "precious"
    assert exercise.main(["attention", "--start", str(tmp_path / "no" / "folder.py")]) == 1
    assert "wanted a file that can be written" in capsys.readouterr().err


def test_the_list_the_task_and_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert exercise.main([]) == 0
    listed = capsys.readouterr().out
    assert all(page in listed for page in catalogue.ids())
    assert exercise.main(["optimizer"]) == 0
    assert "3 gaps" in capsys.readouterr().out
    assert exercise.main(["optimizer", "--answer"]) == 0
    assert "experiments/mechanisms/adamw.py" in capsys.readouterr().out


@pytest.mark.full
def test_all_of_them_with_torch_alone() -> None:
    """As BASE-CPU runs them: no Transformers, no Accelerate, no hypothesis can be imported."""
    code = """
import sys
for name in ("transformers", "accelerate", "hypothesis", "jsonschema"):
    sys.modules[name] = None
from experiments.conformance.exercise import main
sys.exit(main(["--all", "--profile", "BASE-CPU"]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" passed ") == 10


def test_an_unknown_page_is_a_usage_error() -> None:
    with pytest.raises(LabError, match="cross_entropy"):
        gaps.load("cross_entropie")
