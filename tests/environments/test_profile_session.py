"""What a profile's session runs: options handed on as they stand, and only what exists is verified."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from pathlib import Path

import pytest

from tools.environments import profile_session
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT
from tools.environments.model import Profile
from tools.environments.registry import ci_matrix, registry


@pytest.fixture
def profile() -> Profile:
    return dataclasses.replace(registry.load(ROOT).get("TRAIN-CPU"), experiments=("first", "second"))


def test_without_options_the_smoke_workload_of_every_experiment_runs(profile: Profile) -> None:
    options = profile_session.parse([])
    assert profile_session.install(profile, options) == [profile_session.INSTALLER, "--profile", "TRAIN-CPU"]
    run = "-m experiments run first second --workload smoke --profile TRAIN-CPU --stop-if-blocked"
    assert profile_session.after_install(profile, options) == [shlex.split(run)]
    assert profile_session.preflight_command(profile, options) == [profile_session.PREFLIGHT, "--profile", "TRAIN-CPU"]


def test_conformance_has_a_command_line_of_its_own(profile: Profile) -> None:
    both = dataclasses.replace(profile, experiments=("first", "conformance", "second"))
    measured, conformance = profile_session.after_install(both, profile_session.parse(["--run-label", "L"]))
    own = "tools/test_framework_conformance.py --all-part02 --require-passed --profile TRAIN-CPU"
    assert conformance == shlex.split(own)
    assert measured[:5] == ["-m", "experiments", "run", "first", "second"]


def test_each_option_goes_to_the_command_that_takes_it(profile: Profile) -> None:
    for_the_installer = (
        "--env-name e --backend venv --python 3.12 --index-url u --torch-index t --find-links a --find-links b "
        "--offline --recreate --dry-run"
    )
    for_the_run = (
        "--run-mode dry_run --run-label L --model-source local --head both --precision auto "
        "--memory-cap-gib 8 --accept python.path --accept host.memory"
    )
    own = "--workload default --experiment second"
    options = profile_session.parse(shlex.split(f"{for_the_run} {own} {for_the_installer}"))
    assert options.dry_run
    assert profile_session.install(profile, options)[3:] == shlex.split(for_the_installer)
    preflight, run = profile_session.after_install(profile, options)  # a dry run makes none
    assert preflight[3:] == ["--accept", "python.path", "--accept", "host.memory"]
    assert run[3:] == shlex.split(f"second --workload default --profile TRAIN-CPU {for_the_run}")


def test_in_the_image_the_build_and_the_runs_get_their_own_options(profile: Profile) -> None:
    build = (
        "--base-image b --ca c --network host --user root --index-url u --torch-index t --find-links a --find-links d"
    )
    runs = "--run-label L --accept python.path"
    given = f"--image {build} {runs} --workload default --experiment second"
    command = profile_session.in_image(profile, profile_session.parse(shlex.split(given)))
    wanted = f"-m tools.containers run --profile TRAIN-CPU {build} --workload default --experiment second {runs}"
    assert command == shlex.split(wanted)


def test_in_the_image_a_dry_run_is_the_installer_s(profile: Profile) -> None:
    command = profile_session.in_image(profile, profile_session.parse(["--image", "--dry-run", "--find-links", "a"]))
    assert command[1:] == shlex.split("--profile TRAIN-CPU --target image --find-links a --dry-run")


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("--image --backend uv", "--backend"),
        ("--image --recreate", "--recreate"),
        ("--ca f", "--ca"),
        ("--base-image b", "--base-image"),
    ],
)
def test_options_of_the_other_way_are_wrong_usage(given: str, where: str) -> None:
    with pytest.raises(LabError) as refused:
        profile_session.parse(shlex.split(given))
    assert (refused.value.where, refused.value.code) == (where, EXIT_USAGE)


def test_a_resumed_run_is_asked_for_by_its_label_alone(profile: Profile) -> None:
    """Its plan holds workload and profile; the experiments' command line refuses them beside --resume."""
    options = profile_session.parse(shlex.split("--resume R --experiment second --accept host.memory --backend venv"))
    preflight, *runs = profile_session.after_install(profile, options)
    assert preflight == [profile_session.PREFLIGHT, "--profile", "TRAIN-CPU", "--accept", "host.memory"]
    assert runs == [shlex.split("-m experiments run second --resume R --accept host.memory")]


@pytest.mark.parametrize("chosen", ["", "--experiment first --experiment second", "--experiment conformance"])
def test_one_experiment_s_run_is_resumed(profile: Profile, chosen: str) -> None:
    both = dataclasses.replace(profile, experiments=("conformance", "first", "second"))
    with pytest.raises(LabError, match=r"with one --experiment .* first, second") as refused:
        profile_session.after_install(both, profile_session.parse(shlex.split(f"--resume R {chosen}")))
    assert (refused.value.where, refused.value.code) == ("--resume", EXIT_USAGE)
    assert "--experiment first" in refused.value.next


