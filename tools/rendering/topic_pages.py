"""Whole pages of the topics that have no handwritten ones: a quickstart and an asset page, in both languages.

They exist so that the entry links of every profile lead somewhere true: how to make the environment, and that nothing
was measured there yet. A topic gets handwritten pages by setting `generated` to false in the registry.
"""

from __future__ import annotations

from pathlib import Path

from tools.environments.model import Profile
from tools.environments.registry.registry import Registry, Topic
from tools.rendering.blocks import Language
from tools.rendering.profile_tables import facts

NOTE = "<!-- Generated from requirements/environment-profiles.json by `invoke assets.sync`: edits here are lost. -->"
LANGUAGES: tuple[Language, ...] = ("en", "zh")


def pages(registry: Registry, root: Path) -> dict[Path, str]:
    """Path and text of every generated page; what comes from records is a generated part in it, and still empty."""
    made: dict[Path, str] = {}
    for topic in registry.topics.values():
        if not topic.generated:
            continue
        members = [profile for profile in registry.profiles.values() if profile.topic == topic.name]
        for lang in LANGUAGES:
            made[root / _twin(topic.quickstart, lang)] = _quickstart(registry, topic, members, lang)
            made[root / _twin(topic.assets, lang)] = _assets(registry, topic, members, lang)
    return made


def _quickstart(registry: Registry, topic: Topic, members: list[Profile], lang: Language) -> str:
    title = {"en": f"# {topic.title}: quickstart", "zh": f"# {topic.title_zh} Quickstart"}[lang]
    opening = {
        "en": "How the environments of this topic are made and re-entered. Run every command from the repository root.",
        "zh": "本页说明如何创建与重新进入这一专题的环境。所有命令都在仓库根目录执行。",
    }[lang]
    parts = [title, _header(topic, topic.quickstart, topic.assets, lang), opening]
    for profile in members:
        parts += [
            f"## {profile.id}",
            _purpose(profile, lang),
            facts(registry, [profile.id], lang),
            _commands(profile, lang),
        ]
    return "\n\n".join(parts) + "\n"


def _assets(registry: Registry, topic: Topic, members: list[Profile], lang: Language) -> str:
    title = {"en": f"# {topic.title}: experiment assets", "zh": f"# {topic.title_zh}：实验资产"}[lang]
    parts = [title, _header(topic, topic.assets, topic.quickstart, lang)]
    nothing = {
        "en": "No experiment is registered for this profile yet; it provides the environment only. Not measured.",
        "zh": "该 Profile 还没有登记实验：目前只提供环境。未测量。",
    }[lang]
    unjudged = {
        "en": "No judgement is registered for this profile yet; it provides the environment only. It measures nothing.",
        "zh": "该 Profile 还没有登记判断：目前只提供环境。它不做测量。",
    }[lang]
    for profile in members:
        listed = "\n".join(f"- `{name}`" for name in profile.judgements)
        if profile.experiments:
            part = f"profile-results {profile.id} -->"
            listed = f"<!-- begin: {part}\n<!-- end: {part}"
        none = unjudged if profile.layer == "delivery" else nothing
        parts += [f"## {profile.id}", _purpose(profile, lang), listed or none]
    return "\n\n".join(parts) + "\n"


def _header(topic: Topic, this: str, other: str, lang: Language) -> str:
    here = Path(_twin(this, lang)).parent
    depth = "../" * len(here.relative_to("docs").parts)
    twin, guide = Path(_twin(this, "zh" if lang == "en" else "en")).name, f"{depth}guide.md"
    beside = Path(_twin(other, lang)).name
    words = {"en": ("中文", "guide"), "zh": ("English", "使用指南")}[lang]
    second = {
        ("en", True): "experiment assets",
        ("en", False): "quickstart",
        ("zh", True): "实验资产",
        ("zh", False): "Quickstart",
    }[(lang, this == topic.quickstart)]
    return f"{NOTE}\n\n[{words[0]}]({twin}) · [{second}]({beside}) · [{words[1]}]({_twin(guide, lang)})"


def _commands(profile: Profile, lang: Language) -> str:
    name = profile.environment
    install = f"python tools/install_environment_profile.py --profile {profile.id} --env-name {name}"
    kernel = f'python -m ipykernel install --user --name {name} --display-name "Python ({name})"'
    words = {
        "en": (
            "Everything in one go, on a machine with nothing but Python:",
            "Or the environment alone; its last lines say how to activate it:",
            "In the activated environment, now and at every later start:",
        ),
        "zh": (
            "一条命令完成全部步骤（机器上只需有 Python）：",
            "或只创建环境，最后几行给出激活方式：",
            "激活环境之后，首次与以后每次：",
        ),
    }[lang]
    check = "python tools/register_notebook_runtime.py --check\n"
    check += f"python tools/environment_preflight.py --profile {profile.id}"
    return "\n\n".join(
        [
            f"{words[0]}\n\n```bash\npython3 tools/bootstrap.py nox -s {profile.id}\n```",
            f"{words[1]}\n\n```bash\n{install}\n```",
            f"{words[2]}\n\n```bash\n{check}\n{kernel}\npython -m jupyter lab\n```",
        ]
    )


def _purpose(profile: Profile, lang: Language) -> str:
    return profile.purpose_zh if lang == "zh" else profile.purpose


def _twin(path: str, lang: Language) -> str:
    return path.removesuffix(".md") + ".zh.md" if lang == "zh" else path
