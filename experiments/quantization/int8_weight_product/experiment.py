"""The page on int8 weights: the same product from a quarter of the weight's bytes, and what a call does for it.

The dense product on the dequantised weights, int8 weights dequantised in every call, int8 weights whose outputs are
scaled after the product, and one that is wrong on purpose: each channel with its neighbour's scale. A probe states what
rounding to int8 has lost, which none of these comparisons sees: all of them begin from the rounded weights.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Experiment, Options
from experiments.kinds.operator.kind import KIND
from experiments.kinds.operator.operator_table import table
from experiments.kinds.operator.operator_workload import OperatorWorkload
from experiments.quantization.int8_weight_product.conclusions import PROBE, conclude
from experiments.quantization.int8_weight_product.sentences import SENTENCES

SMOKE = OperatorWorkload(name="smoke", rows=4, in_features=64, out_features=48, steps=10, warmup=3, rounds=2)
# the gate projection of one decoder layer of Qwen2.5-7B (hidden 3584, intermediate 18944): 272 MB in float32, and in
# int8 still more than the L2 cache of a large card
DEFAULT = replace(SMOKE, name="default", rows=16, in_features=3584, out_features=18944, steps=20)
WORKLOADS = {workload.name: workload for workload in (SMOKE, DEFAULT, replace(DEFAULT, name="large", rows=2048))}

FLOAT, SCALE, INT8 = 4, 4, 1  # bytes


def work_of(form: str, workload: OperatorWorkload) -> dict[str, JsonValue]:
    """What one call of a form has to do, by the words of the kind's counter."""
    weights, out = workload.in_features * workload.out_features, workload.out_features
    held = weights * FLOAT if form == "dense" else weights * INT8 + out * SCALE
    return {
        "flops": 2 * workload.rows * weights,
        "int8_read": 0 if form == "dense" else weights,
        "scaled_before": weights if form == "dequantised" else 0,
        "scaled_after": workload.rows * out if form == "scaled_after" else 0,
        "weight_bytes": held,
    }


def candidates(workload: OperatorWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """Every way of computing the product on the page, in float32."""

    def spec(name: str, form: str, scales: str = "own") -> CandidateSpec:
        settings: dict[str, JsonValue] = {"form": form, "scales": scales, "work": work_of(form, workload)}
        return CandidateSpec(name=name, role="candidate", settings=settings)

    return (
        replace(spec("dense", "dense"), role="baseline"),
        replace(spec("int8 dequantised", "dequantised"), probes=(PROBE,)),
        spec("int8 scaled after", "scaled_after"),
        replace(spec("int8 neighbour's scale", "dequantised", "neighbour"), role="control", timed=False),
    )


EXPERIMENT = Experiment(
    kind=KIND,
    name="int8_weight_product",
    page="Quantization",
    title="Int8 weights: the same product from a quarter of the weight's bytes",
    title_zh="int8 权重：用四分之一的权重字节做同一个矩阵乘积",
    workloads=WORKLOADS,
    worker="experiments.quantization.int8_weight_product.worker",
    candidates=candidates,
    conclude=conclude,
    sentences=SENTENCES,
    table=table,
    look_at="which scale belongs to which channel, which weights were compared, and what was counted",
)
