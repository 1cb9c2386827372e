"""Records to test with: one of each level, built from parts that a test may replace."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from experiments.evidence import rules
from experiments.evidence.candidate import (
    Candidate,
    Checks,
    Failure,
    Floor,
    Gate,
    Memory,
    Numerics,
    PhasePeak,
    Prediction,
    Sample,
    ScalerTrace,
)
from experiments.evidence.digests import digest_of
from experiments.evidence.record import Calibration, Identity, Procedure, Record
from experiments.evidence.rules.v2 import statistics
from experiments.evidence.runtime import Device, Host, Image, RuntimeSnapshot, Threads
from experiments.evidence.sentences import Sentence, claim, decision, say
from experiments.evidence.subject import Backend, Model, ProfileFacts, Source, Tokenizer, Workload
from experiments.kinds.training_step.kind import QUANTITIES
from experiments.kinds.training_step.step_sentences import SENTENCES
from experiments.training_mechanism.activation_checkpointing.sentences import SENTENCES as CHECKPOINTING
from experiments.training_mechanism.mixed_precision_backward.sentences import SENTENCES as PRECISION
from tools.environments.model import Check, Report

DIGEST = "sha256:" + "ab" * 32
COMMIT = "c0" * 20
KNOBS: dict[str, Any] = {"batch": 8, "sequence": 1024, "steps": 5, "rounds": 3, "optimizer": "sgd", "precision": "auto"}
GATE = Gate(passed=True, against="none", error=1e-4, tolerance=1e-3, yardstick="bound from dtype", tensors=24)
WANTED = ("finite", "gradient", "update")
GATES = Checks(finite=True, wanted=WANTED, gates={"gradient": GATE, "update": GATE})
H200 = Device(index=0, name="NVIDIA H200", memory_bytes=150 * 10**9, compute_capability="9.0", uuid_hash=DIGEST)

PEAKS = say(
    SENTENCES,
    "peaks",
    candidate="every layer",
    peak_bytes=12 * 2**30,
    baseline="none",
    baseline_bytes=58 * 2**30,
    more=[say(SENTENCES, "after_forward", held_bytes=12 * 2**30, baseline="none", baseline_bytes=58 * 2**30)],
)
TAKES = say(SENTENCES, "step_takes", candidate="every layer", ratio=1.22, baseline="none", verdict="slower")
FREES = say(SENTENCES, "frees_for_time", candidate="every layer", share=0.79, ratio=1.22)
TWICE, ROUNDING = say(CHECKPOINTING, "computed_twice"), say(PRECISION, "within_rounding")
SKIPPED = say(PRECISION, "step_skipped", step=1, skips=1, scale_before=65536.0, scale_after=32768.0)


def agree(name: str, baseline: str, because: Sentence) -> Sentence:
    """That a candidate's gradients are the baseline's."""
    size = say(SENTENCES, "largest_error", error=1e-4, candidate=name)
    return say(SENTENCES, "gradients_agree", candidates=[name], baseline=baseline, size=size, because=because)


def samples(base_ms: float, seed: int, rounds: int = 3, steps: int = 5) -> tuple[Sample, ...]:
    """Step times within about 1 % of `base_ms`, the same for the same seed."""
    return tuple(
        Sample(
            round=turn,
            position=turn,
            step=step,
            values={
                "step_ms": base_ms * (1 + 0.004 * (((turn * 7 + step * 5 + seed * 3) % 11) / 5 - 1)),
                "wall_ms": base_ms * 1.01,
                "loss": 2.5,
            },
        )
        for turn in range(rounds)
        for step in range(steps)
    )


def candidate(name: str, role: Any, base_ms: float, seed: int, **changes: Any) -> Candidate:
    """A finished candidate with gates, memory and a prediction."""
    taken = samples(base_ms, seed)
    made = Candidate(
        name=name,
        role=role,
        settings={"every": seed},
        status="ok",
        samples=taken,
        summary=statistics.summarise(name, taken, QUANTITIES),
        memory=Memory(
            peak_allocated_bytes=30 * 2**30 + seed,
            peak_reserved_bytes=32 * 2**30,
            after_forward_bytes=12 * 2**30,
            peak_phase="loss_head",
            phases=(PhasePeak(phase="forward", peak_allocated_bytes=12 * 2**30),),
        ),
        checks=Checks(finite=True, wanted=("finite",)) if role == "baseline" else GATES,
        predictions=(
            Prediction(
                quantity="after_forward_bytes",
                formula="saved_tensors",
                unit="bytes",
                predicted=12.0 * 2**30,
                measured=12.0 * 2**30,
                residual=0.0,
            ),
        ),
    )
    return replace(made, **changes)


def report(profile: str, *checks: Check, accepted: tuple[str, ...] = ()) -> Report:
    """A preflight report in which everything that makes an environment the profile's holds."""
    kept = {
        **{name: Check(name, "ok", "the profile's", "the same") for name in rules.CURRENT.on_profile},
        **{check.id: check for check in checks},
    }
    return Report(profile, DIGEST, tuple(kept.values()), accepted)


