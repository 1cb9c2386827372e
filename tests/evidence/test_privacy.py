"""Planted secrets through every free text of a record: none of them reaches the file."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sample_records import cpu_record, gpu_record, report

from experiments.evidence import codec, privacy, rules, runtime_snapshot, store
from experiments.evidence.candidate import Failure
from experiments.evidence.privacy import Known, clean_text, findings, known_here
from experiments.evidence.record import Record
from experiments.evidence.runtime import Peer
from experiments.evidence.sentences import decision, say
from tools.environments.layout import ROOT
from tools.environments.model import Check

HOMES = "/" + "home"  # in two parts: no file of this repository may hold such a path
SECRETS = {
    "hub token": "hf_QwErTyUiOpAsDfGhJkLz",
    "git token": "ghp_0123456789abcdefghijABCDEFGHIJ",
    "cloud key": "AKIAIOSFODNN7EXAMPLE",
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl",
    "user": "alice_the_tester",
    "host": "gpu-box-17",
    "endpoint": "models.intranet.example",
    "proxy password": "pr0xyPassw0rd",
    "mail": "alice@example.org",
}
KNOWN = Known(
    root="/srv/checkouts/lab",
    home="/data/people/alice_the_tester",
    users=("alice_the_tester",),
    hosts=("gpu-box-17",),
    secrets=("plain-looking-secret-value",),
)
POISON = (
    f"cannot read {HOMES}/somebody_else/.cache/x, {KNOWN.home}/models/m and {KNOWN.root}/runs/x as alice_the_tester on "
    f"gpu-box-17: token={SECRETS['hub token']} Authorization: Bearer {SECRETS['web token']} {SECRETS['git token']} "
    f"{SECRETS['cloud key']} http://alice_the_tester:{SECRETS['proxy password']}@proxy.corp:3128 "
    f"https://{SECRETS['endpoint']}/api?key=1 {SECRETS['mail']} git@github.com:alice_the_tester/lab.git "
    "10.11.12.13:8080 password: hunter2hunter2 plain-looking-secret-value node7.cluster.internal"
)
TEXTS = ("statement", "sentence", "reason", "lift")
PRIVATE = (
    *SECRETS.values(),
    "somebody_else",
    "/data/people",
    "/srv/checkouts",
    "proxy.corp",
    "10.11.12.13",
    "hunter2hunter2",
    "plain-looking-secret-value",
    "node7",
)


def free_texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every text a record can hold freely: found from the types, so that a new field is not forgotten."""
    if is_dataclass(value) and not isinstance(value, type):
        for name, kind in codec.hints(type(value)).items():
            if not privacy._closed(kind):
                yield from free_texts(getattr(value, name), (*path, name))
    elif isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key in value:
            yield from free_texts(value[key], (*path, key))
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from free_texts(item, (*path, index))


def planted(value: Any, path: tuple[Any, ...], text: str) -> Any:
    """A copy of `value` with `text` at `path`."""
    if not path:
        return text
    key, *rest = path
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{key: planted(getattr(value, key), tuple(rest), text)})
    if isinstance(value, dict):
        return {**value, key: planted(value[key], tuple(rest), text)}
    return tuple(planted(item, tuple(rest), text) if index == key else item for index, item in enumerate(value))


def full() -> Record:
    """A record with something in every optional text."""
    record = cpu_record()
    failed = replace(
        record.candidates[2],
        name="lost",
        probes={"dropout_random_state": {"kind": "bernoulli", "seen": ("kept", "lost")}},
        status="failed",
        failure=Failure(phase="backward", kind="RuntimeError", message="it broke", proposal="try again", round=1),
    )
    checks = (Check("python.path", "warning", "own folders", "others", "unset PYTHONPATH"),)
    runtime = replace(
        record.runtime,
        peers=(Peer(name="trl", version="1.16.0"),),
        environment={"OMP_NUM_THREADS": "2"},
        host=replace(record.runtime.host, libc="glibc 2.36"),
        cudnn="9.1",
        driver="580",
        torch_cuda="13.0",
    )
    model = replace(
        record.model,
        weights_source="local",
        requested_revision="main",
        resolved_commit="abc",
        tokenizer=replace(record.model.tokenizer, commit="abc") if record.model.tokenizer else None,
        template=replace(record.model.template, thinking_mode="off"),
    )
    return rules.graded(
        replace(
            record,
            candidates=(*record.candidates, failed),
            profile=replace(record.profile, preflight=report("TRAIN-CPU", *checks, accepted=("python.path",))),
            runtime=runtime,
            model=model,
            backend=replace(record.backend, build_options="none", engine_parameters={"mode": "plain"}),
        )
    )


