"""Exercises on the command line, with torch alone: take one, fill in its gaps, have it checked.

    python -m experiments.conformance.exercise                                  the exercises there are
    python -m experiments.conformance.exercise cross_entropy --start my.py      write the file with the gaps
    python -m experiments.conformance.exercise cross_entropy --file my.py       check it
    python -m experiments.conformance.exercise --all                            every answer passes, every gap hints

The checks are those of the conformance page that need no framework but torch, over cases drawn from a plain seed.
"""

import argparse
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tools.environments import command_line

if __name__ == "__main__":
    command_line.begin()

from dataclasses import dataclass
from typing import Literal

from experiments.conformance import catalogue, gaps, mutation, page_files
from experiments.conformance.comparison import Comparer, MismatchError
from experiments.conformance.drawing import Case, SeededSource
from experiments.conformance.gaps import Exercise, OpenGapError
from experiments.conformance.page import PageCheck, Trial
from tools.environments.errors import EXIT_BLOCKED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, LabError, render

PROGRAM = "python -m experiments.conformance.exercise"
CASES = 6
Outcome = Literal["passed", "open", "failed", "error"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One check's answer to a learner: passed, a gap still open, a value that differs, or an error in their code."""

    check: str
    outcome: Outcome
    message: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run the command line; returns its exit code."""
    try:
        return _run(_parser().parse_args(list(arguments)))
    except LabError as error:
        print(render(error), file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Exercises of the conformance pages.")
    parser.add_argument("page", nargs="?", metavar="PAGE", help=", ".join(catalogue.ids()))
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--start", metavar="FILE", type=Path, help="write the exercise to a new file")
    what.add_argument("--file", metavar="FILE", type=Path, help="check this file")
    what.add_argument("--answer", action="store_true", help="check the reference answer, and say where it is")
    what.add_argument("--all", action="store_true", help="check every answer, and that every exercise gives hints")
    parser.add_argument("--topic", metavar="T", help="only this topic's, in the list and with --all")
    parser.add_argument("--profile", metavar="ID", help="the profile this runs in; nothing but torch is needed")
    return parser


def _run(options: argparse.Namespace) -> int:
    topic = None if options.topic is None else catalogue.find_topic(options.topic).name
    if options.all:
        return _all(topic)
    if options.page is None:
        return _list(topic)
    exercise = gaps.load(options.page)
    if options.start is not None:
        return _start(exercise, options.start)
    if options.answer:
        print(f"{exercise.page} · the answer is {page_files.shown(exercise.answer)}")
        return _tell(check_module(exercise, _original(exercise)))
    if options.file is not None:
        print(f"{exercise.page} · {options.file}")
        return _tell(check_file(exercise, options.file))
    print(f"{exercise.page} · {catalogue.find(exercise.page).title} · {len(exercise.gaps)} gaps\n\n{exercise.task}\n")
    print(f"begin    {PROGRAM} {exercise.page} --start my_{exercise.page}.py")
    print(f"check    {PROGRAM} {exercise.page} --file my_{exercise.page}.py")
    return EXIT_OK


def _list(topic: str | None) -> int:
    listed = catalogue.entries(topic)
    for entry in listed:
        print(f"  {entry.id:<26} {entry.title} · {entry.title_zh}")
    print(f"begin    {PROGRAM} {listed[0].id} --start my_{listed[0].id}.py")
    return EXIT_OK


def _start(exercise: Exercise, path: Path) -> int:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(exercise.text())
    except FileExistsError:
        raise LabError(
            "a new file", f"{path} is there already", f"check it: --file {path}", "--start", EXIT_USAGE
        ) from None
    except OSError as error:
        raise LabError(
            "a file that can be written", f"{path}: {error.strerror}", "give another path", "--start"
        ) from None
    print(f"{path} written, with {len(exercise.gaps)} gaps\n\n{exercise.task}\n")
    print(f"check    {PROGRAM} {exercise.page} --file {path}")
    return EXIT_OK


def check_file(exercise: Exercise, path: Path) -> list[Answer]:
    """Every check's answer to a learner's file; one error where the file cannot even be loaded."""
    if not path.is_file():
        begin = f"{PROGRAM} {exercise.page} --start {path}"
        raise LabError("a file with your answer", f"no file {path}", begin, "--file", EXIT_USAGE)
    name = f"exercise_of_{exercise.page}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LabError("a Python file", f"{path}", "give it a name that ends in .py", "--file", EXIT_USAGE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their own module up while they are made
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        return [Answer("reading the file", "error", f"{error.msg} (line {error.lineno})")]
    except Exception as error:  # a learner's file may do anything while it is read
        return [_failure("reading the file", error, str(path))]
    finally:
        del sys.modules[name]
    return check_module(exercise, module, str(path))


def check_module(exercise: Exercise, module: ModuleType, path: str = "") -> list[Answer]:
    """Every check of the page that is about this module and needs torch alone."""
    page = catalogue.load(exercise.page)
    modules = {name: importlib.import_module(f"experiments.mechanisms.{name}") for name in page.modules}
    modules[exercise.module] = module
    about = [check for check in page.checks if not check.needs and f"{check.ours}.".startswith(f"{exercise.module}.")]
    return [_judge(check, modules, path) for check in about]


def _judge(check: PageCheck, modules: dict[str, ModuleType], path: str) -> Answer:
    for seed in range(min(CASES, check.examples)):
        case = Case(SeededSource(seed))
        try:
            check.run(Trial(modules, case, Comparer(check.ours, check.theirs, case=case)))
        except OpenGapError as error:
            return Answer(check.name, "open", str(error))
        except MismatchError as error:
            return Answer(check.name, "failed", str(error))
        except Exception as error:
            return _failure(check.name, error, path)
    return Answer(check.name, "passed")


def _failure(check: str, error: Exception, path: str) -> Answer:
    """An error raised by the learner's code: what it says, and the last of their lines it went through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if path and frame.filename == path]
    first = str(error).splitlines()[0] if str(error) else ""
    place = f" (line {lines[-1]})" if lines else ""
    return Answer(check, "error", f"{type(error).__name__}: {first[:200]}{place}")


def _tell(answers: Sequence[Answer]) -> int:
    for answer in answers:
        print(f"  {answer.outcome:<8} {answer.check:<31} {answer.message}".rstrip())
    passed = sum(answer.outcome == "passed" for answer in answers)
    still_open = sorted({answer.message.split(":")[0] for answer in answers if answer.outcome == "open"})
    print(f"{passed} of {len(answers)} checks pass" + (f" · open: {', '.join(still_open)}" if still_open else ""))
    return EXIT_OK if passed == len(answers) else EXIT_BLOCKED


def _original(exercise: Exercise) -> ModuleType:
    return importlib.import_module(f"experiments.mechanisms.{exercise.module}")


def _all(topic: str | None) -> int:
    """The exercises' own test: the answer passes every check, the untouched exercise fails with hints alone."""
    good = True
    for page in catalogue.ids(topic):
        exercise = gaps.load(page)
        answered = check_module(exercise, _original(exercise))
        untouched = check_module(exercise, compiled(exercise))
        right = all(answer.outcome == "passed" for answer in answered)
        hints = {answer.message for answer in untouched if answer.outcome == "open"}
        kind = right and bool(hints) and all(answer.outcome in ("passed", "open") for answer in untouched)
        good = good and kind
        word = "passed" if kind else "failed"
        print(f"  {page:<26} {word:<8} {len(answered)} checks hold for the answer, {len(hints)} hints for the exercise")
    return EXIT_OK if good else EXIT_BLOCKED


def compiled(exercise: Exercise) -> ModuleType:
    """The untouched exercise as a module."""
    return mutation.compiled(exercise.text(), f"exercise_of_{exercise.page}")


if __name__ == "__main__":
    sys.exit(command_line.run(main))
