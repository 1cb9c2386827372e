"""`fit`: what it says for the registered workloads, and every wrong question it may be asked."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.cli import discovery
from experiments.cli.entry import main
from experiments.cli.fit_text import Fitted, as_lines
from experiments.harness.experiment import CandidateSpec
from experiments.kinds.training_step.ledger.ledger import GIB
from experiments.kinds.training_step.ledger.ledger_fit import card_bytes, fit, floor_bytes
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.models.registered_config import config, shape
from tools.environments.registry import registry

ROOT = Path(__file__).resolve().parents[2]
CUDA = "TRAIN-CUDA-MECHANISM"
QWEN = "Qwen/Qwen2.5-0.5B"
SHAPE = shape(config(QWEN))
BF16 = CandidateSpec(name="bf16", role="candidate", settings={"autocast": "bfloat16"})
FP32 = CandidateSpec(name="fp32", role="baseline", settings={"autocast": None})
UNKNOWN = CandidateSpec(name="compiled", role="candidate", settings={"compiled": True})


def _workload(batch: int, sequence: int, **given: object) -> TrainingWorkload:
    base = {"name": "default", "model": QWEN, "steps": 1, "warmup": 0, "rounds": 1}
    return TrainingWorkload(**{**base, "batch": batch, "sequence": sequence, **given})  # type: ignore[arg-type]


def _ask(*words: str) -> int:
    return main(["fit", *words])


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    _ask(*words, "--json")
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(("workload", "memory"), [("default", 12), ("fit-8gib", 8)])
def test_registered_workloads_fit_the_card_they_are_for(
    workload: str, memory: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _json(capsys, "--profile", CUDA, "--memory-gib", str(memory))
    mine = [item for item in found["workloads"] if item["workload"] == workload]  # type: ignore[attr-defined]
    assert mine
    for item in mine:
        verdicts = {row["candidate"]: row["verdict"] for row in item["candidates"]}
        assert set(verdicts.values()) <= {"fits", "not predicted"}, (item["experiment"], verdicts)
    assert found["executed"] is False


def test_text_leads_with_the_status_and_ends_with_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ask("--profile", CUDA, "--memory-gib", "8") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"warning · {CUDA} on a card of 8 GiB")
    assert "predicted, not executed" in text.splitlines()[0]
    command = f"→ python -m experiments run mixed_precision_backward --profile {CUDA} --workload fit-8gib"
    default = text.split("mixed_precision_backward · default")[1].split("\n\n")[0]
    assert command in default, "what does not fit is answered with the registered workload that does"
    assert "too large" in default


def test_every_command_it_proposes_can_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    _ask("--profile", CUDA, "--memory-gib", "8", "--batch", "4", "--sequence", "512", "--model", "qwen2.5-0.5b")
    lines = [line.split("→ ", 1)[1] for line in capsys.readouterr().out.splitlines() if "→ python" in line]
    assert lines
    for line in lines:
        words = line.split()
        assert words[:4] == ["python", "-m", "experiments", "run"]
        assert words[4] in discovery.packages()
        assert "--model" not in words or words[words.index("--model") + 1] == QWEN
        assert int(words[words.index("--sequence") + 1]) < 512, "the ladder shortens the sequence first"
        assert words[-2:] == ["--run-label", "NEW"]


def test_nothing_fits_is_blocked(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ask("--profile", CUDA, "--memory-gib", "4.5", "--model", QWEN) == 1
    text = capsys.readouterr().out
    assert text.startswith("blocked")
    assert "weights, gradients and optimizer alone take" in text
    assert "asks for 8 GiB" in text


def test_everything_fits_a_large_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ask("--profile", CUDA, "--memory-gib", "141") == 0
    assert capsys.readouterr().out.startswith("ok")


def test_profile_without_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ask("--profile", "Q-QLORA", "--memory-gib", "24") == 0
    assert capsys.readouterr().out.startswith("skipped · Q-QLORA: no experiment is registered")


def test_experiments_of_other_kinds_are_named_with_their_kind(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--profile", "PAR-CUDA-MECHANISM", "--memory-gib", "24")
    assert _ask(*asked) == 0
    told = (
        "skipped · PAR-CUDA-MECHANISM: no memory ledger for all_reduce_cost (collective): only training steps have one"
    )
    assert capsys.readouterr().out.strip() == told
    assert _json(capsys, *asked)["without_ledger"] == [{"experiment": "all_reduce_cost", "kind": "collective"}]


def test_experiments_of_other_kinds_are_named_beside_those_that_are_predicted() -> None:
    profile = replace(registry.load().get(CUDA), experiments=("conformance", "all_reduce_cost"))
    own = list(as_lines(profile, 24, (), {"all_reduce_cost": "collective"}))
    assert own[0].endswith(
        "for all_reduce_cost (collective), conformance (a command of its own): only training steps have one"
    )
    fitted = Fitted("x", _workload(1, 512), True, fit(_workload(1, 512), [BF16], SHAPE, 24 * GIB))
    assert "no memory ledger for all_reduce_cost (collective): only training steps have one" in [
        *as_lines(profile, 24, (fitted,), {"all_reduce_cost": "collective"})
    ]
    gone = list(as_lines(replace(profile, experiments=("gone",)), 24, (), {}))
    assert gone == [f"skipped · {CUDA}: none of its experiments is here: gone"]


@pytest.mark.parametrize(
    ("words", "code", "place", "found"),
    [
        (["--profile", CUDA, "--memory-gib", "-1"], 2, "--memory-gib", "-1"),
        (["--profile", CUDA, "--memory-gib", "0"], 2, "--memory-gib", "0"),
        (["--profile", CUDA, "--memory-gib", "nan"], 2, "--memory-gib", "nan"),
        (["--profile", CUDA, "--memory-gib", "inf"], 2, "--memory-gib", "inf"),
        (["--profile", CUDA, "--memory-gib", "3", "--model", "qwen2.5-0.5b"], 1, "--memory-gib", "3 GiB"),
        (["--profile", CUDA, "--memory-gib", "12", "--model", "gpt-2"], 2, "--model", "gpt-2"),
        (["--profile", CUDA, "--memory-gib", "12", "--sequence", "40000"], 2, "--sequence", "40000"),
        (["--profile", CUDA, "--memory-gib", "12", "--sequence", "-5"], 2, "--sequence", "-5"),
        (["--profile", CUDA, "--memory-gib", "12", "--batch", "0"], 2, "--batch", "0"),
        (["--profile", "TRAIN-CPU", "--memory-gib", "12"], 2, "--profile", "TRAIN-CPU"),
        (["--profile", "TRAIN-CUDA", "--memory-gib", "12"], 2, "--profile", "TRAIN-CUDA"),
    ],
)
def test_wrong_questions(
    words: list[str], code: int, place: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ask(*words) == code
    told = capsys.readouterr()
    assert told.out == ""
    head, _, found_line, arrow = told.err.splitlines()[:4]
    assert head == f"blocked {place}"
    assert found in found_line
    assert arrow.startswith("  → ")


@pytest.mark.parametrize("words", [[], ["--profile", CUDA], ["--profile", CUDA, "--memory-gib", "much"]])
def test_incomplete_questions_are_usage_errors(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        _ask(*words)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_answers_in_under_a_second_without_torch() -> None:
    script = (
        "import sys; from experiments.cli.entry import main\n"
        f"code = main(['fit', '--profile', '{CUDA}', '--memory-gib', '12', '--json'])\n"
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules); sys.exit(code)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["profile"] == CUDA
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 1.0, "processor seconds, so that a busy machine does not decide"


def test_ladder_shortens_the_sequence_first() -> None:
    row = fit(_workload(8, 1024), [BF16], SHAPE, 12 * GIB)[0]
    assert row.verdict == "too large"
    assert row.smaller is not None
    assert (row.smaller.batch, row.smaller.sequence) == (8, 256)
    narrow = fit(_workload(64, 512), [BF16], SHAPE, 12 * GIB)[0].smaller
    assert narrow is not None
    assert narrow.sequence == 256
    assert narrow.batch < 64
    assert fit(_workload(1, 512, optimizer="adamw"), [BF16], SHAPE, 8 * GIB)[0].smaller is None


def test_fits_and_tight_are_different_promises() -> None:
    row = fit(_workload(1, 1024), [BF16], SHAPE, 12 * GIB)[0]
    assert row.ledger is not None
    needed, sure = row.ledger.needed, card_bytes(row.ledger)
    assert sure * (1 - 0.08) > needed, "a card that reports 8 % less still has room between the blocks"
    verdicts = [
        fit(_workload(1, 1024), [BF16], SHAPE, size)[0].verdict for size in (sure, sure - 1, needed, needed - 1)
    ]
    assert verdicts == ["fits", "tight", "tight", "too large"]


def test_chunked_head_is_offered_where_it_helps() -> None:
    assert fit(_workload(4, 512), [BF16], SHAPE, 11 * GIB)[0].chunked
    assert not fit(_workload(4, 512), [BF16], SHAPE, 8 * GIB)[0].chunked
    assert not fit(_workload(4, 512, head="chunked"), [FP32], SHAPE, 9 * GIB)[0].chunked, "it is chunked already"


def test_candidate_without_a_formula_is_not_given_numbers() -> None:
    row = fit(_workload(1, 512), [UNKNOWN], SHAPE, 8 * GIB)[0]
    assert (row.ledger, row.verdict, row.card_gib) == (None, "not predicted", None)


def test_floor_is_below_every_row() -> None:
    row = fit(_workload(1, 2), [BF16], SHAPE, 80 * GIB)[0]
    assert row.ledger is not None
    assert floor_bytes(SHAPE) <= row.ledger.needed
