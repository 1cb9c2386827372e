"""Links and generated parts of the documents: on small samples with known faults, then on the checkout itself."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sample_records

from experiments.evidence import store
from tools.environments.layout import ROOT
from tools.environments.registry import registry
from tools.rendering import __main__ as command
from tools.rendering import blocks, links, profile_tables, result_parts, topic_pages


@pytest.fixture
def known() -> registry.Registry:
    return registry.load(ROOT)


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_each_kind_of_dead_link_is_found_by_line(tmp_path: Path) -> None:
    write(tmp_path, "b.md", "# Real heading\n")
    text = "\n".join(
        [
            "[ok](b.md) [ok](b.md#real-heading) [ok](/b.md) [ok](#top) [web](https://example.org/none) <a id='x'>",
            "# Top",
            "[gone](c.md)",
            "[anchor](b.md#other) and ![picture](none.png 'title')",
            "[outside](../../etc/passwd)",
            "[self](#nowhere)",
            "`[code](none.md)` ``[more`](none.md)``",
            "```",
            "[fenced](none.md)",
            "```",
            "[ref]: none.md",
            "[![nested](b.md)](gone.md)",
        ]
    )
    found = links.check([write(tmp_path, "a.md", text)], tmp_path)
    assert [(finding.line, finding.message.partition("link to ")[2]) for finding in found] == [
        (3, "c.md: no such file"),
        (4, "b.md#other: no such heading"),
        (4, "none.png: no such file"),
        (5, "../../etc/passwd: outside the repository"),
        (6, "#nowhere: no such heading"),
        (11, "none.md: no such file"),
        (12, "gone.md: no such file"),
    ]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("## TRAIN-CPU", "train-cpu"),
        ("# A `code` and [a link](x.md)!", "a-code-and-a-link"),
        ("## Profile 一览", "profile-一览"),
        ("### What it says, and why ###", "what-it-says-and-why"),
        ("## snake_case — dash", "snake_case--dash"),
        ('<a id="Given"></a>', "Given"),
    ],
)
def test_anchors_are_those_github_makes(heading: str, anchor: str) -> None:
    assert links.headings(f"text\n\n{heading}\n") == {anchor}


def test_repeated_headings_are_numbered_and_code_has_none() -> None:
    assert links.headings("# A\n# A\n~~~\n# B\n~~~\n# A\n") == {"a", "a-1", "a-2"}


def test_a_part_is_replaced_and_all_else_kept(tmp_path: Path) -> None:
    text = "before\n<!-- begin: n x y -->\nold\nolder\n<!-- end: n x y -->\nafter\n<!-- begin: n -->\n<!-- end: n -->\n"
    renewed, findings = blocks.renewed(tmp_path / "a.md", text, {"n": lambda arguments, path: f"new {arguments}"})
    assert findings == []
    assert renewed == (
        "before\n<!-- begin: n x y -->\nnew ('x', 'y')\n<!-- end: n x y -->\nafter\n"
        "<!-- begin: n -->\nnew ()\n<!-- end: n -->\n"
    )
    assert blocks.renewed(tmp_path / "a.md", renewed, {"n": lambda arguments, path: f"new {arguments}"})[0] == renewed


def test_a_part_that_cannot_be_made_is_a_finding_and_left_as_it_is(tmp_path: Path) -> None:
    def refuse(arguments: tuple[str, ...], path: Path) -> str:
        raise ValueError("wants a profile")

    text = "\n".join(
        [
            "<!-- begin: unknown -->",
            "kept",
            "<!-- end: unknown -->",
            "<!-- begin: refused -->",
            "kept",
            "<!-- end: refused -->",
            "<!-- begin: open -->",
            "```",
            "<!-- begin: in code -->",
            "```",
        ]
    )
    renewed, findings = blocks.renewed(tmp_path / "a.md", text, {"refused": refuse})
    assert renewed == text + "\n"
    assert sorted((finding.line, finding.message.split(";")[0]) for finding in findings) == [
        (1, "nothing generates 'unknown'"),
        (4, "wants a profile"),
        (7, "this part is not closed by <!-- end: open -->"),
    ]


def test_drift_is_told_by_line(tmp_path: Path) -> None:
    found = blocks.drift(tmp_path / "a.md", "1\n2\n3\n4\n", "1\nII\n3\n4\n5\n", "mend it")
    assert [(finding.line, finding.message) for finding in found] == [
        (2, "this differs from registry or records; mend it"),
        (5, "this differs from registry or records; mend it"),
    ]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_index_names_every_profile_once_and_links_its_entries(
    known: registry.Registry, lang: blocks.Language
) -> None:
    path = ROOT / "docs" / ("guide.zh.md" if lang == "zh" else "guide.md")
    text = profile_tables.index(known, path, ROOT)
    for profile in known.profiles.values():
        (row,) = [line for line in text.splitlines() if f"`{profile.id}`" in line.split(" | ")[0]]
        assert (profile.purpose_zh if lang == "zh" else profile.purpose) in row
        assert f"#{profile.id.lower()}" in row


def test_the_choice_shows_what_it_costs(known: registry.Registry) -> None:
    text = profile_tables.choice(known, "en")
    for profile in known.profiles.values():
        row = next((line for line in text.splitlines() if f"`{profile.id}`" in line), None)
        assert (row is not None) == bool(profile.experiments)
        if row is not None:
            assert f"| {profile.host.download_gib:g} GiB | {profile.host.disk_gib:g} GiB |" in row


def test_facts_want_one_profile(known: registry.Registry) -> None:
    text = profile_tables.facts(known, ["TRAIN-CUDA-MECHANISM"], "en")
    assert "driver 570" in text
    assert "requirements/torch-cu128.txt" in text
    for wrong in ([], ["NO-SUCH"], ["TRAIN-CPU", "BASE-CPU"]):
        with pytest.raises(ValueError, match="one profile id"):
            profile_tables.facts(known, wrong, "zh")


def test_a_bar_in_a_cell_does_not_break_a_table() -> None:
    assert profile_tables.table(["a"], [["x | y"]]).splitlines()[-1] == "| x \\| y |"


def test_generated_pages_tell_how_to_make_each_profile(known: registry.Registry) -> None:
    pages = topic_pages.pages(known, ROOT)
    for profile in known.profiles.values():
        if not known.topics[profile.topic].generated:
            continue
        page = pages[ROOT / profile.docs.quickstart.partition("#")[0]]
        assert f"## {profile.id}\n" in page
        assert f"--profile {profile.id} --env-name {profile.environment}" in page


def sample(root: Path) -> None:
    """A checkout with the real registry and one document that is behind it."""
    for path in (ROOT / "requirements").rglob("*"):
        if path.is_file():
            write(root, str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    write(root, "docs/a.md", "<!-- begin: profile-choice -->\nold\n<!-- end: profile-choice -->\n[gone](gone.md)\n")


def test_check_tells_and_sync_mends(tmp_path: Path) -> None:
    sample(tmp_path)
    before = command.check(tmp_path, with_links=False)
    assert any(finding.path.name == "a.md" and finding.line == 2 for finding in before)
    assert any("is missing" in finding.message for finding in before)
    written, findings = command.sync(tmp_path)
    assert tmp_path / "docs" / "a.md" in written
    assert findings == []
    assert command.check(tmp_path, with_links=False) == []
    assert command.sync(tmp_path) == ([], [])
    assert [finding.line for finding in command.check(tmp_path, with_links=True) if finding.path.name == "a.md"] == [
        len((tmp_path / "docs" / "a.md").read_text().splitlines())
    ]


def test_a_page_written_by_hand_is_never_replaced_by_a_generated_one(tmp_path: Path) -> None:
    sample(tmp_path)
    page = write(tmp_path, "docs/quantization/experiment_assets.md", "# Mine\n")
    for _ in range(2):
        found = [finding for finding in command.sync(tmp_path)[1] if finding.path == page]
        assert [finding.message for finding in found] == [command.BY_HAND]
        assert page.read_text() == "# Mine\n"
    assert command.BY_HAND in {finding.message for finding in command.check(tmp_path, with_links=False)}
    assert topic_pages.NOTE in page.with_name("experiment_assets.zh.md").read_text()


def test_a_generated_asset_page_has_a_row_for_each_experiment_of_each_profile(tmp_path: Path) -> None:
    sample(tmp_path)
    command.sync(tmp_path)
    text = (tmp_path / "docs" / "quantization" / "experiment_assets.md").read_text()
    for profile in ("Q-CUDA-MECHANISM", "Q-CUDA130-MECHANISM"):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{profile}` | `int8_weight_product` |")]
        assert "not measured" in row
        assert row.split(" | ")[2]  # its workloads


def test_the_rows_of_a_profile_want_one(known: registry.Registry, tmp_path: Path) -> None:
    makers = result_parts.makers(known, tmp_path)
    for wrong in ((), ("NO-SUCH",), ("TRAIN-CPU", "Q-CUDA-MECHANISM")):
        with pytest.raises(ValueError, match="wants a profile"):
            makers["profile-results"](wrong, tmp_path / "a.md")


def test_the_documents_of_this_checkout_hold() -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tools.rendering", "check", "--links"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (child.returncode, child.stdout) == (0, "ok       documents agree with registry and records\n")


def test_a_result_comes_from_the_newest_record_of_that_very_profile(known: registry.Registry, tmp_path: Path) -> None:
    """Held against a real record where the checkout has one; without any, the words say so."""
    makers = result_parts.makers(known, tmp_path)  # a checkout without results
    page = tmp_path / "docs" / "a.md"
    arguments = ("mixed_precision_backward", "TRAIN-CPU")
    assert makers["result"](arguments, page) == "not measured: `mixed_precision_backward`, `TRAIN-CPU`"
    assert makers["result"](arguments, page.with_name("a.zh.md")).startswith("未测量")
    for wrong in ((), ("no_such_experiment", "TRAIN-CPU"), ("mixed_precision_backward",)):
        with pytest.raises(ValueError, match="an experiment and a profile"):
            makers["result"](wrong, page)


def test_the_rows_of_a_topic_name_every_workload_and_fill_none_from_elsewhere(
    known: registry.Registry, tmp_path: Path
) -> None:
    makers = result_parts.makers(known, tmp_path)
    lines = makers["result-index"](("training_mechanism",), tmp_path / "a.md").splitlines()[2:]
    profiles = [profile for profile in known.profiles.values() if profile.topic == "training_mechanism"]
    assert {line.split(" | ")[0].strip("| `") for line in lines} == {p.id for p in profiles if p.experiments}
    assert all("not measured" in line for line in lines)
    with pytest.raises(ValueError, match="one of"):
        makers["result-index"](("no_such_topic",), tmp_path / "a.md")


def test_a_committed_record_is_shown_with_its_link(known: registry.Registry, tmp_path: Path) -> None:
    record = sample_records.cpu_record()
    identity = replace(record.identity, experiment="mixed_precision_backward")
    record = replace(record, identity=identity)
    target = tmp_path / "experiments" / "results" / record.identity.experiment / f"{record.identity.run_label}.json"
    target.parent.mkdir(parents=True)
    store.write(record, target)
    text = result_parts.makers(known, tmp_path)["result"](
        ("mixed_precision_backward", record.profile.id), tmp_path / "docs" / "a.md"
    )
    assert f"[{record.identity.run_label}](../experiments/results/" in text
    assert record.candidates[0].name in text