def gpu_record(**changes: Any) -> Record:
    """A record that earns gpu_measured, with top-level fields replaced and graded again."""
    return rules.graded(replace(_gpu(), **changes))


def cpu_record(**changes: Any) -> Record:
    """A mixed-precision record from a CPU, graded cpu_mechanism, with top-level fields replaced and graded again."""
    return rules.graded(replace(_cpu(), **changes))


def second(seed: int = 10, every_ms: float = 272.0, **changes: Any) -> Record:
    """Another run of what `gpu_record` measured, with other samples; `every_ms` is its last candidate's step."""
    taken = (
        candidate("none", "baseline", 222.7, seed + 1),
        candidate("none again", "baseline_again", 222.9, seed + 2),
        candidate("every layer", "candidate", every_ms, seed + 3),
        gpu_record().candidates[3],
    )
    base = gpu_record()
    identity = replace(base.identity, run_label="2026-12-01-b", created_at="2026-12-01T12:00:00Z")
    return gpu_record(
        identity=identity,
        candidates=taken,
        noise_floors=statistics.noise_floors(taken, QUANTITIES),
        comparisons=statistics.comparisons(taken, QUANTITIES),
        **changes,
    )


def measured_record() -> Record:
    """A GPU record with busy times, phases, predictions and a floor: everything the pictures draw."""
    taken = (
        measured("none", "baseline", 222.6, 1, 58.8, 58.1, 220.0),
        measured("none again", "baseline_again", 222.9, 2, 58.8, 58.1, 220.0),
        measured("every layer", "candidate", 272.4, 3, 35.1, 12.0, 270.0),
        replace(
            measured("pinned", "candidate", 1167.0, 5, 19.5, 3.0, 300.0),
            marks=("launch_bound",),
            floors=(Floor(quantity="step_ms", limited_by="pinned bandwidth", unit="ms", floor=690.0, distance=1.69),),
        ),
        _gpu().candidates[3],
    )
    return gpu_record(
        candidates=taken,
        noise_floors=statistics.noise_floors(taken, QUANTITIES),
        comparisons=statistics.comparisons(taken, QUANTITIES),
    )


def measured(
    name: str, role: Any, ms: float, seed: int, peak_gib: float, after_forward_gib: float, busy_ms: float
) -> Candidate:
    """A candidate of `measured_record`."""
    taken = tuple(replace(sample, values={**sample.values, "busy_ms": busy_ms}) for sample in samples(ms, seed))
    sizes = {"forward": after_forward_gib, "loss_head": peak_gib, "backward": 0.9 * peak_gib, "optimizer": 5.0}
    foretold = {"after_forward_bytes": after_forward_gib * 2**30, "peak_allocated_bytes": peak_gib * 2**30}
    return candidate(
        name,
        role,
        ms,
        seed,
        samples=taken,
        summary=statistics.summarise(name, taken, QUANTITIES),
        memory=Memory(
            peak_allocated_bytes=int(peak_gib * 2**30),
            after_forward_bytes=int(after_forward_gib * 2**30),
            peak_phase="loss_head",
            phases=tuple(
                PhasePeak(phase=phase, peak_allocated_bytes=int(size * 2**30))  # type: ignore[arg-type]
                for phase, size in sizes.items()
            ),
        ),
        predictions=tuple(
            Prediction(
                quantity=quantity,
                formula="ledger",
                unit="bytes",
                predicted=size / 1.02,
                measured=size,
                residual=size / (size / 1.02) - 1,
            )
            for quantity, size in foretold.items()
        ),
    )


