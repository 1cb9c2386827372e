"""The registry as it stands, and a broken one: refused with place, rule and mend, never with a traceback.

The JSON Schema beside the file and the loader must agree on every mutation but those that only the loader can see:
names that lead nowhere, files that are missing, profiles that contradict each other or the isolation table.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stages import count

from tools.environments import profile_session, strict_json
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import REGISTRY_PATH, ROOT
from tools.environments.model import Profile
from tools.environments.registry import entry_types, pep440, profile_list, registry, requirement_text
from tools.environments.registry.shape import ENTRY, NESTED
from tools.rendering import links

REGISTRY = registry.load()
DOCUMENT: dict[str, Any] = json.loads(REGISTRY_PATH.read_bytes())
SCHEMA = json.loads((ROOT / "requirements" / "environment-profiles.schema.json").read_bytes())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PROFILES = list(REGISTRY.profiles.values())

# Ids that others rely on, with the cards each asks for: none may go, any number may come.
PROMISED = {
    "BASE-CPU": 0,
    "TRAIN-CPU": 0,
    "PT-CPU": 0,
    "PERF-DELIVERY": 0,
    "INF-SERVICE-DELIVERY": 0,
    "TRAIN-CUDA-MECHANISM": 1,
    "ARCH-CUDA-MECHANISM": 1,
    "PERF-CUDA-MECHANISM": 1,
    "INF-CUDA-MECHANISM": 1,
    "PAR-CUDA-MECHANISM": 2,
    "Q-CUDA-MECHANISM": 1,
    "Q-QLORA": 1,
    "PT-SFT-CUDA": 1,
    "PT-RL-CUDA": 1,
    "PT-VERL-CUDA": 1,
    "PT-DISTILL-CUDA": 1,
    "PT-DELIVERY-CUDA": 1,
    "INF-VLLM-011-CU128": 1,
    "INF-VLLM-SPEC025": 1,
    "INF-VLLM-MTP": 1,
}
# What only the loader sees, by the rule it names.
LOADER_ONLY = [
    r"each id once",
    r"extends that ends",
    r"a template or profile that exists",
    r"the field '\w+'(, here or in what it extends)?",
    r"a topic of this registry",
    r"documents of its own for each topic",
    r"two documents of a generated topic, each written whole",
    r"a capability of the table",
    r"an id of its own for the companion",
    r"cuda130 in layer cuda alone",
    r"build cu\d+ of torch in a profile with cuda130",
    r"the torch file torch-cu\d+\.txt of a profile with cuda130",
    r"more than the [\d.e+]+ GiB that its companion saves",
    r"(experiments, not judgements|judgements, not experiments), in layer \w+",
    r"judgements named apart from experiments",
    r"each package in one family",
    r"a family of the table",
    r"the family '(torch|cuda)'",
    r"an environment of its own for each profile",
    r"experiments of several cards apart from those of one",
    r"a file that exists",
    r"torch in every layer but delivery",
    r"a (CPU|CUDA) build of torch in layer \w+",
    r"cuda [\w.]+ for build \w+",
    r"(a|no) gpu in layer \w+",
    r"tags .* in layer \w+ with \d cards",
    r"at most one capability that must be alone",
    r"exactly one backend in a serving profile",
    r"[a-z0-9_.-]+ only in layer .*",
    r"\d+ cards for .*",
    r"only what a \w+ profile with .* may hold",
    r"the backend .*, which the profile says it holds",
    r"a torch line for .*, Python .*",
    r"torch .* in build .*",
]


def test_no_promised_profile_is_gone_or_runs_elsewhere() -> None:
    assert PROMISED.items() <= {p.id: p.gpu.count if p.gpu else 0 for p in PROFILES}.items()


def test_the_profile_of_the_reference_text() -> None:
    profile = REGISTRY.get("TRAIN-CUDA-MECHANISM")
    assert profile.torch is not None
    assert (profile.torch.specifier, profile.torch.build, profile.torch.cuda) == ("==2.11.0", "cu128", "12.8")
    assert profile.gpu is not None
    assert (profile.gpu.count, profile.gpu.memory_gib, profile.gpu.driver_floor) == (1, 8, "525")
    assert profile.gpu.driver_native == "570"
    assert profile.requirements == ("torch-cu128.txt", "training-mechanism.txt")
    assert profile.python == ("3.11", "3.12")
    assert (profile.host.memory_gib, profile.host.systems) == (16, ("linux-x86_64",))
    assert profile.environment == "llm_train_mechanism_cu128"
    assert {"vllm", "sglang", "llmcompressor", "deepspeed"} <= set(profile.forbidden)
    assert REGISTRY.get("TRAIN-CPU").environment == "llm_train_cpu"


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.id)
def test_isolation_reaches_every_profile(profile: Profile) -> None:
    """A CPU profile forbids CUDA's own packages, a serving profile other backends, none what it holds itself."""
    if profile.layer in ("cpu", "delivery"):
        assert {"triton", "nvidia-cuda-runtime", "vllm", "bitsandbytes", "deepspeed"} <= set(profile.forbidden)
    if profile.layer == "delivery":
        assert "torch" in profile.forbidden
    if profile.layer != "serving":
        assert {"vllm", "sglang", "tensorrt-llm", "llama-cpp-python"} <= set(profile.forbidden)
    else:
        assert {"sglang", "tensorrt-llm", "llama-cpp-python", "trl"} <= set(profile.forbidden)
    wanted = {line.requirement.name for line in requirement_text.flatten(profile) if line.kind == "requirement"}
    assert not wanted & set(profile.forbidden)


