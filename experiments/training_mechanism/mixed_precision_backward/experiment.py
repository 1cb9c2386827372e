"""The mixed-precision page: fp32, TF32, bf16, fp16 with and without loss scaling, on one fixed batch.

Numerics come first: gradients and the first update are checked against fp32 and against a float64 twin, and an injected
overflow has to drive the scaler through its exact states. Only then does a time mean anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.evidence.candidate import Floor, Numerics, ScalerTrace
from experiments.harness.experiment import Answer, CandidateSpec, DeviceFacts, Forecast, Options
from experiments.kinds.training_step.answers import GateAnswer
from experiments.kinds.training_step.kind import KIND
from experiments.kinds.training_step.ledger.flops import step_flops
from experiments.kinds.training_step.ledger.ledger import predictions
from experiments.kinds.training_step.ledger.ledger_settings import for_candidate
from experiments.kinds.training_step.training_experiment import ForecastRequest, TrainingExperiment
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.training_mechanism.mixed_precision_backward.conclusions import conclude
from experiments.training_mechanism.mixed_precision_backward.presentation import picture, table
from experiments.training_mechanism.mixed_precision_backward.sentences import SENTENCES
from experiments.training_mechanism.shared.shared_workloads import QWEN

PROBE = "injected_inf"

# One piece of a step of eight: its loss is divided by the tokens of all eight, which is where fp16 begins to underflow.
WORKLOADS = {
    "smoke": TrainingWorkload(
        name="smoke", model="tiny-qwen2", batch=4, sequence=128, piece_of=8, steps=4, warmup=1, rounds=2
    ),
    "default": TrainingWorkload(
        name="default", model=QWEN, batch=1, sequence=1024, piece_of=8, steps=10, warmup=3, rounds=2
    ),
    "fit-8gib": TrainingWorkload(
        name="fit-8gib", model=QWEN, batch=1, sequence=512, piece_of=8, steps=10, warmup=3, rounds=2
    ),
    "large": TrainingWorkload(
        name="large",
        model=QWEN,
        batch=8,
        sequence=1024,
        steps=10,
        warmup=3,
        rounds=2,
        optimizer="adamw",
        learning_rate=1e-4,
        oracle=False,
    ),
}


def candidates(workload: TrainingWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """Every precision of the page; what this device cannot do natively is there too, with the reason."""
    no_tf32 = None if device.tf32 else "TF32 needs an NVIDIA card of compute capability 8.0 or higher"
    no_bf16 = None if device.bf16_native else "bf16 is not reported as native by both the hardware and PyTorch"
    every = (
        CandidateSpec(name="fp32", role="baseline", settings={"autocast": None, "scaler": False, "matmul": "highest"}),
        CandidateSpec(
            name="tf32",
            role="candidate",
            settings={"autocast": None, "scaler": False, "matmul": "high"},
            dtype="tf32",
            unavailable=no_tf32,
        ),
        CandidateSpec(
            name="bf16",
            role="candidate",
            settings={"autocast": "bfloat16", "scaler": False, "matmul": "highest"},
            dtype="bfloat16",
            unavailable=no_bf16,
        ),
        CandidateSpec(
            name="fp16 + scaler",
            role="candidate",
            settings={"autocast": "float16", "scaler": True, "matmul": "highest"},
            dtype="float16",
            probes=(PROBE,),
        ),
        CandidateSpec(
            name="fp16, unscaled",
            role="control",
            settings={"autocast": "float16", "scaler": False, "matmul": "highest"},
            dtype="float16",
        ),
    )
    wanted = {"auto": None, "fp32": "float32"}.get(workload.precision, workload.precision)
    names = {"tf32": "tf32", "bf16": "bfloat16", "fp16": "float16"}
    if wanted is None:
        return every
    return tuple(spec for spec in every if spec.role == "baseline" or spec.dtype == names.get(wanted, wanted))


def numerics(spec: CandidateSpec, gate: GateAnswer | None, probes: Mapping[str, Answer]) -> Numerics | None:
    """The number formats seen, the share of gradients below the normal range, and the scaler's history."""
    if gate is None:
        return None
    probe, lost = probes.get(PROBE), gate.underflow
    entries = lost.entries
    return Numerics(
        dtypes=gate.dtypes,
        underflow_share=lost.below_normal / entries if entries else None,
        underflow_entries=lost.below_normal if entries else None,
        gradient_entries=entries or None,
        scale_sequence=tuple(probe["scales"]) if probe else (),
        skipped_steps=tuple(probe["skipped_steps"]) if probe else (),
        scaler=_trace(probe) if probe else None,
    )


def _trace(probe: Answer) -> ScalerTrace:
    return ScalerTrace(
        injected_step=probe["injected_step"],
        scale_before=probe["scale_before"],
        scale_after=probe["scale_after"],
        skips_counted=probe["skips_counted"],
        parameters_identical=probe["parameters_identical"],
        optimizer_state_identical=probe["optimizer_state_identical"],
        schedule_advanced=probe["schedule_advanced"],
        passed=probe["passed"],
    )


def forecast(request: ForecastRequest) -> Forecast:
    """Memory by the ledger; as floor of the step its matrix products at the rate this card reached in the run."""
    settings = for_candidate(request.workload, request.spec.settings)
    if request.device.kind == "cpu" or settings is None:
        return Forecast()
    rows = predictions(request.shape, settings)
    rate = None if request.calibration is None else request.calibration.matmul_tflops.get(request.spec.dtype)
    if rate is None:
        return Forecast(predictions=rows)
    flops = step_flops(request.shape, request.workload.batch, request.workload.sequence)
    floor = Floor(
        quantity="step_ms", limited_by=f"{request.spec.dtype} matmul rate", unit="ms", floor=flops / (rate * 1e12) * 1e3
    )
    return Forecast(predictions=rows, floors=(floor,))


EXPERIMENT = TrainingExperiment(
    kind=KIND,
    name="mixed_precision_backward",
    page="Part 02 · mixed-precision backward",
    title="Mixed-precision backward: formats, underflow, loss scaling",
    title_zh="混合精度反向：数值格式、下溢与损失缩放",
    workloads=WORKLOADS,
    worker="experiments.training_mechanism.mixed_precision_backward.worker",
    candidates=candidates,
    numerics=numerics,
    told_in_numerics=frozenset({PROBE}),
    conclude=conclude,
    sentences=SENTENCES,
    table=table,
    picture=picture,
    forecast=forecast,
)
