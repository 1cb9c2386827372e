"""The offload page: saved tensors to host memory and back, waited for or hidden behind the computation.

PyTorch's save_on_cpu pageable and pinned, our overlapped form, checkpointing with only the layer inputs offloaded, and
TRL's OffloadActivations as the peer when its file is given. Parameters never travel.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.evidence.candidate import Floor
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Forecast, Options
from experiments.kinds.training_step.kind import KIND
from experiments.kinds.training_step.ledger.ledger import predictions
from experiments.kinds.training_step.ledger.ledger_settings import for_candidate
from experiments.kinds.training_step.precision import chosen
from experiments.kinds.training_step.training_experiment import ForecastRequest, TrainingExperiment
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.training_mechanism.activation_offload.conclusions import conclude
from experiments.training_mechanism.activation_offload.sentences import SENTENCES
from experiments.training_mechanism.shared.memory_table import table
from experiments.training_mechanism.shared.shared_workloads import memory_for_time

IN_FLIGHT_BYTES = 1 << 30  # copies under way in one direction: what the overlap costs in device memory
PAGEABLE_TOKENS = 4096  # above this a pageable step takes tens of seconds, and says nothing new

WORKLOADS = memory_for_time(steps=8, warmup=2)


def candidates(workload: TrainingWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """Every way of offloading on the page, in the precision the workload asks for."""
    base, dtype = chosen(workload.precision, device)
    slow = None
    if device.kind == "cuda" and workload.tokens > PAGEABLE_TOKENS:
        slow = f"pageable copies of {workload.tokens} tokens take tens of seconds a step: see the default workload"
    no_pinning = None if device.kind == "cuda" else "pinned memory needs a CUDA device"
    no_peer = None if options.peer_path else "no --peer-path: give the folder of TRL's activation_offloading.py"

    def spec(name: str, **more: str | int | bool) -> CandidateSpec:
        settings = {**base, "checkpoint": "none", "offload": "none", **more}
        return CandidateSpec(name=name, role="candidate", settings=settings, dtype=dtype)

    overlapped: dict[str, str | int] = {"offload": "overlapped", "in_flight_bytes": IN_FLIGHT_BYTES}
    return (
        replace(spec("none"), role="baseline"),
        replace(
            spec("save_on_cpu, pageable", offload="all", form="save_on_cpu", pinned=False),
            unavailable=slow,
            most_rounds=1,
        ),
        replace(spec("save_on_cpu, pinned", offload="all", form="save_on_cpu", pinned=True), unavailable=no_pinning),
        spec("overlapped", **overlapped),
        replace(spec("TRL OffloadActivations", form="trl"), unavailable=no_peer),
        spec("checkpoint every layer", checkpoint="all"),
        spec(
            "checkpoint + layer inputs offloaded",
            checkpoint="all",
            offload="layer_inputs",
            in_flight_bytes=IN_FLIGHT_BYTES // 4,
        ),
    )


def forecast(request: ForecastRequest) -> Forecast:
    """Residency and peak by the memory ledger. The time floor needs the bytes really moved: see `transfer_floor`."""
    settings = for_candidate(request.workload, request.spec.settings)
    known = request.spec.settings.get("form") != "trl"
    rows = predictions(request.shape, settings) if settings and known and request.device.kind == "cuda" else ()
    return Forecast(predictions=rows, floors=_transfer_floor(request))


def _transfer_floor(request: ForecastRequest) -> tuple[Floor, ...]:
    """The bytes this candidate moved, at the pinned bandwidth of the same run: they go out before they come back."""
    moved, rates = request.transferred_bytes, request.calibration
    if moved is None or rates is None or not rates.device_to_host_gb_s or not rates.host_to_device_gb_s:
        return ()
    floor_ms = (moved / 2 / rates.device_to_host_gb_s + moved / 2 / rates.host_to_device_gb_s) / 1e6
    return (Floor(quantity="step_ms", limited_by="pinned bandwidth", unit="ms", floor=floor_ms),)


EXPERIMENT = TrainingExperiment(
    kind=KIND,
    name="activation_offload",
    page="Part 02 · 42",
    title="Activation offload: what the forward saves goes to the host and comes back in time",
    title_zh="激活卸载：前向保存的张量搬到主机，反向之前搬回",
    workloads=WORKLOADS,
    worker="experiments.training_mechanism.activation_offload.worker",
    candidates=candidates,
    conclude=conclude,
    sentences=SENTENCES,
    table=table,
    forecast=forecast,
    takes_peer=True,
)
