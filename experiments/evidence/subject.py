"""What a record is about: which sources, which backend, which profile, which model and tokens, which workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from experiments.evidence.vocabulary import Commit, Count, Digest, JsonValue, Name, Pattern, WeightsSource
from tools.environments.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which code took part."""

    digest: Annotated[Digest, "over path and content of each source file in `scope`; `verify` matches it to a commit"]
    scope: Annotated[tuple[str, ...], "folders and files of the repository the digest covers"]
    files: Annotated[Count, "number of files it covers"]
    commit: Annotated[Commit | None, "null where no git is present"] = None
    dirty: Annotated[bool | None, "sources in scope differ from the commit; null where no git is present"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What executed the model. Plain PyTorch has no engine: those fields are null, and `reason` says so."""

    name: Name = "pytorch"
    version: str | None = None
    engine_parameters: Mapping[str, JsonValue] | None = None
    build_options: Annotated[str | None, "build identity: torch build, compile flags"] = None
    threads: Count | None = None
    offload_layers: Count | None = None
    reason: Annotated[str | None, "why fields are null"] = "plain PyTorch: no engine, no engine build, no layer offload"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFacts:
    """Which profile the run was checked against, and the preflight report that was true when it began."""

    id: Annotated[str, Pattern(r"^[A-Z][A-Z0-9-]{1,63}$")]
    registry_digest: Digest
    requirement_digest: Digest
    preflight: Annotated[Report | None, "whole; null only for a dry run that made none"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """What made tokens of the text."""

    id: Name
    commit: Annotated[str | None, "null when it ships with this repository"] = None
    digest: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """How text became model input. For plain text the first two are null and the third still identifies the input."""

    chat_template: Annotated[Digest | None, "digest of the template; null when none is applied"] = None
    thinking_mode: Annotated[str | None, "null for models without one"] = None
    input_digest: Annotated[Digest | None, "identity of the input after templating"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Which weights and which architecture."""

    id: Name
    weights_source: WeightsSource
    requested_revision: Annotated[str | None, "null for weights made from a registered config"] = None
    resolved_commit: Annotated[str | None, "what the revision resolved to; null for random weights"] = None
    parameter_count: Count | None = None
    config_digest: Digest | None = None
    weights_digest: Annotated[Digest | None, "local weights: digest of the files; random: of seed and config"] = None
    tokenizer: Tokenizer | None = None
    template: Template = Template()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What was computed. `knobs` is everything the digest covers; the named fields are what readers compare by."""

    name: Annotated[Name, "registered name, or the word the user gave"]
    registered_digest: Annotated[Digest | None, "digest of the workload registered under that name, if one is"] = None
    digest: Annotated[Digest, "of `knobs` in canonical JSON"]
    knobs: Annotated[Mapping[str, JsonValue], "every knob"]
    dtype: Annotated[Name | None, "precision of the baseline: float32, bfloat16, float16; null without one"] = None
    batch: Annotated[Count | None, "null where the work has no batch"] = None
    sequence_length: Annotated[Count | None, "null where the work has no sequence"] = None
    tokens_per_step: Annotated[Count | None, "tokens that carry a loss in one effective batch"] = None
    concurrency: Annotated[Count | None, "requests in flight; null for training"] = None
    tokenized_manifest_digest: Digest | None = None

    @property
    def registered(self) -> bool:
        """Whether this is exactly the workload registered under its name."""
        return self.registered_digest == self.digest

    @property
    def title(self) -> str:
        """How it is called among others: by its name alone only where it is the one registered under that name."""
        return self.name if self.registered else f"{self.name}, changed"
