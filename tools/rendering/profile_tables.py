"""Tables of profiles, from the registry: which one a reader needs, and all of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.environments.model import Layer, Profile
from tools.environments.registry.registry import Registry
from tools.rendering import links
from tools.rendering.blocks import Language, Maker, language

_HEADS: Mapping[str, Mapping[Language, tuple[str, ...]]] = {
    "choice": {
        "en": ("you have", "take", "for", "downloads", "on disk", "time"),
        "zh": ("你有", "选", "用途", "下载量", "占用磁盘", "用时"),
    },
    "index": {
        "en": ("profile", "for", "needs", "entries"),
        "zh": ("Profile", "用途", "需要", "入口"),
    },
}
_LAYERS: Mapping[Layer, Mapping[Language, str]] = {
    "cpu": {"en": "CPU environments", "zh": "CPU 环境"},
    "delivery": {"en": "Delivery judgements, without torch", "zh": "交付判断（不含 torch）"},
    "cuda": {"en": "CUDA mechanisms and training", "zh": "CUDA 机制与训练"},
    "serving": {"en": "Serving backends, each alone", "zh": "独立推理后端"},
}
_ENTRIES: Mapping[Language, tuple[str, str, str]] = {
    "en": ("quickstart", "assets", "guide"),
    "zh": ("Quickstart", "实验资产", "使用指南"),
}


def makers(registry: Registry, root: Path) -> dict[str, Maker]:
    """The generated parts of this module, by name; links are made for documents below `root`."""
    return {
        "profile-choice": lambda arguments, path: choice(registry, language(path), arguments),
        "profile-anchors": lambda arguments, path: anchors(registry, arguments, path),
        "profile-index": lambda arguments, path: index(registry, path, root),
        "profile-facts": lambda arguments, path: facts(registry, arguments, language(path)),
    }


def choice(registry: Registry, lang: Language, arguments: Sequence[str] = ()) -> str:
    """What a reader has, which profile to take, what for, what it costs: of `TOPIC` every profile, else those of all
    topics that have an experiment today. ValueError for a topic that the registry lacks."""
    topic = _topic(registry, arguments, "profile-choice") if arguments else None
    rows = [
        (needs(profile, lang), f"`{profile.id}`", _purpose(profile, lang), *cost(profile, lang))
        for profile in registry.profiles.values()
        if (profile.topic == topic if topic else profile.experiments)
    ]
    return table(_HEADS["choice"][lang], rows)


def anchors(registry: Registry, arguments: Sequence[str], path: Path) -> str:
    """Where the entry links of a topic's profiles lead in a handwritten document, for those without a heading there."""
    topic = _topic(registry, arguments, "profile-anchors")
    titled = links.titled(path.read_text(encoding="utf-8")) if path.exists() else frozenset()
    names = (profile.id.lower() for profile in registry.profiles.values() if profile.topic == topic)
    return "\n".join(f'<a id="{name}"></a>' for name in names if name not in titled)


def _topic(registry: Registry, arguments: Sequence[str], part: str) -> str:
    if len(arguments) != 1 or arguments[0] not in registry.topics:
        raise ValueError(f"{part} wants a topic, one of {', '.join(registry.topics)}")
    return arguments[0]


def index(registry: Registry, path: Path, root: Path) -> str:
    """Every profile, one table per layer, with links from the document at `path` to its two entries."""
    lang = language(path)
    sections = []
    for layer, title in _LAYERS.items():
        members = [profile for profile in registry.profiles.values() if profile.layer == layer]
        rows = [
            (_name(p, path, root, lang), _purpose(p, lang), needs(p, lang), entries(p, path, root, lang))
            for p in members
        ]
        if rows:
            sections.append(f"**{title[lang]}**\n\n{table(_HEADS['index'][lang], rows)}")
    return "\n\n".join(sections)


