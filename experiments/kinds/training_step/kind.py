"""The kind itself: one repetition is one optimizer step of a causal LM, and what the engine asks of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from experiments.evidence import earlier_shapes
from experiments.evidence.candidate import Candidate, Memory
from experiments.evidence.codec import from_json
from experiments.evidence.record import Quantity, Record
from experiments.evidence.sentences import Templates
from experiments.evidence.subject import Backend, Workload
from experiments.evidence.vocabulary import Role
from experiments.harness.experiment import CandidateSpec, Forecast, Json, Options
from experiments.harness.kind import Described, Findings, Kind
from experiments.harness.kind_options import KindOption
from experiments.harness.kind_words import KindWords
from experiments.harness.plan import Plan
from experiments.harness.schedule import Task
from experiments.kinds.training_step import findings, heads, model_subject
from experiments.kinds.training_step.answers import GateAnswer, MeasureAnswer
from experiments.kinds.training_step.findings import ORACLE, SeenStep
from experiments.kinds.training_step.model_subject import ModelSubject, WantedModel
from experiments.kinds.training_step.step_sentences import SENTENCES
from experiments.kinds.training_step.training_experiment import of_this_kind
from experiments.kinds.training_step.training_workload import TrainingWorkload, shorter
from tools.environments.machine.host_facts import cores

QUANTITIES = tuple(from_json(Quantity, dict(quantity)) for quantity in earlier_shapes.TRAINING_STEP)
WORDS = KindWords(
    kind="training_step",
    quantities=QUANTITIES,
    phases=("forward", "loss_head", "backward", "optimizer", "transfer"),
    marks={
        "launch_bound": "launch_bound: the device waits for Python",
        "head_limited": "head_limited: try --head chunked",
        "unstable": "unstable",
    },
    claims=("memory", "time", "gradient_equivalence", "scaler_semantics", "quality"),
    gates=("gradient", "update", "oracle"),
)
SMALL_MODEL = 10_000_000  # parameters; below this more than one thread costs more than it brings
NUMBERS = ("batch", "sequence", "piece_of")
ORACLE_SPEC = CandidateSpec(name=ORACLE, role="candidate", settings={}, dtype="float64")


class TrainingStepKind(Kind[TrainingWorkload, ModelSubject, GateAnswer, MeasureAnswer]):
    """One optimizer step in one process."""

    workload = TrainingWorkload
    gate_answer = GateAnswer
    measure_answer = MeasureAnswer
    child = "experiments.kinds.training_step.child"
    options: ClassVar[tuple[KindOption, ...]] = (
        *model_subject.OPTIONS,
        KindOption("--head", choices=("full", "chunked", "both")),
        KindOption("--precision", choices=("auto", "fp32", "tf32", "bf16", "fp16")),
        *(KindOption(f"--{knob.replace('_', '-')}", metavar="N", type=int) for knob in NUMBERS),
    )
    sentences: ClassVar[Templates] = SENTENCES
    ratios: ClassVar[Mapping[str, str]] = {"step_ratio": "step_ms", "busy_ratio": "busy_ms"}
    leaves: ClassVar[str] = "the reference gradients (12 bytes a parameter)"

    def knobs_of(self, args: argparse.Namespace) -> Mapping[str, object]:
        """What the options change. A local model is named by its digests; its folder's name is the user's affair."""
        model = "local" if args.model_source == "local" else args.model
        return {**{knob: getattr(args, knob) for knob in (*NUMBERS, "head", "precision")}, "model": model}

    def asked(self, args: argparse.Namespace, workload: TrainingWorkload) -> WantedModel:
        """The model that the options and the workload name."""
        return model_subject.wanted(args, workload)

    def asked_again(self, record: Record) -> list[str]:
        """The knobs, and where the weights came from."""
        return model_subject.asked_again(record.model, super().asked_again(record))

    def check(self, workload: TrainingWorkload, subject: ModelSubject, options: Options) -> None:
        """Bounds of the workload, the model's positions, and a cap that does not hold its state."""
        model_subject.check(workload, subject, options)

    def smaller(self, workload: TrainingWorkload) -> TrainingWorkload | None:
        """The next step of the page's ladder."""
        return shorter(workload)

    def as_options(self, workload: TrainingWorkload) -> str:
        """Rows and positions."""
        return f"--batch {workload.batch} --sequence {workload.sequence}"

    def wanted(self, role: Role) -> tuple[str, ...]:
        """Finite numbers of all; of whoever is compared, the baseline's gradients and first update."""
        return findings.wanted(role)

    def references(self, workload: TrainingWorkload) -> tuple[CandidateSpec, ...]:
        """The float64 twin, where the workload runs it."""
        return (ORACLE_SPEC,) if workload.oracle else ()

    def vary(self, specs: tuple[CandidateSpec, ...], workload: TrainingWorkload) -> tuple[CandidateSpec, ...]:
        """Each candidate with the loss head the workload asks for."""
        return heads.with_heads(specs, workload)

    def threads(self, subject: ModelSubject) -> int:
        """One for a small model, else all cores."""
        return 1 if subject.shape.parameters < SMALL_MODEL else cores()

    def title(self, subject: ModelSubject) -> str:
        """The model's id."""
        return subject.asset.identity.id

    def keep(self, subject: ModelSubject, workload: TrainingWorkload) -> Json:
        """The model's identity, where it lies, and the digest of the tokens."""
        return model_subject.keep(subject, workload)

    def again(self, plan: Plan[TrainingWorkload]) -> ModelSubject:
        """The same model, found again."""
        return model_subject.again(model_subject.kept_in(plan.subject))

    def still_there(self, task: Task, scratch: Path) -> bool:
        """Whether the oracle's gradients, or the baseline's and its update, are whole on the disk."""
        from experiments.harness import reference
        from experiments.kinds.training_step import gating

        names = (gating.ORACLE,) if task.kind == "reference" else (gating.GRADIENTS, gating.UPDATE)
        return all(reference.is_whole(scratch / name) for name in names)

    def described(self, plan: Plan[TrainingWorkload], subject: ModelSubject) -> Described:
        """The model, the workload with its batch and tokens, and PyTorch as the backend."""
        kept, workload = model_subject.kept_in(plan.subject), plan.workload
        return Described(
            workload=Workload(
                name=workload.name,
                registered_digest=plan.registered_digest,
                digest=workload.digest(),
                knobs=workload.knobs(),
                dtype=next((spec.dtype for spec in plan.specs if spec.role == "baseline"), "float32"),
                batch=workload.batch,
                sequence_length=workload.sequence,
                tokens_per_step=workload.tokens,
                tokenized_manifest_digest=kept.manifest_digest,
            ),
            backend=Backend(version=plan.device.torch, threads=plan.threads),
            model=model_subject.recorded(kept),
        )

    def findings(self, seen: SeenStep) -> Findings:
        """Samples, memory, gates and numerics."""
        return findings.findings(of_this_kind(seen.experiment), seen)

    def forecast(self, seen: SeenStep, memory: Memory | None) -> Forecast:
        """What the page's formulas say."""
        return findings.forecast(of_this_kind(seen.experiment), seen, memory)

    def marks(self, seen: SeenStep, candidate: Candidate) -> tuple[str, ...]:
        """`head_limited`, `launch_bound`."""
        return findings.marks(seen, candidate)


KIND = TrainingStepKind(WORDS)
