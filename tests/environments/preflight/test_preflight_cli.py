"""The preflight command line in real environments: what it prints where, its exit codes, and that nothing leaks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import terminal
from hand_made_environment import PREFLIGHT, Environment, check, make, not_ok, torch_files

from tools.environments.registry import registry

CPU = registry.load().get("TRAIN-CPU")
CPU_TORCH = torch_files("2.13.0+cpu", None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment on profile; no test may change it."""
    return make(tmp_path_factory.mktemp("whole"), CPU, CPU_TORCH, "2.13.0+cpu")


@pytest.fixture
def own(tmp_path: Path) -> Environment:
    """An environment on profile, to be broken."""
    return make(tmp_path, CPU, CPU_TORCH, "2.13.0+cpu")


def listed_ids(text: str) -> list[str]:
    """The profile ids in a listing: the first word of each indented line."""
    return [line.split()[0] for line in text.splitlines() if line.startswith("  ")]


def test_healthy_environment_says_status_ok_first_and_alone(whole: Environment) -> None:
    answer = whole.run("--profile", "TRAIN-CPU")
    assert answer.stdout.startswith("status=ok · ")
    assert len(answer.stdout.splitlines()) == 1
    assert (answer.returncode, answer.stderr) == (0, "")


def test_json_is_the_report_and_nothing_else(whole: Environment) -> None:
    report = whole.report("TRAIN-CPU")
    assert list(report) == ["profile", "registry_digest", "status", "accepted", "checks"]
    assert (report["profile"], report["status"], report["accepted"]) == ("TRAIN-CPU", "ok", [])
    assert report["registry_digest"] == registry.load().digest
    assert {tuple(item) for item in report["checks"]} == {("id", "status", "wanted", "found", "repair")}
    assert not [item["id"] for item in report["checks"] if item["status"] == "ok" and item["repair"]]


def test_it_runs_isolated_and_under_a_foreign_working_folder(whole: Environment) -> None:
    assert whole.report("TRAIN-CPU", flags=("-I",))["status"] == "ok"


