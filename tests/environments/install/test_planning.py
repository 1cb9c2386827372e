"""Plans as data: the reference order for every profile on every backend, the pin on each later step, no secrets."""

from __future__ import annotations

import json

import pytest

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.install import install_text, planning, planning_facts
from tools.environments.install.install import plan_on_paper
from tools.environments.install.planning import InstallRequest, Interpreter, PlanningFacts
from tools.environments.model import InstallPlan, InstallStep
from tools.environments.registry import registry
from tools.environments.sources.index_settings import IndexSettings
from tools.environments.sources.torch_wheel import TorchChoice

PROFILES = tuple(registry.load().profiles)
BACKENDS = ("conda", "uv", "venv")
PYTHON = Interpreter("/usr/bin/python3.11", "3.11.7")
TORCH = TorchChoice("2.13.0+cpu", "https://download.pytorch.org/whl/cpu", "index")


def train(request: InstallRequest | None = None, **changes: object) -> InstallPlan:
    facts = {"interpreter": PYTHON, "uv": "/u/uv", "torch": TORCH, **changes}
    profile = registry.load().get("TRAIN-CPU")
    return planning.plan(profile, request or InstallRequest("TRAIN-CPU"), PlanningFacts(**facts))  # type: ignore[arg-type]


def step(plan: InstallPlan, name: str) -> InstallStep:
    return next(item for item in plan.steps if item.id == name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("profile_id", PROFILES)
def test_every_profile_on_every_backend_in_the_reference_order(profile_id: str, backend: str) -> None:
    profile, plan = plan_on_paper(InstallRequest(profile_id, backend=backend), {"PATH": "/nowhere"})
    ids = [item.id for item in plan.steps]
    capabilities = [name.removesuffix(".txt") for name in profile.requirements if not name.startswith("torch-")]
    wanted = ["gate", "create", *(["isolate"] if backend == "conda" else []), "pip"]
    wanted += [*(["torch"] if profile.torch else []), *capabilities]
    assert ids == [*wanted, "register", "pip-check", "preflight", "stamp"]
    data = json.loads(json.dumps(install_text.as_data(plan)))
    assert (data["profile"], data["backend"], data["status"]) == (profile_id, backend, "planned")
    assert [item["id"] for item in data["steps"]] == ids
    if profile.torch:
        assert plan.torch is not None
        assert plan.torch.endswith(f"+{profile.torch.build}")
    assert "\n".join(install_text.paper(plan))


def test_the_pin_constrains_every_later_step() -> None:
    plan = train()
    pin = ".envs/.install/llm_train_cpu/torch-pin.txt"
    assert step(plan, "torch").writes == {pin: "torch==2.13.0+cpu\n"}
    for name in ("torch", "training-mechanism"):
        argv = step(plan, name).argv
        assert argv[argv.index(pin) - 1] == "-c"


def test_pytorchs_index_is_asked_for_torch_alone() -> None:
    plan = train()
    assert step(plan, "torch").env["UV_INDEX"] == TORCH.source
    assert "UV_INDEX" not in step(plan, "training-mechanism").env


def test_a_torch_from_a_folder_asks_no_index() -> None:
    plan = train(
        InstallRequest("TRAIN-CPU", settings=IndexSettings(find_links=("/wheels",))),
        torch=TorchChoice("2.13.0+cpu", "/wheels", "folder"),
    )
    assert "UV_INDEX" not in step(plan, "torch").env
    assert "/wheels" in step(plan, "torch").argv


def test_a_flat_page_is_a_find_links_for_torch() -> None:
    page = "https://mirror.example/cpu/"
    argv = step(train(torch=TorchChoice("2.13.0+cpu", page, "page")), "torch").argv
    assert argv[argv.index(page) - 1] == "--find-links"


def test_preset_variables_cannot_beat_the_pin_or_redirect_a_step() -> None:
    """Fault 27: a preset index puts another build on the machine."""
    preset = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_TARGET", "PIP_USER", "PIP_CERT", "PATH")
    preset += ("UV_INDEX", "UV_TORCH_BACKEND", "UV_OVERRIDE", "UV_CACHE_DIR", "PYTHONPATH", "VIRTUAL_ENV", "HOME")
    unset = {name for name, value in step(train(variables=preset), "training-mechanism").env.items() if value is None}
    assert unset == set(preset) - {"PIP_CERT", "PATH", "UV_CACHE_DIR", "HOME"}


def test_a_cuda_profile_names_the_files_other_packages_too() -> None:
    _, plan = plan_on_paper(InstallRequest("INF-VLLM-SPEC025", backend="uv"), {"PATH": "/nowhere"})
    torch = step(plan, "torch")
    assert "torch==2.11.0+cu129" in torch.argv
    assert "torchvision==0.26.0+cu129" in torch.argv
    assert torch.env["UV_INDEX"] == "https://download.pytorch.org/whl/cu129"
    assert step(plan, "vllm-0.25").env["UV_INDEX_STRATEGY"] == "unsafe-best-match"


def test_an_image_leaves_the_gpu_to_its_host() -> None:
    facts = PlanningFacts(PYTHON, uv="uv", torch=TorchChoice("2.11.0+cu128", "x", "index"))
    profile = registry.load().get("TRAIN-CUDA-MECHANISM")
    plan = planning.plan(profile, InstallRequest(profile.id, target="image"), facts)
    assert "GPU" not in step(plan, "gate").reason.partition(";")[0]
    assert "image's host" in step(plan, "preflight").reason
    assert "--compile-bytecode" in step(plan, "training-mechanism").argv


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "automation", "automation-3.12", "a b", "x" * 101, "a\n"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(LabError) as caught:
        planning.environment_name(name)
    assert caught.value.code == EXIT_USAGE


def test_paper_shows_commands_that_can_be_pasted_and_no_password() -> None:
    settings = IndexSettings(index_url="https://me:s3cret@mirror.example/simple")
    text = "\n".join(
        install_text.paper(train(InstallRequest("TRAIN-CPU", settings=settings), variables=("PIP_TARGET",)))
    )
    assert "s3cret" not in text
    assert "UV_DEFAULT_INDEX='https://***@mirror.example/simple'" in text
    assert "without PIP_TARGET" in text
    assert "$ /u/uv venv --seed" in text
    assert "$ .envs/llm_train_cpu/bin/python tools/environment_preflight.py" in text
    assert "s3cret" not in json.dumps(install_text.as_data(train(InstallRequest("TRAIN-CPU", settings=settings))))


def test_a_plan_for_a_tool_that_is_not_here_says_so() -> None:
    _, plan = plan_on_paper(InstallRequest("TRAIN-CPU", backend="conda"), {"PATH": "/nowhere"})
    assert any("conda" in note for note in plan.notes)
    assert plan.prefix == ""
    assert plan.python == "3.12"


def test_the_python_of_a_plan() -> None:
    profile = registry.load().get("TRAIN-CPU")
    assert (
        planning.python_version(profile, InstallRequest("TRAIN-CPU", python="3.11"), PlanningFacts(), "conda") == "3.11"
    )
    assert (
        planning.python_version(profile, InstallRequest("TRAIN-CPU"), PlanningFacts(interpreter=PYTHON), "uv")
        == "3.11.7"
    )
    with pytest.raises(LabError) as caught:
        plan_on_paper(InstallRequest("TRAIN-CPU", backend="conda", python="3.9"), {"PATH": "/nowhere"})
    assert caught.value.code == EXIT_USAGE
    with pytest.raises(LabError):
        planning_facts.interpreter(profile, "3.9", {})
    with pytest.raises(LabError):
        planning_facts.interpreter(profile, "/bin/false", {})