@pytest.mark.parametrize("profile", [p for p in PROFILES if p.torch], ids=lambda profile: profile.id)
def test_the_pin_of_the_torch_file_lies_inside_the_registrys(profile: Profile) -> None:
    assert profile.torch is not None
    assert profile.requirements[0].startswith("torch-")
    lines = [line.requirement for line in requirement_text.flatten(profile) if line.requirement.name == "torch"]
    pins = [c.version for r in lines for c in r.specifier if c.operator == "==" and c.version and c.version.local]
    assert len(pins) == 1
    assert pep440.SpecifierSet(profile.torch.specifier).contains(pins[0])
    assert pins[0].local_text == profile.torch.build
    index = [line.value for line in requirement_text.options(profile) if line.option == "--extra-index-url"]
    assert profile.torch.index in index


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.id)
def test_every_required_module_comes_from_a_requirement(profile: Profile) -> None:
    """Import names are distribution names here but for one; what is imported is asked for, or what brings it is."""
    names = {line.requirement.name for line in requirement_text.flatten(profile) if line.kind == "requirement"}
    verl = {"transformers", "accelerate", "huggingface-hub", "datasets", "peft", "ray", "tensordict"}
    brought = {"rollout": verl, "vllm": {"transformers", "huggingface-hub"}}
    names |= {name for family in profile.capabilities for name in brought.get(family, set())}
    for module in profile.required_modules:
        name = {"pynvml": "nvidia-ml-py"}.get(module, module.replace("_", "-"))
        assert name in names, module


def test_every_experiment_named_has_its_folder() -> None:
    for name in {name for profile in PROFILES for name in profile.experiments} - set(profile_session.OWN_COMMANDS):
        assert list((ROOT / "experiments").glob(f"*/{name}/experiment.py")), name
    for name in {name for profile in PROFILES for name in profile.judgements}:
        there = ROOT / "experiments" / "judgements" / name
        assert there.is_dir() or there.with_suffix(".py").is_file(), name


def test_topics_are_all_used_and_their_documents_named_once() -> None:
    assert {profile.topic for profile in PROFILES} == set(REGISTRY.topics)
    quickstarts = [topic.quickstart for topic in REGISTRY.topics.values()]
    assert len(set(quickstarts)) == len(quickstarts)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.id)