def facts(registry: Registry, arguments: Sequence[str], lang: Language) -> str:
    """What one profile demands, as a list. ValueError for a name that is no profile."""
    if len(arguments) != 1 or arguments[0] not in registry.profiles:
        raise ValueError(f"profile-facts wants one profile id, found {' '.join(arguments) or 'nothing'}")
    profile = registry.profiles[arguments[0]]
    download, disk, minutes = cost(profile, lang)
    files = ", ".join(f"`requirements/{name}`" for name in profile.requirements)
    torch = f"{profile.torch.specifier.removeprefix('==')} {profile.torch.build}" if profile.torch else "-"
    words = {
        "en": ("needs", "torch", "installs", "costs", "environment", "experiments", "none yet: environment only"),
        "zh": ("需要", "torch", "安装", "代价", "环境名", "实验", "暂无：只提供环境"),
    }[lang]
    if profile.layer == "delivery":
        words = (*words[:5], {"en": "judgements", "zh": "判断"}[lang], words[6])
    names = ", ".join(f"`{name}`" for name in (*profile.experiments, *profile.judgements)) or words[6]
    values = (needs(profile, lang), torch, files, f"{download}, {disk}, {minutes}", f"`{profile.environment}`", names)
    return "\n".join(f"- {word}: {value}" for word, value in zip(words, values, strict=False))


def needs(profile: Profile, lang: Language) -> str:
    """The machine a profile asks for, in one phrase."""
    python = (" or " if lang == "en" else " 或 ").join(profile.python)
    if profile.gpu is None:
        memory = profile.host.memory_gib
        return {
            "en": f"Python {python}, {memory:g} GiB of memory, no GPU",
            "zh": f"Python {python}，{memory:g} GiB 内存，不需要 GPU",
        }[lang]
    gpu = profile.gpu
    return {
        "en": f"{gpu.count} NVIDIA card{'s' if gpu.count > 1 else ''} of {gpu.memory_gib:g} GiB or more, "
        f"driver {gpu.driver_native} or newer, Python {python}",
        "zh": f"{gpu.count} 张不少于 {gpu.memory_gib:g} GiB 的 NVIDIA 卡，"
        f"驱动 {gpu.driver_native} 及以上，Python {python}",
    }[lang]


def cost(profile: Profile, lang: Language) -> tuple[str, str, str]:
    """Download, disk and minutes, as registered: shown again by the installer before anything is downloaded."""
    host = profile.host
    minutes = host.minutes.replace("-", "–")
    return f"{host.download_gib:g} GiB", f"{host.disk_gib:g} GiB", f"{minutes} {'min' if lang == 'en' else '分钟'}"


def entries(profile: Profile, path: Path, root: Path, lang: Language) -> str:
    """Links from the document at `path` to the profile's quickstart and assets, in its language."""
    quickstart, assets, guide = _ENTRIES[lang]
    named = [(quickstart, profile.docs.quickstart), (assets, profile.docs.assets)]
    if profile.docs.quickstart == profile.docs.assets:
        named = [(guide, profile.docs.quickstart)]
    return " · ".join(f"[{name}]({relative(target, path, root, lang)})" for name, target in named)


def relative(target: str, path: Path, root: Path, lang: Language) -> str:
    """A target given from the repository root, as a link in the document at `path`."""
    file, _, anchor = target.partition("#")
    twin = file.removesuffix(".md") + ".zh.md" if lang == "zh" else file
    link = os.path.relpath(root / twin, path.parent)
    return f"{link}#{anchor}" if anchor else link


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _name(profile: Profile, path: Path, root: Path, lang: Language) -> str:
    """The id, as an anchor where this very document is where the profile's own links lead."""
    file, _, anchor = relative(profile.docs.quickstart, path, root, lang).partition("#")
    return f'<a id="{anchor}"></a>`{profile.id}`' if file == path.name else f"`{profile.id}`"


def _purpose(profile: Profile, lang: Language) -> str:
    return profile.purpose_zh if lang == "zh" else profile.purpose
