"""A preflight of this very interpreter, with the real torch in it, and the callers' side of `run`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.environments.errors import LabError
from tools.environments.installed import registration, stamp
from tools.environments.installed.package_facts import PackageFacts
from tools.environments.model import Check, Report
from tools.environments.preflight import preflight, preflight_facts
from tools.environments.registry import registry

REGISTRY = registry.load()
CPU = REGISTRY.get("TRAIN-CPU")


def test_real_torch_passes_every_check_about_torch() -> None:
    report = preflight.run(CPU, REGISTRY)
    status = {check.id: check for check in report.checks}
    for name in (
        "torch.import",
        "torch.build",
        "torch.cuda",
        "operation.float32",
        "operation.float16",
        "operation.bfloat16",
    ):
        assert status[name].status == "ok", status[name]
    assert status["packages.import"].status == "ok", status["packages.import"]
    assert status["packages.dependencies"].status == "ok", status["packages.dependencies"]
    assert report.registry_digest == REGISTRY.digest


def test_quick_run_starts_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a child was started")

    monkeypatch.setattr(preflight_facts, "Probe", refuse)
    report = preflight.run(CPU, REGISTRY, quick=True)
    assert {check.status for check in report.checks if check.id.startswith("operation.")} == {"skipped"}


def test_will_download_alone_means_the_default_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = {check.id: check for check in preflight.run(CPU, REGISTRY, quick=True, will_download=True).checks}
    assert found["hub.reach"].status == "blocked"
    assert found["hub.reach"].wanted.startswith("Qwen/Qwen2.5-0.5B from ")
    other = preflight.run(CPU, REGISTRY, quick=True, model="me/mine@v1")
    assert next(check for check in other.checks if check.id == "hub.reach").wanted.startswith("me/mine@v1 ")


def test_unknown_id_to_accept_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_facts, "gather", None)
    with pytest.raises(LabError, match=r"python\.path") as refused:
        preflight.run(CPU, REGISTRY, accept=["python-path"])
    assert refused.value.code == 2


def test_broken_requirement_file_ends_the_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[preflight_facts.Probe] = []

    class Watched(preflight_facts.Probe):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type]
            started.append(self)

    monkeypatch.setattr(preflight_facts, "Probe", Watched)
    with pytest.raises(LabError, match=r"torch-cpu\.txt"):
        preflight.run(CPU, REGISTRY, root=tmp_path)
    assert len(started) == 2
    assert all(probe._child.poll() is not None for probe in started)


@pytest.mark.parametrize(
    ("status", "strict", "code"),
    [("ok", False, 0), ("warning", False, 0), ("warning", True, 1), ("blocked", False, 1), ("skipped", True, 0)],
)
def test_exit_codes(status: str, strict: bool, code: int) -> None:
    report = Report("P", "sha256:0", (Check("host.python", status, "", ""),))  # type: ignore[arg-type]
    assert preflight.exit_code(report, strict=strict) == code


@pytest.mark.parametrize(
    ("taken", "current", "name"),
    [((), "", "llm"), ((), "llm", "llm_2"), (("llm", "llm_2"), "llm_3", "llm_4"), (("llm",), "", "llm_2")],
)
def test_a_fresh_name_is_free(tmp_path: Path, taken: tuple[str, ...], current: str, name: str) -> None:
    for folder in taken:
        (tmp_path / folder).mkdir()
    assert preflight_facts.fresh_name("llm", current, tmp_path) == name


def test_facts_describe_this_interpreter() -> None:
    facts = preflight_facts.gather(CPU, preflight_facts.PreflightRequest(quick=True))
    assert facts.interpreter.prefix == sys.prefix
    assert facts.probes is None
    assert facts.torch_on_disk is not None
    assert facts.torch_on_disk[1] is None


@pytest.fixture
def notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site-packages of its own to register in, and no kernels but those made here."""
    monkeypatch.setattr(registration, "site_packages", lambda: tmp_path)
    for name in ("HOME", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path


def test_notebooks_are_judged_where_asked_for(notebooks: Path) -> None:
    nothing = PackageFacts({})
    assert preflight_facts._notebook(preflight_facts.PreflightRequest(), nothing) is None
    for quick in (True, False):
        asked = preflight_facts.PreflightRequest(quick=quick, notebook=True)
        answer = preflight_facts._notebook(asked, nothing)
        assert answer is not None
        assert (answer[0].id, answer[0].status) == ("notebook.registration", "blocked")
    registration.register(notebooks)
    answer = preflight_facts._notebook(preflight_facts.PreflightRequest(quick=True, notebook=True), nothing)
    assert answer is not None
    assert [check.status for check in answer] == ["ok", "skipped"]


@pytest.mark.parametrize(("content", "profile", "torn"), [(None, None, False), ("{", None, True)])
def test_stamp_of_this_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, profile: str | None, torn: bool
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    if content is not None:
        (tmp_path / stamp.FILE_NAME).write_text(content)
    found = preflight_facts._stamp(CPU, "sha256:0")
    assert (found.profile, found.torn is not None) == (profile, torn)


def test_stamp_of_another_profile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    stamp.write(stamp.Stamp("PT-CPU", "sha256:0", str(tmp_path), {}, None, "venv", {}, {}))
    found = preflight_facts._stamp(CPU, "sha256:0")
    assert (found.profile, found.reasons) == ("PT-CPU", ("it belongs to PT-CPU",))


def test_a_finished_environment_elsewhere_is_found(tmp_path: Path) -> None:
    there = tmp_path / CPU.environment
    there.mkdir()
    assert preflight_facts.ready(CPU, "sha256:0", tmp_path, tmp_path) is None
    stamp.write(stamp.Stamp(CPU.id, "sha256:0", str(there), {}, None, "venv", {}, {}))
    assert preflight_facts.ready(CPU, "sha256:0", tmp_path, tmp_path) == str(there)
    assert preflight_facts.ready(CPU, "sha256:1", tmp_path, tmp_path) is None
    assert preflight_facts.ready(CPU, "sha256:0", there, tmp_path) is None
    (there / stamp.FILE_NAME).write_text("{")
    assert preflight_facts.ready(CPU, "sha256:0", tmp_path, tmp_path) is None