def test_the_entry_links_of_a_profile_resolve(profile: Profile) -> None:
    """File and anchor, in both languages. A handwritten topic's assets come from its records and are checked there."""
    entries = [profile.docs.quickstart]
    if REGISTRY.topics[profile.topic].generated:
        entries.append(profile.docs.assets)
    for entry in entries:
        name, _, anchor = entry.partition("#")
        for path in (ROOT / name, ROOT / name.replace(".md", ".zh.md")):
            assert anchor in links.headings(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    ("driver", "profile"),
    [
        ("580.65.06", "TRAIN-CUDA130-MECHANISM"),
        ("595", "TRAIN-CUDA130-MECHANISM"),
        ("575.51", "TRAIN-CUDA-MECHANISM"),
        ("570.26", "TRAIN-CUDA-MECHANISM"),
        ("569.99", None),
        ("", None),
        ("unknown", None),
        ("580.x", "TRAIN-CUDA130-MECHANISM"),
    ],
)
def test_a_driver_hints_at_a_profile(driver: str, profile: str | None) -> None:
    assert REGISTRY.hint(REGISTRY.get("TRAIN-CUDA-MECHANISM"), driver) == profile
    assert REGISTRY.hint(REGISTRY.get("INF-VLLM-MTP"), driver) is None  # a training profile is no way out for a server


@pytest.mark.parametrize("name", ["train-cpu", "TRAIN_CPU", "TRAIN-CPUS", "\ud800", "", "x" * 500, "--help"])
def test_an_unknown_profile_is_a_usage_error_with_the_nearest_names(name: str) -> None:
    with pytest.raises(LabError) as caught:
        REGISTRY.get(name)
    assert caught.value.code == EXIT_USAGE
    assert "--list-profiles" in caught.value.next
    assert ("TRAIN-CPU" in caught.value.next) == name.upper().startswith("TRAIN")
    str(caught.value).encode()


def test_the_digest_is_of_the_content() -> None:
    shuffled = dict(reversed(DOCUMENT.items()))
    assert registry.build(shuffled).digest == REGISTRY.digest
    changed = copy.deepcopy(DOCUMENT)
    changed["profiles"][0]["title"] += "!"
    assert registry.build(changed).digest != REGISTRY.digest
    assert re.fullmatch("sha256:[0-9a-f]{64}", REGISTRY.digest)


def test_the_list_groups_every_profile_by_layer() -> None:
    text = profile_list.listing()
    assert text == profile_list.render(REGISTRY)
    rows = [line for line in text.splitlines() if line.startswith("  ")]
    listed = [row.split()[0] for row in rows]
    assert listed == [p.id for layer in profile_list.HEADINGS for p in PROFILES if p.layer == layer]
    assert [line for line in text.splitlines() if line and not line.startswith(" ")] == list(
        profile_list.HEADINGS.values()
    )
    assert "2+ GPUs" in next(row for row in rows if "PAR-CUDA-MECHANISM" in row)


def checkout(folder: Path) -> Path:
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    return folder


def test_a_missing_registry_says_how_to_get_it_back(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"git checkout -- requirements/environment-profiles\.json"):
        registry.load(tmp_path)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b'{"a":1,"a":1}', b"[" * 99999, b"\xef\xbb\xbf{}", b"{NaN}"])
def test_a_file_that_is_no_registry(tmp_path: Path, text: bytes) -> None:
    (checkout(tmp_path) / "requirements" / REGISTRY_PATH.name).write_bytes(text)
    with pytest.raises(LabError, match=r"environment-profiles\.json"):
        registry.load(tmp_path)
    with pytest.raises(LabError):
        profile_list.listing(tmp_path)


def test_types_shapes_and_schema_name_the_same_fields() -> None:
    complete = {name for name, of in entry_types.RegistryEntry.__annotations__.items() if "NotRequired" not in str(of)}
    assert complete == {*ENTRY, "id"} - {"extends"}
    written = set(SCHEMA["properties"]["profiles"]["items"]["properties"]) - {"extends"}
    assert set(entry_types.RegistryEntry.__annotations__) == written | {"companion_of"}
    assert set(entry_types.BuildEntry.__annotations__) == set(SCHEMA["$defs"]["companion"]["properties"])
    for name, of in (("torch", "TorchEntry"), ("gpu", "GpuEntry"), ("host", "HostEntry")):
        assert set(getattr(entry_types, of).__annotations__) == set(NESTED[name])
        assert list(SCHEMA["$defs"][name]["properties"]) == list(NESTED[name])
    assert list(SCHEMA["$defs"]["templateEntry"]["properties"]) == list(ENTRY)
    assert set(entry_types.Document.__annotations__) == set(SCHEMA["properties"]) - {"$schema"}


