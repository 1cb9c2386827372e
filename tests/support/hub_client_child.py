"""Asks for a model in a fresh process, because the hub's client reads its settings when it is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import child_coverage
from loopback_hub import LoopbackHub

from experiments.models import hub_cache, registered_config

ROOT = Path(__file__).resolve().parents[2]
MODEL = "lab/tiny"
SECRET = "hf_planted0secret"

CHILD = """
import json, sys
from dataclasses import asdict
from pathlib import Path
order = json.loads(sys.argv[1])
for name in order["absent"]:
    sys.modules[name] = None
if order["no_pause"]:
    import time
    time.sleep = lambda seconds: None  # the client pauses a second between its six tries
if order["file_limit"]:
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_limit"],) * 2)
from experiments.models import model_source
from experiments.models.source_types import ModelRequest
from tools.environments.errors import LabError
try:
    asset = model_source.resolve(ModelRequest(**order["request"]))
except LabError as error:
    answer = {"error": {key: getattr(error, key) for key in ("wanted", "found", "next", "code")}}
else:
    answer = {"identity": asdict(asset.identity), "notes": asset.notes,
              "files": [str(path) for path in (*asset.weight_files, asset.tokenizer_file)]}
print(json.dumps(answer))
"""


@dataclass
class Answer:
    """What a child said: the asset's identity and files, or the finding."""

    text: str

    def __post_init__(self) -> None:
        self.value = json.loads(self.text.splitlines()[-1])

    @property
    def identity(self) -> dict[str, object]:
        assert "identity" in self.value, self.value
        return dict(self.value["identity"])

    @property
    def found(self) -> str:
        assert "error" in self.value, self.value
        return str(self.value["error"]["found"])

    @property
    def next(self) -> str:
        return str(self.value["error"]["next"])


@dataclass
class Client:
    """Resolves models in fresh processes, with one cache and one hub."""

    home: Path
    hub: LoopbackHub

    @property
    def storage(self) -> Path:
        return self.home / "hub" / "models--lab--tiny"

    def begin(
        self,
        *,
        env: dict[str, str] | None = None,
        to_kill: bool = False,
        absent: tuple[str, ...] = (),
        no_pause: bool = False,
        file_limit: int = 0,
        **request: object,
    ) -> subprocess.Popen[str]:
        """A child that resolves the model, with nothing of this machine's own settings."""
        order = {
            "request": {"id": MODEL, "source": "hub", **request},
            "absent": absent,
            "no_pause": no_pause,
            "file_limit": file_limit,
        }
        clean = {
            key: value
            for key, value in (child_coverage.unmeasured(os.environ) if to_kill else os.environ).items()
            if not key.startswith(("HF_", "HUGGING", "TRANSFORMERS_")) and not key.lower().endswith("_proxy")
        }
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps(order)],
            cwd=ROOT,
            env={**clean, "HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.endpoint, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def resolve(self, **how: object) -> Answer:
        """What such a child answers."""
        child = self.begin(**how)  # type: ignore[arg-type]
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
        assert SECRET not in out + err
        return Answer(out)

    def left_over(self) -> list[str]:
        """Files of the cache that are neither a whole blob nor a pointer nor bookkeeping."""
        blobs = self.storage / "blobs"
        return [path.name for path in blobs.iterdir() if not _whole(path)] if blobs.is_dir() else []


def _whole(blob: Path) -> bool:
    return hub_cache.content_digest(blob, git=len(blob.name) == 40) == blob.name


def save_models(root: Path) -> None:
    """A tiny Qwen2 model and a tokenizer, saved by Transformers and Tokenizers themselves: whole, and in parts."""
    import tokenizers
    from transformers import Qwen2Config, Qwen2ForCausalLM

    model = Qwen2ForCausalLM(Qwen2Config(**registered_config.config("tiny-qwen2")))
    model.save_pretrained(root / "whole")
    model.save_pretrained(root / "parts", max_shard_size="100KB")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    for name in ("whole", "parts"):
        words.save(str(root / name / "tokenizer.json"))
