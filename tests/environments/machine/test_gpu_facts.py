"""GPU facts: real children at the door (answering, refusing, hanging, babbling ones), and the reading of NVML."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.environments.machine import gpu_facts, gpu_query

UUID = "GPU-11111111-2222-3333-4444-555555555555"
# What one H200 answered, but for the digest of its UUID.
RECORDED = json.loads((Path(__file__).parents[2] / "data" / "nvml_h200.json").read_text())
DIGEST = RECORDED["cards"][0]["uuid"]


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """Writes a Python program and answers its command line."""

    def write(body: str) -> tuple[str, ...]:
        path = tmp_path / f"program_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(body)
        return (sys.executable, "-I", "-S", str(path))

    return write


NOTHING = ("/nonexistent/nvidia-smi",)


def test_nvml_answer_becomes_cards(program: Callable[[str], tuple[str, ...]]) -> None:
    facts = gpu_facts.gather(nvml=program(f"print({json.dumps(json.dumps(RECORDED))})"), smi=NOTHING)
    assert facts == gpu_facts.GpuFacts(
        "nvml", "580.159.04", "13.0", (gpu_facts.Card("NVIDIA H200", 140.4, "9.0", DIGEST),), None
    )


def test_without_nvml_nvidia_smi_answers_and_its_uuid_is_hashed(program: Callable[[str], tuple[str, ...]]) -> None:
    smi = program(f"print('NVIDIA L40, 46068, 8.9, {UUID}, 570.86.10')\nprint('NVIDIA T4, [N/A], 7.5, x, 570.86.10')")
    facts = gpu_facts.gather(nvml=program("print('{\"missing\": true}')"), smi=smi)
    assert (facts.source, facts.driver, facts.problem) == ("nvidia-smi", "570.86.10", None)
    assert [(card.name, card.memory_gib, card.capability) for card in facts.cards] == [("NVIDIA L40", 44.99, "8.9")]
    assert UUID not in repr(facts)


def test_machine_without_driver_says_what_is_missing(program: Callable[[str], tuple[str, ...]]) -> None:
    facts = gpu_facts.gather(nvml=program("print('{\"missing\": true}')"), smi=NOTHING)
    assert facts.source == "none"
    assert facts.cards == ()
    assert "no NVML library" in str(facts.problem)


def test_library_mismatch_is_told_in_the_drivers_words(program: Callable[[str], tuple[str, ...]]) -> None:
    answer = {"error": "Driver/library version mismatch", "code": gpu_query.LIBRARY_MISMATCH}
    facts = gpu_facts.gather(nvml=program(f"print({json.dumps(json.dumps(answer))})"), smi=NOTHING)
    assert facts.problem == "NVML: Driver/library version mismatch"


def test_failing_nvidia_smi_is_a_problem_not_an_error(program: Callable[[str], tuple[str, ...]]) -> None:
    smi = program("print('Failed to initialize NVML: Driver/library version mismatch'); raise SystemExit(18)")
    facts = gpu_facts.gather(nvml=NOTHING, smi=smi)
    assert facts.problem == "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"
    silent = gpu_facts.gather(nvml=NOTHING, smi=program("raise SystemExit(9)"))
    assert silent.problem == "nvidia-smi: exit code 9"


def test_nvidia_smi_without_cards_says_so(program: Callable[[str], tuple[str, ...]]) -> None:
    facts = gpu_facts.gather(nvml=NOTHING, smi=program("print('No devices were found')"))
    assert (facts.cards, facts.problem) == ((), "nvidia-smi lists no card")


@pytest.mark.parametrize("babble", ["", "not json", "[]", '{"driver": 1}', '{"cards": [{}], "driver": "", "cuda": ""}'])
def test_nonsense_from_nvml_falls_through(program: Callable[[str], tuple[str, ...]], babble: str) -> None:
    assert gpu_facts.gather(nvml=program(f"print({babble!r})"), smi=NOTHING).source == "none"


def test_driver_without_cards_keeps_its_version(program: Callable[[str], tuple[str, ...]]) -> None:
    facts = gpu_facts.gather(nvml=program(f"print({json.dumps(json.dumps({**RECORDED, 'cards': []}))})"), smi=NOTHING)
    assert (facts.driver, facts.cards) == ("580.159.04", ())
    assert facts.problem is not None


def test_hung_driver_costs_the_time_limit_and_no_more(program: Callable[[str], tuple[str, ...]]) -> None:
    facts = gpu_facts.gather(time_limit_s=0.3, nvml=program("import time; time.sleep(3600)"), smi=NOTHING)
    assert facts.problem == "the driver did not answer within 0.3 s"


def test_the_real_door_answers_on_this_machine() -> None:
    facts = gpu_facts.gather()
    assert (facts.cards == ()) == (facts.problem is not None)


class FakeNvml:
    """Answers like libnvidia-ml for one card, writing through the same ctypes arguments."""

    def __init__(self, fails: dict[str, int] | None = None) -> None:
        self.fails = fails or {}
        self.nvmlErrorString: Any = self._error_string

    @staticmethod
    def _error_string(code: int) -> bytes:
        return {gpu_query.LIBRARY_MISMATCH: b"Driver/library version mismatch"}.get(code, b"")

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            if name in self.fails:
                return self.fails[name]
            texts = {
                "nvmlSystemGetDriverVersion": b"580.65.06",
                "nvmlDeviceGetName": b"NVIDIA T4",
                "nvmlDeviceGetUUID": UUID.encode(),
            }
            if name in texts:
                arguments[-2].value = texts[name]
            elif name == "nvmlSystemGetCudaDriverVersion_v2":
                arguments[0]._obj.value = 12080
            elif name == "nvmlDeviceGetCount_v2":
                arguments[0]._obj.value = 1
            elif name == "nvmlDeviceGetMemoryInfo":
                arguments[1]._obj.total = 16 * 2**30
            elif name == "nvmlDeviceGetCudaComputeCapability":
                arguments[1]._obj.value, arguments[2]._obj.value = 7, 5
            return gpu_query.SUCCESS

        return call


class Strict(FakeNvml):
    """`restype` is set on the function object, which a bound method refuses: give it one that takes attributes."""

    def __init__(self, fails: dict[str, int] | None = None) -> None:
        super().__init__(fails)
        error_string = self._error_string

        class Function:
            restype: Any = None

            def __call__(self, code: int) -> bytes:
                return error_string(code)

        self.nvmlErrorString = Function()


def test_query_reads_every_field_through_ctypes() -> None:
    library = Strict()
    answer = gpu_query.ask(library)
    assert library.nvmlErrorString.restype is ctypes.c_char_p
    assert (answer["driver"], answer["cuda"]) == ("580.65.06", "12.8")
    (card,) = answer["cards"]
    assert (card["name"], card["memory_bytes"], card["capability"]) == ("NVIDIA T4", 16 * 2**30, "7.5")
    assert UUID not in json.dumps(answer)


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        ({"nvmlInit_v2": gpu_query.LIBRARY_MISMATCH}, {"error": "Driver/library version mismatch", "code": 18}),
        ({"nvmlDeviceGetUUID": 3}, {"error": "NVML error 3", "code": 3}),
    ],
)
def test_query_prints_a_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: dict[str, int], expected: dict[str, Any]
) -> None:
    monkeypatch.setattr(gpu_query, "load", lambda: Strict(fails))
    gpu_query.main()
    assert json.loads(capsys.readouterr().out) == expected


def test_query_prints_that_nothing_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_query, "LIBRARIES", ("libdoes-not-exist.so.1",))
    gpu_query.main()
    assert json.loads(capsys.readouterr().out) == {"missing": True}


def test_an_old_library_is_told_apart(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    old = type("Old", (), {"nvmlErrorString": Strict().nvmlErrorString})
    monkeypatch.setattr(gpu_query, "load", old)
    gpu_query.main()
    assert "too old" in json.loads(capsys.readouterr().out)["error"]


def test_load_takes_the_first_library_that_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_query, "LIBRARIES", ("libdoes-not-exist.so.1", "libc.so.6"))
    if sys.platform == "linux":
        assert gpu_query.load() is not None
