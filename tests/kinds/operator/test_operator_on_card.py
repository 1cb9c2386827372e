"""An operation where events, the profiler and the allocator are real: on a CUDA card. Skipped without one."""

from __future__ import annotations

import pytest
import torch
from operator_bench import OperatorBench

from experiments.evidence.codec import from_json
from experiments.harness.device import device_facts
from experiments.harness.experiment import DeviceFacts
from experiments.kinds.operator import call_timing
from experiments.quantization.int8_weight_product.experiment import EXPERIMENT

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card"),
]
NAMES = ("dense", "int8 dequantised", "int8 scaled after")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> OperatorBench:
    card = from_json(DeviceFacts, device_facts.gather("cuda", None), "device")
    folder = tmp_path_factory.mktemp("scratch")
    return OperatorBench(EXPERIMENT, folder, device=card, rows=16, in_features=3584, out_features=4096)


@pytest.mark.parametrize("name", NAMES)
def test_every_gate_holds_on_a_card(bench: OperatorBench, name: str) -> None:
    assert bench.failed(name) == set()


def test_busy_time_and_peak_are_read_and_the_peak_is_what_a_call_holds(bench: OperatorBench) -> None:
    peaks = {}
    for name in NAMES:
        context = bench.context(name)
        operation = bench.operation(name)
        found = call_timing.measure(context.workload, context.device, operation, lambda phase: None)
        assert found.busy_ms
        assert found.busy_ms > 0
        peaks[name] = found.peak_allocated or 0
        del operation
    weights = 3584 * 4096
    assert peaks["dense"] >= 4 * weights
    for name in NAMES[1:]:  # the int8 weight, and a float copy of it for the length of a call
        assert peaks[name] >= 5 * weights
