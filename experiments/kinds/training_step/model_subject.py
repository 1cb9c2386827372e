"""What a training step is measured on: a causal LM, asked for on the command line, found, and kept in the journal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.evidence.codec import from_json, to_json
from experiments.evidence.subject import Model, Template, Tokenizer
from experiments.harness.experiment import Json, Options
from experiments.harness.kind import SubjectRequest
from experiments.harness.kind_options import KindOption
from experiments.kinds.training_step import training_workload
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.models import model_source as model_source
from experiments.models import registered_config
from experiments.models.batches import training_rows
from experiments.models.registered_config import DecoderShape
from experiments.models.source_types import ModelAsset, ModelIdentity, ModelRequest, ModelSource
from tools.environments.errors import EXIT_USAGE, LabError

BYTES_PER_PARAMETER = {"sgd": 8, "adamw": 16}  # fp32 weights and gradients, and two moments
CONTEXT_GIB = 0.6  # what a CUDA context takes
GIB = 2**30
OPTIONS = (
    KindOption("--model", "a model id; for --model-source local: its folder", "ID"),
    KindOption("--model-source", "default: config (random weights)", choices=("config", "hub", "local")),
    KindOption("--revision", "branch, tag or commit on the hub"),
    KindOption("--local-files-only", "take the model from the cache", type=None),
)


@dataclass(frozen=True, slots=True)
class ModelSubject:
    """A model that was found, and how it was asked for."""

    asset: ModelAsset
    request: ModelRequest

    @property
    def shape(self) -> DecoderShape:
        """The model's sizes."""
        return registered_config.shape(self.asset.config)


@dataclass(frozen=True, slots=True)
class WantedModel(SubjectRequest[ModelSubject]):
    """A model that was asked for."""

    request: ModelRequest

    @property
    def downloads(self) -> str | None:
        """The hub id, where the hub is asked."""
        asked = self.request
        return asked.id if asked.source == "hub" and not asked.local_files_only else None

    def resolve(self) -> ModelSubject:
        """Find it. Raises LabError. Downloads only from the hub."""
        return ModelSubject(model_source.resolve(self.request), self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptModel:
    """The model in the journal of a run. `model_path` stays on this machine: the record never has it."""

    model: ModelIdentity
    model_source: ModelSource
    model_path: str | None
    local_files_only: bool
    manifest_digest: str  # of the token ids of the batch


def wanted(args: argparse.Namespace, workload: TrainingWorkload) -> WantedModel:
    """Which model, from where. LabError (usage) for an option that its source does not know."""
    source: ModelSource = args.model_source or "config"
    if source == "local":
        path = Path(args.model) if args.model else None
        return WantedModel(ModelRequest(id=workload.model, source="local", path=path))
    if source == "config" and (args.revision or args.local_files_only):
        option = "--revision" if args.revision else "--local-files-only"
        raise LabError(
            wanted=f"a model from the hub for {option}",
            found="--model-source config, which has random weights and no revision",
            next=f"add --model-source hub, or leave {option} out",
            where=option,
            code=EXIT_USAGE,
        )
    local_only = bool(args.local_files_only)
    return WantedModel(
        ModelRequest(id=workload.model, source=source, revision=args.revision, local_files_only=local_only)
    )


def asked_again(model: Model | None, knobs: Sequence[str]) -> list[str]:
    """Options that ask for the knobs and the model of a record. Where a local model lies the record does not say."""
    if model is None:
        return [*knobs]
    source = {
        "hub": f"--model-source hub --revision {model.resolved_commit}",
        "local": "--model-source local --model FOLDER",
        "random_init": "--model-source config",
    }[model.weights_source]
    others = [knob for knob in knobs if model.weights_source != "local" or not knob.startswith("--model ")]
    return [*others, source]


def check(workload: TrainingWorkload, subject: ModelSubject, options: Options) -> None:
    """Refuse a workload that this model cannot do, and a cap that does not hold its state. Raises LabError."""
    training_workload.check(workload, subject.shape)
    cap = options.cap_gib
    if cap is None:
        return
    state = subject.asset.identity.parameter_count * BYTES_PER_PARAMETER[workload.optimizer] / GIB
    if cap <= state + CONTEXT_GIB:
        raise LabError(
            wanted=f"a cap above the model's state: {state:.2f} GiB and {CONTEXT_GIB} GiB for the CUDA context",
            found=f"{cap:g} GiB",
            next="raise --memory-cap-gib, or choose a smaller --model",
            where="--memory-cap-gib",
        )


def keep(subject: ModelSubject, workload: TrainingWorkload) -> Json:
    """What the journal keeps of the model and of the tokens."""
    rows = training_rows(subject.asset, workload.batch, workload.sequence, workload.row_lengths)
    request = subject.request
    kept: Json = to_json(
        KeptModel(
            model=subject.asset.identity,
            model_source=request.source,
            model_path=None if request.path is None else str(request.path),
            local_files_only=request.local_files_only,
            manifest_digest=rows.digest,
        )
    )
    return kept


def kept_in(subject: Json) -> KeptModel:
    """What a plan kept. Raises LabError for what is no model."""
    return from_json(KeptModel, to_json(subject), "plan.subject")


def again(kept: KeptModel) -> ModelSubject:
    """The model of an interrupted run. Raises LabError where it is no longer the one the run began with."""
    request = ModelRequest(
        id=kept.model.id,
        source=kept.model_source,
        revision=kept.model.requested_revision,
        path=None if kept.model_path is None else Path(kept.model_path),
        local_files_only=kept.local_files_only,
    )
    subject = WantedModel(request).resolve()
    model_source.same_commit(kept.model, subject.asset)
    return subject


def recorded(kept: KeptModel) -> Model:
    """The model as the record has it."""
    identity = kept.model
    tokenizer = identity.tokenizer
    return Model(
        id=identity.id,
        weights_source=identity.weights_source,
        requested_revision=identity.requested_revision,
        resolved_commit=identity.resolved_commit,
        parameter_count=identity.parameter_count,
        config_digest=identity.config_digest,
        weights_digest=identity.weights_digest,
        tokenizer=Tokenizer(id=tokenizer.id, commit=tokenizer.commit, digest=tokenizer.digest),
        template=Template(input_digest=kept.manifest_digest),
    )