def test_the_full_record_has_a_text_in_every_field_that_can_hold_one() -> None:
    unset = [
        name
        for part in (full().model, full().backend, full().runtime, full().candidates[3].failure)
        for name, kind in codec.hints(type(part)).items()
        if "str" in str(kind) and not privacy._closed(kind) and getattr(part, name) is None
    ]
    assert unset == []
    assert len(list(free_texts(full()))) > 80


def test_a_secret_in_any_free_text_is_cleaned_away() -> None:
    record = full()
    for number, path in enumerate(free_texts(record)):
        poisoned = privacy.clean(planted(record, path, POISON), KNOWN)
        told = json.dumps(poisoned.to_json())
        # identifiers of ours keep user and host names (a user may be called "torch"), nothing else
        allowed = {"alice_the_tester", "gpu-box-17"} if _identifier(path) or _said(record, path) else set()
        left = [secret for secret in PRIVATE if secret in told and secret not in allowed]
        assert left == [], (number, path)


def _identifier(path: tuple[Any, ...]) -> bool:
    return (
        (path[-1] in ("id", "profile", "registry_digest") and "preflight" in path)
        or "accepted" in path
        or path[:2] in (("source", "scope"), ("backend", "name"), ("workload", "name"), ("workload", "dtype"))
    )  # fmt: skip


def _said(record: Any, path: tuple[Any, ...]) -> bool:
    """A text that templates of ours make of arguments which hold nothing private; the code of a clause in it."""
    if path[-1] == "code" and "said" in path:
        return True
    for key in path[:-1]:
        record = getattr(record, key) if is_dataclass(record) else record[key]
        if is_dataclass(record) and getattr(record, "said", None) is not None and path[-1] in TEXTS:
            return True
    return False


def test_the_file_itself_is_clean_and_still_valid(tmp_path: Path) -> None:
    record = full()
    lost = record.candidates[3]
    assert lost.failure is not None
    record = replace(
        record,
        candidates=(*record.candidates[:3], replace(lost, failure=replace(lost.failure, message=POISON))),
        runtime=replace(record.runtime, environment={"OMP_NUM_THREADS": POISON}),
        workload=replace(record.workload, knobs={**record.workload.knobs, "peer": POISON}),
    )
    path = tmp_path / "record.json"
    written = store.write(replace(record, evidence_level=None), path, KNOWN)
    text = path.read_text(encoding="utf-8")
    assert [secret for secret in PRIVATE if secret in text] == []
    assert store.read(path) == written
    assert findings(written) == []
    assert written.workload.digest != record.workload.digest  # the digest is of what stands there


def test_cleaning_is_done_once_and_for_all() -> None:
    once = clean_text(POISON, KNOWN)
    assert clean_text(once, KNOWN) == once
    assert clean_text(once, Known()) == once


def test_a_lone_surrogate_cannot_stop_a_record_from_being_written(tmp_path: Path) -> None:
    record = full()
    lost = record.candidates[3]
    assert lost.failure is not None
    failure = replace(lost.failure, message="bad byte \udcff in a path")
    record = replace(record, candidates=(*record.candidates[:3], replace(lost, failure=failure)))
    store.write(record, tmp_path / "record.json", KNOWN)
    assert "\\\\udcff" in (tmp_path / "record.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "relative L2 error 4.7e-03 over 1.2e-03",
        "torch 2.11.0+cu130, cuDNN 9.19.0.56, driver 580.95.05, nvidia-curand 10.3.9.90",
        "https://download.pytorch.org/whl/cu128",
        "https://huggingface.co/Qwen/Qwen2.5-0.5B",
        "66,368 bytes per token = 30h + 8ff + 576",
        "python tools/install_environment_profile.py --profile TRAIN-CPU --env-name NEW_NAME",
        "one basic operation per dtype; the token embedding is tied",
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB",
        "model.layers.0.self_attn.q_proj.weight",
        "PYTHONPATH adds /opt/ros/humble/lib/python3.10/site-packages",
        "expandable_segments:True",
        "rooted at the root of the tree",
    ],
)
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert clean_text(text, Known(home="/root", users=("bob",), hosts=("box",))) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HOMES}/bob/x", "~/x"),
        ("/" + "Users/bob/x", "~/x"),
        (r"C:\Users\bob\x", r"~\x"),
        ("/" + "root/.cache", "~/.cache"),
        ("socks5://bob:pw@host:1080", "socks5:<address>"),
        ("see https://private.example/x?token=1, then", "see https:<address> then"),
        ("bob@example.org", "<address>"),
        ("password=hunter2x", "password=<secret>"),
        ("HF_TOKEN: abcdefgh", "HF_TOKEN: <secret>"),
        ("-----BEGIN RSA PRIVATE KEY-----", "<secret>"),
    ],
)
def test_private_shapes_are_replaced(text: str, expected: str) -> None:
    assert clean_text(text, Known()) == expected