@cache
def _gpu() -> Record:
    candidates = (
        candidate("none", "baseline", 222.6, 1),
        candidate("none again", "baseline_again", 222.8, 2),
        candidate("every layer", "candidate", 272.4, 3),
        Candidate(
            name="everything kept",
            role="candidate",
            settings={"every": 0},
            status="oom",
            failure=Failure(
                phase="backward",
                kind="OutOfMemoryError",
                message="CUDA out of memory: tried to allocate 2.00 GiB",
                proposal="--workload fit-8gib",
            ),
        ),
    )
    profile = "TRAIN-CUDA130-MECHANISM"
    return Record(
        identity=Identity(
            experiment="activation_checkpointing",
            page="Part 02 · 19",
            run_label="2026-12-01-a",
            run_mode="real_gpu",
            created_at="2026-12-01T10:00:00Z",
        ),
        source=Source(digest=DIGEST, scope=("experiments/evidence",), files=20, commit=COMMIT, dirty=False),
        backend=Backend(version="2.11.0+cu130"),
        profile=ProfileFacts(id=profile, registry_digest=DIGEST, requirement_digest=DIGEST, preflight=report(profile)),
        runtime=RuntimeSnapshot(
            host=Host(system="Linux", release="6.8.0", machine="x86_64", cpu="Some CPU", cores=16),
            image=Image(reason="not in a container"),
            python="3.12.3",
            torch="2.11.0+cu130",
            torch_cuda="13.0",
            cudnn="9.19.0",
            driver="580.95.05",
            devices=(H200,),
            packages={"torch": "2.11.0+cu130"},
            environment={},
            threads=Threads(intra_op=16, inter_op=1),
        ),
        model=Model(
            id="Qwen/Qwen2.5-0.5B",
            weights_source="random_init",
            parameter_count=494_032_768,
            config_digest=DIGEST,
            tokenizer=Tokenizer(id="shipped", digest=DIGEST),
        ),
        workload=Workload(
            name="large",
            registered_digest=digest_of(KNOBS),
            digest=digest_of(KNOBS),
            knobs=KNOBS,
            dtype="bfloat16",
            batch=8,
            sequence_length=1024,
            tokens_per_step=8192,
            tokenized_manifest_digest=DIGEST,
        ),
        quantities=QUANTITIES,
        procedure=Procedure(rounds=3, steps_per_round=5, warmup_steps=2, order_seed=0, isolation="fork"),
        calibration=Calibration(matmul_tflops={"bfloat16": 700.0}, host_to_device_gb_s=55.0),
        candidates=candidates,
        noise_floors=statistics.noise_floors(candidates, QUANTITIES),
        comparisons=statistics.comparisons(candidates, QUANTITIES),
        claims=(
            claim("memory", PEAKS, ("every layer",), ("peak_allocated_bytes",)),
            claim("time", TAKES, ("every layer",), ("step_ms",)),
            claim("gradient_equivalence", agree("every layer", "none", TWICE), ("every layer",), ("gradient",)),
        ),
        decision=decision("adopt_if_memory_bound", FREES),
    )


@cache
def _cpu() -> Record:
    scaler = ScalerTrace(
        injected_step=1,
        scale_before=65536.0,
        scale_after=32768.0,
        skips_counted=1,
        parameters_identical=True,
        optimizer_state_identical=True,
        schedule_advanced=False,
        passed=True,
    )
    numbers = Numerics(
        dtypes={"parameter": "float32", "activation": "float16", "gradient": "float32"},
        underflow_share=0.031,
        underflow_entries=31,
        gradient_entries=1000,
        scale_sequence=(65536.0, 32768.0, 32768.0),
        skipped_steps=(1,),
        scaler=scaler,
    )
    candidates = (
        candidate("fp32", "baseline", 20.0, 1, memory=None, predictions=()),
        candidate("fp32 again", "baseline_again", 20.1, 2, memory=None, predictions=()),
        candidate("fp16 + scaler", "candidate", 40.0, 3, memory=None, predictions=(), numerics=numbers),
    )
    base = _gpu()
    return replace(
        base,
        profile=replace(base.profile, id="TRAIN-CPU", preflight=report("TRAIN-CPU")),
        identity=replace(base.identity, experiment="mixed_precision_backward", run_mode="cpu_mechanism"),
        runtime=replace(base.runtime, devices=(), torch="2.13.0+cpu", torch_cuda=None, driver=None, cudnn=None),
        candidates=candidates,
        noise_floors=statistics.noise_floors(candidates, QUANTITIES),
        comparisons=statistics.comparisons(candidates, QUANTITIES),
        claims=(
            claim("scaler_semantics", SKIPPED, ("fp16 + scaler",), ("scaler",)),
            claim("gradient_equivalence", agree("fp16 + scaler", "fp32", ROUNDING), ("fp16 + scaler",), ("gradient",)),
        ),
        decision=decision("numerics_ok", say(PRECISION, "numerics_only", parts=[say(PRECISION, "scaler_skips")])),
    )