def test_a_link_to_the_checkout_is_the_checkout(whole: Environment, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(PREFLIGHT.parents[1])
    command = [str(whole.python), str(link / "tools" / PREFLIGHT.name), "--profile", "TRAIN-CPU", "--quick", "--json"]
    variables = {"PATH": os.environ["PATH"], "HOME": str(whole.home)}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert check(json.loads(done.stdout), "python.path")["status"] == "ok"


@pytest.mark.parametrize("name", [PREFLIGHT.name, "register_notebook_runtime.py", "test_framework_conformance.py"])
def test_a_link_to_a_script_is_the_script(name: str, tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to(PREFLIGHT.parent / name)
    done = subprocess.run(
        [sys.executable, "link.py", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_listing_names_every_profile_in_text_and_json(whole: Environment) -> None:
    names = list(registry.load().profiles)
    text = whole.run("--list-profiles", flags=("-I",))
    assert sorted(line.split()[0] for line in text.stdout.splitlines() if line.startswith("  ")) == sorted(names)
    listed = json.loads(whole.run("--list-profiles", "--json").stdout)
    assert [entry["id"] for entry in listed["profiles"]] == names
    assert listed["registry_digest"] == registry.load().digest
    by_id = {entry["id"]: entry["torch"] for entry in listed["profiles"]}
    assert by_id["TRAIN-CPU"] == {"specifier": ">=2.11,<2.14", "build": "cpu"}
    assert by_id["PERF-DELIVERY"] is None
    assert whole.run("--list-profiles", "--strict").stdout == text.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--profile", "TRAIN-CPUU"], "TRAIN-CPU"),
        (["--profile", "train cpu"], "TRAIN-CPU"),
        (["--profile", "TRAIN-CPU", "--accept", "python.pth"], "python.path"),
        (["--profile", "TRAIN-CPU", "--accept", "nope"], "there are host.system, host.python"),
        (["--profile", "TRAIN-CPU", "--accept", "\x00"], "host.system"),
        (["--profile", "TRAIN-CPU", "--model", "foo"], "ORG/NAME or ORG/NAME@REV"),
    ],
)
def test_wrong_names_are_usage_errors_with_the_nearest(whole: Environment, arguments: list[str], words: str) -> None:
    if "\x00" in arguments[-1]:
        arguments = [*arguments[:-1], "?"]
    answer = whole.run(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--profile"],
        ["--list-profiles", "--profile", "TRAIN-CPU"],
        ["--profile", "TRAIN-CPU", "--time-limit", "soon"],
        ["--profile", "TRAIN-CPU", "--time-limit", "0"],
        ["--unknown"],
    ],
)
def test_wrong_usage_is_exit_code_2(whole: Environment, arguments: list[str]) -> None:
    answer = whole.run(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")


def test_warning_is_exit_code_0_strict_makes_it_1_and_accepting_it_makes_it_ok(
    whole: Environment, tmp_path: Path
) -> None:
    profile = ("--profile", "TRAIN-CPU")
    plain = whole.run(*profile, PYTHONPATH=str(tmp_path))
    assert plain.returncode == 0
    assert plain.stdout.startswith("status=warning · 1 warning, ")
    assert "→ unset PYTHONPATH" in plain.stdout
    assert whole.run(*profile, "--strict", PYTHONPATH=str(tmp_path)).returncode == 1
    accepted = whole.run(*profile, "--strict", "--accept", "python.path", PYTHONPATH=str(tmp_path))
    assert accepted.returncode == 0
    assert accepted.stdout.startswith("status=ok · 1 accepted, ")
    report = whole.report("TRAIN-CPU", "--accept", "python.path", "--accept", "host.memory", PYTHONPATH=str(tmp_path))
    assert report["accepted"] == ["python.path"]


def test_a_blocked_check_cannot_be_accepted(own: Environment) -> None:
    own.remove("rich", "rich")
    report = own.report("TRAIN-CPU", "--accept", "packages.required", "--accept", "packages.versions")
    assert (report["status"], report["accepted"]) == ("blocked", [])


def test_quick_imports_nothing(own: Environment) -> None:
    mark = own.home / "imported"
    body = f"open({str(mark)!r}, 'w').close()\n"
    for name in ("torch", "transformers", "numpy"):
        (own.site / name / "__init__.py").write_text(body)
    report = own.report("TRAIN-CPU", "--quick")
    assert not mark.exists()
    assert check(report, "torch.import")["status"] == "skipped"
    assert check(report, "packages.files")["status"] == "skipped"
    assert check(report, "torch.build")["status"] == "ok"
    own.report("TRAIN-CPU")
    assert mark.exists()


def test_banners_of_imported_packages_stay_inside(own: Environment) -> None:
    shout = "import os, sys\nprint('BANNER')\nprint('BANNER', file=sys.stderr)\nos.write(1, b'BANNER')\n"
    own.install("rich", "14.0", {"rich/__init__.py": shout})
    answer = own.run("--profile", "TRAIN-CPU")
    assert "BANNER" not in answer.stdout + answer.stderr
    assert own.report("TRAIN-CPU")["status"] == "ok"


@pytest.mark.race
def test_interrupt_ends_the_children_and_leaves_no_traceback(own: Environment) -> None:
    pid_file = own.home / "pid"
    body = f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    (own.site / "torch" / "__init__.py").write_text(body)
    child = subprocess.Popen(
        [str(own.python), str(PREFLIGHT), "--profile", "TRAIN-CPU"],
        env={"PATH": os.environ["PATH"], "HOME": str(own.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 20
    while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (130, "")
    assert "Traceback" not in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_a_reader_who_has_seen_enough_is_no_error(whole: Environment) -> None:
    read, write = os.pipe()
    os.close(read)
    child = subprocess.run(
        [str(whole.python), str(PREFLIGHT), "--list-profiles"], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert "Traceback" not in child.stderr


def test_output_that_the_terminal_cannot_show_is_no_error(whole: Environment) -> None:
    answer = whole.run("--profile", "TRAIN-CPU", PYTHONIOENCODING="ascii")
    assert answer.stdout.startswith("status=ok - ")


@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_only_on_a_terminal_and_never_with_no_color(
    whole: Environment, environ: dict[str, str], coloured: bool
) -> None:
    variables = {"PATH": os.environ["PATH"], "HOME": str(whole.home), "LANG": "C.UTF-8", **environ}
    command = [str(whole.python), str(PREFLIGHT), "--profile", "TRAIN-CPU", "--quick"]
    with terminal.pair() as (ours, theirs):
        subprocess.run(command, env=variables, stdout=theirs, timeout=30, check=True)
        os.close(theirs)
        shown = os.read(ours, 4096).decode()
    assert "status=ok" in shown
    assert ("\x1b[" in shown) == coloured
    assert "\x1b[" not in whole.run("--profile", "TRAIN-CPU", "--quick").stdout


def test_bare_environment_is_a_finding_not_an_error(tmp_path: Path) -> None:
    prefix = tmp_path / "bare"
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(prefix)], check=True)
    bare = Environment(prefix, tmp_path)
    for flags in ((), ("-I",), ("-I", "-S")):
        report = bare.report("TRAIN-CPU", flags=flags)
        wrong = not_ok(report)
        assert wrong["packages.required"] == wrong["torch.import"] == "blocked"
        repair = check(report, "packages.required")["repair"]
        # -S leaves the venv unnoticed: what runs then is the base Python, where nothing is to be installed
        assert ("-m pip install -r requirements/torch-cpu.txt" in repair) == ("-S" not in flags)


def test_main_in_this_process(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same entry, where coverage sees it: both listings, a report of each form, and every exit."""
    from tools import environment_preflight
    from tools.environments.preflight import preflight

    assert environment_preflight.main(["--list-profiles"]) == 0
    assert environment_preflight.main(["--list-profiles", "--json", "--quick"]) == 0
    text, _, listed = capsys.readouterr().out.partition("{")
    entries = json.loads("{" + listed)["profiles"]
    assert sorted(listed_ids(text)) == sorted(entry["id"] for entry in entries)
    code = environment_preflight.main(["--profile", "TRAIN-CPU", "--quick", "--json"])
    assert (code == 1) == (json.loads(capsys.readouterr().out)["status"] == "blocked")
    environment_preflight.main(["--profile", "TRAIN-CPU", "--quick", "--time-limit", "5"])
    assert capsys.readouterr().out.startswith("status=")
    assert environment_preflight.main(["--profile", "NO-SUCH"]) == 2
    assert "blocked --profile" in capsys.readouterr().err

    def interrupt(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(preflight, "run", interrupt)
    assert environment_preflight.main(["--profile", "TRAIN-CPU"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--profile", "TRAIN-CPU", "--time-limit", "soon"]])
def test_wrong_usage_in_this_process(arguments: list[str]) -> None:
    from tools import environment_preflight

    with pytest.raises(SystemExit) as ended:
        environment_preflight.main(arguments)
    assert ended.value.code == 2
