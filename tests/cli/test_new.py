"""`new` and what it refuses: everything is judged before anything is written, and all of it is written or nothing."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from working_tree import command

from experiments.cli import entry, new, new_files, new_place, templates
from tools.environments.errors import EXIT_BLOCKED, EXIT_USAGE, LabError
from tools.environments.installed import stamp
from tools.environments.layout import ROOT
from tools.environments.registry import entry_text, registry

KINDS = templates.having_one()
FREE = "quantization/free_name"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As much of a checkout as `new` looks at."""
    for name in ("experiments", "requirements", "tests"):
        left = shutil.ignore_patterns("__pycache__", "results", "*.ipynb")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=left)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def everything(root: Path) -> dict[str, bytes | None]:
    """Each folder and file below the root, with what is in it."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None for path in root.rglob("*")
    }


def refused(root: Path, place: str = FREE, kind: str = "operator", *profiles: str) -> LabError:
    """What it is refused for; nothing has changed then."""
    before = everything(root)
    with pytest.raises(LabError) as caught:
        new.create(place, kind, profiles, root)
    assert everything(root) == before
    assert caught.value.wanted
    assert caught.value.next
    return caught.value


def experiments_of(root: Path, profile: str) -> tuple[str, ...]:
    return registry.load(root).get(profile).experiments


# What is written


def test_what_is_written_is_told_and_nothing_else_changes(tree: Path) -> None:
    before = everything(tree)
    said = new.create("made_tomorrow/first", "operator", (), tree)
    after = everything(tree)
    told = re.findall(r"^(?:wrote|changed) +([^:\n]+)", said, re.MULTILINE)
    files = {name for name, content in after.items() if content is not None and before.get(name) != content}
    assert sorted(told) == sorted(files)
    assert {name for name, content in before.items() if after.get(name) != content} == {new.REGISTRY}
    assert "experiments/made_tomorrow/__init__.py" in told
    assert "tests/made_tomorrow/test_run_first.py" in told
    assert "python -m experiments run first" in said
    assert experiments_of(tree, "TRAIN-CPU")[-1] == "first"


def test_the_template_s_own_name_is_nowhere_in_it(tree: Path) -> None:
    for kind in KINDS:
        for path, text in templates.find(kind, tree).files("some_topic", f"some_{kind}"):
            assert "template" not in text.replace("templates", ""), path


def test_without_a_card_among_the_profiles_the_kind_s_own_is_added_for_its_test(tree: Path) -> None:
    new.create("quantization/on_a_card", "operator", ["Q-CUDA-MECHANISM"], tree)
    new.create("quantization/without_one", "operator", ["BASE-CPU"], tree)
    assert "on_a_card" in experiments_of(tree, "Q-CUDA-MECHANISM")
    assert "on_a_card" in experiments_of(tree, "Q-CUDA130-MECHANISM")  # the companion has its parent's
    assert "on_a_card" in experiments_of(tree, "TRAIN-CPU")
    assert "without_one" in experiments_of(tree, "BASE-CPU")
    assert "without_one" not in experiments_of(tree, "TRAIN-CPU")


@pytest.mark.parametrize(
    ("here", "profiles"),
    [
        ("BASE-CPU", ["BASE-CPU"]),
        ("TRAIN-CUDA130-MECHANISM", ["TRAIN-CUDA-MECHANISM", "TRAIN-CPU"]),
        ("PERF-DELIVERY", ["TRAIN-CPU"]),
    ],
)
def test_by_default_it_is_registered_where_this_environment_can_run_it(
    tree: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    here: str,
    profiles: list[str],
) -> None:
    prefix = tmp_path_factory.mktemp("environment")
    known = registry.load(ROOT)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(
        stamp, "read", lambda found: type("Stamped", (), {"profile": here}) if found == prefix else None
    )
    said = new.create(FREE, "operator", (), tree)
    assert f"{new.REGISTRY}: {', '.join(profiles)}\n" in said
    assert here in known.profiles


def test_a_topic_that_is_there_keeps_its_own_text(tree: Path) -> None:
    path = tree / "experiments" / "quantization" / "__init__.py"
    before = path.read_bytes()
    assert "experiments/quantization/__init__.py" not in new.create(FREE, "operator", (), tree)
    assert path.read_bytes() == before


def test_names_as_long_as_a_line_allows_and_one_letter_more(tree: Path) -> None:
    error = refused(tree, f"a/{'b' * 100}")
    assert (error.code, error.where) == (EXIT_USAGE, "TOPIC/NAME")
    over = re.search(r"by (\d+) characters in all", error.next)
    assert over is not None
    longest = 100 - int(over[1])
    assert "by 1 characters in all" in refused(tree, f"a/{'b' * (longest + 1)}").next
    assert "characters in all" in refused(tree, f"{'a' * 5000}/b").next  # longer than any file system takes
    new.create(f"a/{'b' * longest}", "operator", (), tree)


# What is refused


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("my_first", "'my_first'"),
        ("a/b/c", "'a/b/c'"),
        ("/my_first", "''"),
        ("quantization/", "''"),
        ("quantization/My_First", "'My_First'"),
        ("quantization/1st", "'1st'"),
        ("quantization/_first", "'_first'"),
        ("quantization/my-first", "'my-first'"),
        ("quantization/m\u00fc", "'m\\xfc'"),
        ("quantization/a\n", "'a\\n'"),
        ("../first", "'..'"),
        ("quantization/lambda", "'lambda', a keyword of Python"),
        ("class/first", "'class', a keyword of Python"),
        ("kinds/first", "kinds"),
        ("results/first", "results"),
        ("shared/first", "shared"),
        ("quantization/shared", "shared"),
        ("quantization/notebooks", "notebooks"),
        ("quantization/conformance", "conformance"),
        ("quantization/exercises", "exercises, a command of the lab's own"),
        ("parallelism/int8_weight_product", "experiments/quantization/int8_weight_product is there"),
        ("rendering/first", "tests/rendering, of something else"),
        ("quantization/kill", "tests/cli/test_run_kill.py is there"),
    ],
)
def test_a_place_that_cannot_be(place: str, found: str) -> None:
    with pytest.raises(LabError) as caught:
        new.create(place, "operator", ())
    assert (caught.value.found, caught.value.where, caught.value.code) == (found, "TOPIC/NAME", EXIT_USAGE)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("conformance", "conformance, which has none"),
        ("operators", "'operators', no kind of this checkout"),
        ("", "'', no kind of this checkout"),
        ("../cli", "'../cli', no kind of this checkout"),
        ("a" * 5000, f"{'a' * 79}, no kind of this checkout".replace("a" * 79, "'" + "a" * 79)),
    ],
    ids=["bare", "unknown", "empty", "path", "long"],
)
def test_a_kind_without_a_template(kind: str, found: str) -> None:
    with pytest.raises(LabError) as caught:
        new.create(FREE, kind, ())
    assert (caught.value.found, caught.value.where, caught.value.code) == (found, "--kind", EXIT_USAGE)
    assert all(word in caught.value.wanted for word in KINDS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("profile = ", "TOMLDecodeError"),
        ('profile = "TRAIN-CPU"', "KeyError: 'modules'"),
        ('modules = ["torch"]', "TypeError"),
        ('profile = "TRAIN-CPU"\nmodules = []\nmodels = 1', "TypeError"),
    ],
)
def test_a_template_that_says_too_little_or_too_much(tree: Path, text: str, found: str) -> None:
    (tree / templates.KINDS / "operator" / templates.FOLDER / templates.ABOUT).write_text(text)
    error = refused(tree)
    assert error.where == "experiments/kinds/operator/template/template.toml"
    assert error.found.startswith(found)


@pytest.mark.parametrize(
    ("kind", "profiles", "found"),
    [
        ("operator", ["TRAIN-CUP"], "'TRAIN-CUP'"),
        ("operator", ["PERF-DELIVERY"], "PERF-DELIVERY does not require torch"),
        ("training_step", ["TRAIN-CPU", "BASE-CPU"], "BASE-CPU does not require transformers"),
        ("collective", ["TRAIN-CUDA-MECHANISM"], "TRAIN-CUDA-MECHANISM has 1 card, collective needs 2"),
        ("operator", ["Q-CUDA130-MECHANISM"], "Q-CUDA130-MECHANISM has no entry of its own"),
        ("operator", ["Q-CUDA-MECHANISM", "PAR-CUDA-MECHANISM"], "free_name, which Q-CUDA-MECHANISM runs too"),
    ],
)
def test_a_profile_that_cannot_run_it(tree: Path, kind: str, profiles: list[str], found: str) -> None:
    error = refused(tree, FREE, kind, *profiles)
    assert (error.where, error.code) == ("--profile", EXIT_USAGE)
    assert error.found.startswith(found)


def test_a_name_that_a_profile_lists_already(tree: Path) -> None:
    path = tree / new.REGISTRY
    path.write_text(entry_text.with_experiment(path.read_text(), "TRAIN-CPU", "free_name"))
    assert refused(tree).found == "TRAIN-CPU lists it already"


def test_a_folder_that_holds_something_and_one_that_holds_what_python_left(tree: Path) -> None:
    folder = tree / "experiments" / FREE
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    assert refused(tree).found == f"something at experiments/{FREE}"
    (folder / "notes.txt").unlink()
    new.create(FREE, "operator", (), tree)


@pytest.mark.parametrize("part", [new.REGISTRY, "tests", "pyproject.toml"])
def test_what_is_no_checkout(tree: Path, part: str) -> None:
    (tree / part).rename(tree / "elsewhere")
    error = refused(tree)
    assert (error.found, error.code) == (f"no {part} beside the package that runs", EXIT_BLOCKED)


# All or nothing


@pytest.mark.parametrize(
    ("largest", "where"),
    [(1000, f"experiments/{FREE}/conclusions.py"), (20_000, new.REGISTRY)],
    ids=["in the middle", "at the end"],
)
def test_a_disk_that_refuses_leaves_nothing_behind(tree: Path, largest: int, where: str) -> None:
    shutil.copytree(ROOT / "tools", tree / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    limited = f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({largest}, {largest})); "
    before = everything(tree)
    called = "from experiments.cli.entry import main; sys.exit(main(sys.argv[1:]))"
    done = command(tree, "-B", "-c", limited + called, "new", FREE, "--kind", "operator")
    assert (done.returncode, done.stdout) == (EXIT_BLOCKED, "")
    assert done.stderr.startswith(
        f"blocked {where}\n  wanted a checkout that can be written\n  found  File too large\n"
    )
    assert everything(tree) == before


def test_a_file_that_is_there_is_kept_and_the_others_are_taken_back(tmp_path: Path) -> None:
    (tmp_path / "changed").write_text("before")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "there.py").write_text("mine")
    before = everything(tmp_path)
    with pytest.raises(LabError) as caught:
        new_files.write(tmp_path, {"a/deep/new.py": "1", "b/there.py": "2"}, "changed", "before", "after")
    assert (caught.value.where, everything(tmp_path)) == ("b/there.py", before)


def test_a_registry_that_somebody_changes_meanwhile_is_kept(tmp_path: Path) -> None:
    (tmp_path / "changed").write_text("by somebody else")
    before = everything(tmp_path)
    with pytest.raises(LabError, match="another one by now"):
        new_files.write(tmp_path, {"a/new.py": "1"}, "changed", "before", "after")
    assert everything(tmp_path) == before


def test_an_interrupt_takes_back_what_was_made(tmp_path: Path) -> None:
    class Interrupting(dict[str, str]):
        def items(self) -> object:  # type: ignore[override]
            yield "a/deep/new.py", "1"
            raise KeyboardInterrupt

    (tmp_path / "changed").write_text("before")
    before = everything(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        new_files.write(tmp_path, Interrupting(), "changed", "before", "after")
    assert everything(tmp_path) == before


def test_the_registry_keeps_its_mode(tree: Path) -> None:
    (tree / new.REGISTRY).chmod(0o640)
    new.create(FREE, "operator", (), tree)
    assert (tree / new.REGISTRY).stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in (tree / "requirements").iterdir() if path.name.startswith(".")) == []


# The command line, and what it rests on


def test_as_a_command_it_needs_no_torch_and_no_kind(tree: Path) -> None:
    shutil.copytree(ROOT / "tools", tree / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    traced = "import sys; from experiments.cli.entry import main; code = main(sys.argv[1:]); "
    looked = "print([name for name in sys.modules if name in ('torch', 'numpy', 'experiments.kinds')]); sys.exit(code)"
    done = command(tree, "-c", traced + looked, "new", FREE, "--kind", "training_step")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("[]\n")
    again = command(tree, "-m", "experiments", "new", FREE, "--kind", "training_step")
    assert (again.returncode, again.stdout) == (EXIT_USAGE, "")
    assert again.stderr.startswith("blocked TOPIC/NAME\n")


@pytest.mark.parametrize("argv", [("new",), ("new", FREE), ("new", "--kind", "operator")])
def test_words_that_are_missing_are_wrong_usage(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        entry.main(argv)
    assert caught.value.code == EXIT_USAGE
    assert "required" in capsys.readouterr().err


def test_help_names_the_kinds_that_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        entry.main(["new", "--help"])
    said = capsys.readouterr().out
    assert all(word in said for word in KINDS)


def test_every_room_that_the_contracts_name_is_no_topic() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = {
        word for one in contracts for line in one.get("layers", []) for word in re.findall(r"experiments\.(\w+)", line)
    }
    assert named <= set(new_place.ROOMS)
    rooms = [path for path in (ROOT / "experiments").iterdir() if path.is_dir() and path.name != "__pycache__"]
    topics = {path.parents[1] for path in (ROOT / "experiments").glob("*/*/experiment.py")}
    assert {path.name for path in rooms if path not in topics} <= set(new_place.ROOMS)
    assert not {path.name for path in topics} & set(new_place.ROOMS)


def test_each_template_s_own_profile_can_run_it() -> None:
    known = registry.load(ROOT)
    assert len(KINDS) >= 3
    for kind in KINDS:
        template = templates.find(kind)
        profile = known.get(template.profile)
        assert template.lacks(profile) == ""
        assert profile.gpu is None