def test_the_registry_passes_its_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    VALIDATOR.validate(DOCUMENT)


def refusal(document: object) -> LabError | None:
    """Why the loader refuses a document, or None."""
    try:
        registry.build(document)
    except LabError as error:
        return error
    return None


def agree(document: object) -> None:
    """Both accept or both refuse; or the loader alone, for a rule that only it can see."""
    error, valid = refusal(document), VALIDATOR.is_valid(document)
    if error is None:
        assert valid, next(VALIDATOR.iter_errors(document)).message
        return
    assert error.where.startswith("requirements/")
    assert error.found
    assert error.next
    str(error).encode()
    if valid:
        assert any(re.fullmatch(rule, error.wanted) for rule in LOADER_ONLY), str(error)


def paths(value: object, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(path for key, child in children for path in paths(child, (*above, key)))]


PATHS = [path for path in paths(DOCUMENT) if path]
SPECIAL = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1.0,
    2.0,
    0.5,
    2**53,
    "",
    "x",
    "TRAIN-CPU",
    "cpu\n",
    "é",
    [],
    [[]],
    {},
    {"a": 1},
    ["torch"],
]
VALUES = st.sampled_from(SPECIAL) | st.text(max_size=5) | st.integers(-3, 3) | st.floats(-3, 3)


def mutate(path: tuple[str | int, ...], change: Callable[[Any, Any], None]) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    change(parent, path[-1])
    return document


def twice(parent: Any, key: Any) -> None:
    if isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    else:
        parent["extra_" + str(key)] = parent[key]


@settings(max_examples=count(700), deadline=None)
@given(st.sampled_from(PATHS), st.sampled_from(["replace", "remove", "twice"]), VALUES)
def test_schema_and_loader_agree_on_mutations(path: tuple[str | int, ...], kind: str, value: object) -> None:
    changes: dict[str, Callable[[Any, Any], None]] = {
        "replace": lambda parent, key: parent.__setitem__(key, value),
        "remove": lambda parent, key: parent.__delitem__(key),
        "twice": twice,
    }
    agree(mutate(path, changes[kind]))


@pytest.mark.parametrize("key", sorted({path[-1] for path in PATHS if isinstance(path[-1], str)}))
@pytest.mark.parametrize("value", [None, 1, "", [], {}, "a\n", True])
def test_schema_and_loader_agree_on_every_field_with_the_usual_suspects(key: str, value: object) -> None:
    path = next(path for path in PATHS if path[-1] == key)
    agree(mutate(path, lambda parent, name: parent.__setitem__(name, value)))


@settings(max_examples=count(300), deadline=None)
@given(
    st.text(alphabet="=!<>~0123456789.,* \n", max_size=14)
    | st.sampled_from(
        ["==2.", "~=2", "==2..1", "=="],
    )
)
def test_schema_and_loader_agree_on_specifiers(specifier: str) -> None:
    agree(mutate(("templates", "cpu", "torch", "specifier"), lambda parent, key: parent.__setitem__(key, specifier)))


ANY_JSON = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*DOCUMENT, "id", "a"]), inner, max_size=5)
    ),
    max_leaves=10,
)


@settings(max_examples=count(400), deadline=None)
@given(ANY_JSON)
def test_any_json_is_refused_not_crashed_on(value: object) -> None:
    agree(value)


@settings(max_examples=count(200), deadline=None)
@given(st.integers(0, 20_000), st.binary(max_size=4), st.integers(0, 4))
def test_a_registry_with_torn_bytes_is_read_or_refused(place: int, put: bytes, cut: int) -> None:
    data = REGISTRY_PATH.read_bytes()
    torn = data[:place] + put + data[place + cut :]
    try:
        registry.build(strict_json.loads(torn, "x"))
    except LabError as error:
        str(error).encode()
    else:
        VALIDATOR.validate(json.loads(torn))