def test_what_is_known_here_is_gathered_and_found() -> None:
    known = known_here()
    assert known.root == str(ROOT)
    assert known.home == os.path.expanduser("~")
    user, host = getpass.getuser(), socket.gethostname()
    assert user in known.users or user.lower() in privacy.COMMON_NAMES or len(user) < 3
    assert host in known.hosts or host.lower() in privacy.COMMON_NAMES or len(host) < 3


def test_variables_that_hold_secrets_are_secrets_wherever_their_value_turns_up() -> None:
    environ = {
        "HF_TOKEN": "abc123def456",
        "https_proxy": "http://bob:pw@10.0.0.1:3128",
        "HF_ENDPOINT": "https://mirror.example",
        "MY_API_KEY": "zzzzzzzz",
        "USER": "bob",
        "HOME": "/data/bob",
        "HOSTNAME": "node1.example",
        "SHORT_TOKEN": "abc",
    }
    known = known_here(environ)
    assert set(known.secrets) == {"abc123def456", "http://bob:pw@10.0.0.1:3128", "https://mirror.example", "zzzzzzzz"}
    assert known.users == ("bob",)
    assert known.hosts == ("node1.example", "node1")
    told = clean_text("abc123def456 zzzzzzzz https://mirror.example/x bob on node1 in /data/bob/x", known)
    assert told == "<secret> <secret> <secret>/x <user> on <host> in ~/x"


def test_a_user_called_like_a_word_of_ours_does_not_break_the_record(tmp_path: Path) -> None:
    known = Known(users=("torch", "packages", "step", "smoke", "cpu"), hosts=("experiments", "float32"))
    record = gpu_record()
    written = store.write(record, tmp_path / "record.json", known)
    assert written.evidence_level == record.evidence_level
    assert store.read(tmp_path / "record.json").source.scope == record.source.scope


def test_a_user_called_like_a_word_of_a_template_does_not_garble_the_sentence() -> None:
    sentence = say({"peaks": "{candidate} peaks{more}", "more": ": {what}"}, "peaks", candidate="a", more=[])
    record = gpu_record(decision=decision("adopt", sentence))
    assert privacy.clean(record, Known(users=("peaks",))).decision == record.decision
    cleaned = privacy.clean(record, Known(users=("peaks", "a"))).decision
    assert cleaned.sentence.startswith("<user> ")
    assert cleaned.said is not None
    assert cleaned.said.arguments["candidate"] == "<user>"


def test_the_code_of_a_clause_is_a_word_of_ours() -> None:
    inner = say({"peaks": ": {what}"}, "peaks", what="peaks")
    record = gpu_record(decision=decision("adopt", say({"outer": "it{more}"}, "outer", more=[inner])))
    said = privacy.clean(record, Known(users=("peaks",))).decision.said
    assert said is not None
    assert said.arguments == {"more": ({"code": "peaks", "arguments": {"what": "<user>"}},)}


def test_the_snapshot_keeps_allow_listed_settings_and_withholds_the_rest() -> None:
    environ = {
        "OMP_NUM_THREADS": "2",
        "CUDA_VISIBLE_DEVICES": "GPU-8f2f0a4e-1111",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "CUBLAS_WORKSPACE_CONFIG": f"{HOMES}/bob/secret file",
        "HF_TOKEN": "hf_abcdefghijkl",
        "HTTPS_PROXY": "http://bob:pw@proxy:1",
        "HOME": f"{HOMES}/bob",
    }
    assert runtime_snapshot.variables(environ) == {
        "OMP_NUM_THREADS": "2",
        "CUDA_VISIBLE_DEVICES": runtime_snapshot.WITHHELD,
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "CUBLAS_WORKSPACE_CONFIG": runtime_snapshot.WITHHELD,
    }


def test_findings_name_the_field_in_somebody_elses_record() -> None:
    record = planted(full(), ("decision", "sentence"), f"see {HOMES}/eve/notes")
    assert findings(record) == ["record.decision.sentence"]
