"""`python -m tools.rendering sync | check [--links] | release VERSION`: renew what is generated, say by line what no
longer holds, or put the changelog's fragments together."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.containers import cnb_text, image_text
from tools.environments import command_line
from tools.environments.errors import EXIT_BLOCKED, EXIT_OK, LabError, render
from tools.environments.layout import ROOT
from tools.environments.registry import registry
from tools.rendering import (
    blocks,
    changelog,
    contract_parts,
    fault_parts,
    links,
    profile_tables,
    result_parts,
    template_parts,
    topic_pages,
)
from tools.rendering.document_finding import Finding

MEND = "run: invoke assets.sync"
BY_HAND = 'written by hand, and "generated": true of its topic would replace it: take that out, or move the page away'
_NOT_OURS = {".git", ".nox", ".envs", ".venv", "runs", "node_modules", "build"}


def documents(root: Path) -> Iterator[Path]:
    """Every Markdown file of the checkout, in order; environments, runs and caches are not searched."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _NOT_OURS and not name.endswith("_cache"))
        yield from (Path(folder) / name for name in sorted(files) if name.endswith(".md"))


def wanted(root: Path) -> tuple[dict[Path, str], list[Finding]]:
    """The text that each document with a generated part should have, and what is wrong with the parts themselves."""
    known = registry.load(root)
    makers = profile_tables.makers(known, root) | result_parts.makers(known, root) | contract_parts.makers()
    makers |= fault_parts.makers(root) | template_parts.makers(root)
    texts: dict[Path, str] = image_text.files(known, root) | cnb_text.files(known, root)
    findings: list[Finding] = []
    for path, text in topic_pages.pages(known, root).items():
        if path.exists() and topic_pages.NOTE not in path.read_text(encoding="utf-8"):
            findings.append(Finding(path, 1, BY_HAND))
            continue
        renewed, wrong = blocks.renewed(path, text, makers)
        if not wrong:
            texts[path] = renewed
        elif not path.exists():
            findings += wrong  # of a page that is there the loop below says it, by the page's own lines
    for path in documents(root):
        if path in texts:
            continue
        text = path.read_text(encoding="utf-8")
        renewed, wrong = blocks.renewed(path, text, makers)
        findings += wrong
        if blocks.parts(path, text)[0]:
            texts[path] = renewed
    return texts, findings


def check(root: Path, *, with_links: bool) -> list[Finding]:
    """All that no longer holds, in the order of files and lines."""
    texts, findings = wanted(root)
    findings += changelog.check(root)
    for path, text in texts.items():
        if not path.exists():
            findings.append(Finding(path, 1, f"this page is missing; {MEND}"))
            continue
        findings += blocks.drift(path, path.read_text(encoding="utf-8"), text, MEND)
    if with_links:
        findings += links.check(documents(root), root)
    return sorted(findings)


def sync(root: Path) -> tuple[list[Path], list[Finding]]:
    """Write what differs; the files written, and what could not be mended that way."""
    written: dict[Path, None] = {}
    while True:  # one file may be made from another that was just written: twice for that, and once to see the end
        texts, findings = wanted(root)
        behind = {p: text for p, text in texts.items() if not p.exists() or p.read_text(encoding="utf-8") != text}
        for path, text in behind.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if not set(behind) - set(written):
            return list(written), findings
        written.update(dict.fromkeys(behind))


def main(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    command = argparse.ArgumentParser(prog="python -m tools.rendering", description=__doc__)
    actions = command.add_subparsers(dest="action", required=True)
    actions.add_parser("sync", help="renew the generated parts")
    checking = actions.add_parser("check", help="say by line what no longer holds")
    checking.add_argument("--links", action="store_true", help="follow relative links and anchors too")
    releasing = actions.add_parser("release", help="put the changelog's fragments under a version")
    releasing.add_argument("version")
    releasing.add_argument("--date", default=datetime.date.today().isoformat(), help="YYYY-MM-DD, today by default")
    options = command.parse_args(arguments)
    try:
        if options.action == "release":
            print(f"renewed  {changelog.release(ROOT, options.version, options.date).relative_to(ROOT)}")
            return EXIT_OK
        if options.action == "sync":
            written, findings = sync(ROOT)
            for path in written:
                print(f"renewed  {path.relative_to(ROOT)}")
        else:
            findings = check(ROOT, with_links=options.links)
    except LabError as error:
        print(render(error), file=sys.stderr)
        return error.code
    for finding in findings:
        print(finding.to_text(ROOT))
    if not findings:
        print("ok       documents agree with registry and records")
    return EXIT_BLOCKED if findings else EXIT_OK


if __name__ == "__main__":
    sys.exit(command_line.run(main))