@pytest.mark.parametrize("given", ["--workload smoke", "--image"])
def test_what_a_resumed_run_has_no_use_for_is_wrong_usage(given: str) -> None:
    with pytest.raises(LabError, match="with --resume") as refused:
        profile_session.parse(shlex.split(f"--resume R --experiment first {given}"))
    assert (refused.value.where, refused.value.code) == (given.split()[0], EXIT_USAGE)


def test_the_id_of_no_check_is_wrong_usage() -> None:
    with pytest.raises(LabError, match=r"did you mean python\.path") as refused:
        profile_session.parse(["--accept", "python.pth"])
    assert refused.value.code == EXIT_USAGE


def test_usage_names_every_option(profile: Profile) -> None:
    told = profile_session.usage(profile)
    with pytest.raises(LabError) as refused:
        profile_session.parse(["--no-such"])
    options = [word for word in refused.value.next.split() if word.startswith("--") and word != "--"]
    assert len(options) > 20
    assert [option for option in options if f"    {option}" not in told] == []


@pytest.mark.parametrize("given", [["--no-such"], ["positional"], ["--workload"], ["--back", "venv"]])
def test_what_nothing_takes_is_wrong_usage(given: list[str]) -> None:
    with pytest.raises(LabError) as refused:
        profile_session.parse(given)
    assert refused.value.code == EXIT_USAGE
    assert "--workload" in refused.value.next


def test_another_profile_s_experiment_is_wrong_usage(profile: Profile) -> None:
    with pytest.raises(LabError, match="first, second"):
        profile_session.after_install(profile, profile_session.parse(["--experiment", "third"]))
    bare = dataclasses.replace(profile, experiments=())
    assert len(profile_session.after_install(bare, profile_session.parse([]))) == 1
    with pytest.raises(LabError, match="none yet"):
        profile_session.after_install(bare, profile_session.parse(["--experiment", "third"]))


def installer(root: Path, body: str) -> None:
    """A stand-in for the installer's command line at its door: it keeps what it was asked and answers `body`."""
    script = root / profile_session.INSTALLER
    script.parent.mkdir(parents=True)
    script.write_text(f"import sys\nprint(sys.argv[1:], file=open('asked', 'w'))\n{body}\n")


def test_the_environment_s_python_is_asked_from_the_installer(profile: Profile, tmp_path: Path) -> None:
    installer(tmp_path, """print('{"environment": "e", "python": "/e/bin/python", "status": "current"}')""")
    options = profile_session.parse(["--env-name", "e", "--recreate"])
    assert profile_session.environment_python(profile, options, root=tmp_path) == "/e/bin/python"
    assert (tmp_path / "asked").read_text() == "['--profile', 'TRAIN-CPU', '--env-name', 'e', '--locate', '--json']\n"


def test_what_the_installer_finds_wrong_is_said_in_its_words(profile: Profile, tmp_path: Path) -> None:
    error = '{"wanted": "w", "found": "none", "next": "install it: n", "where": "p"}'
    installer(tmp_path, f"""print('{{"python": null, "error": {error}}}')\nsys.exit(1)""")
    with pytest.raises(LabError) as caught:
        profile_session.environment_python(profile, profile_session.parse(["--dry-run"]), root=tmp_path)
    assert (caught.value.found, caught.value.next, caught.value.code) == ("none", "install it: n", 1)
    assert "--dry-run" not in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("body", ["sys.exit(1)", "print('{}')", "print('[]')", "print('text')"])
def test_an_installer_that_names_none_is_an_error(profile: Profile, tmp_path: Path, body: str) -> None:
    installer(tmp_path, body)
    with pytest.raises(LabError, match="the installed environment of TRAIN-CPU"):
        profile_session.environment_python(profile, profile_session.parse([]), root=tmp_path, python=sys.executable)


def test_only_records_written_since_are_verified(profile: Profile, tmp_path: Path) -> None:
    assert profile_session.verification(profile, tmp_path, 0) is None
    for experiment, label, written in (
        ("first", "old", 10),
        ("first", "new", 30),
        ("second", "new", 30),
        ("other", "x", 30),
    ):
        record = tmp_path / experiment / label / "record.json"
        record.parent.mkdir(parents=True)
        record.touch()
        os.utime(record, (written, written))
    (tmp_path / "second" / "unfinished").mkdir()
    found = profile_session.verification(profile, tmp_path, 20)
    assert found is not None
    assert found[:4] == ["-m", "experiments", "results", "verify"]
    assert found[4:] == [str(tmp_path / name / "new" / "record.json") for name in ("first", "second")]


def test_the_matrix_has_each_profile_on_each_of_its_pythons() -> None:
    profiles = registry.load(ROOT).profiles
    rows = ci_matrix.rows(profiles.values())
    assert {(row["profile"], row["python"]) for row in rows} == {(p.id, v) for p in profiles.values() for v in p.python}
    for row in rows:
        needs_card = profiles[str(row["profile"])].gpu is not None
        assert row["arguments"] == ("--dry-run" if needs_card else "")
