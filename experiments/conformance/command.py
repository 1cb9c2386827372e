"""The command line of the conformance run: which topic's pages, in which profile, what they found, one record.

The order is the point: the command line is judged first, then the environment, and only then is torch imported. The
record is written at the end and whole; a run that is interrupted leaves none.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from experiments.conformance import catalogue, conformance_record, page_choice, page_files
from experiments.evidence import labels, store
from experiments.evidence.subject import ProfileFacts
from experiments.harness.measured_workload import check_seed
from tools.environments.errors import EXIT_BLOCKED, EXIT_INTERRUPTED, EXIT_OK, LabError, render
from tools.environments.layout import ROOT
from tools.environments.machine.host_facts import cores
from tools.environments.model import Profile, Report
from tools.environments.registry import registry as registries
from tools.environments.registry import requirement_text
from tools.environments.registry.registry import Registry

PROGRAM = "python tools/test_framework_conformance.py"

Preflight = Callable[[Profile, Registry, Sequence[str]], Report]


def main(arguments: Sequence[str], preflight: Preflight | None = None) -> int:
    """Run the command line; returns its exit code. `preflight` stands in for the real one in tests."""
    try:
        options = _parser().parse_args(list(arguments))
        return _run(options, preflight or _quick)
    except LabError as error:
        print(render(error), file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("interrupted: no record was written", file=sys.stderr)
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Check the hand-written mechanisms against frameworks.")
    topics = ", ".join(topic.name for topic in catalogue.topics())
    parser.add_argument(
        "--topic", metavar="T", help=f"whose pages: {topics} (default: the profile's topic, or the only one with pages)"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", "--all-part02", action="store_true", help="all pages of the topic, as without --page")
    which.add_argument(
        "--page",
        metavar="ID",
        action="append",
        default=[],
        help=f"one page; may be repeated: {', '.join(catalogue.ids())}",
    )
    parser.add_argument("--profile", metavar="ID", help="the profile this runs in (default: the topic's first)")
    parser.add_argument("--require-passed", action="store_true", help="anything but passed fails")
    parser.add_argument("--json", action="store_true", help="only JSON on stdout")
    parser.add_argument("--run-label", metavar="LABEL", help="label of the record; used once")
    parser.add_argument("--seed", type=int, default=conformance_record.SEED, help="seed of the drawn cases")
    parser.add_argument("--no-mutants", action="store_true", help="leave the faults out")
    parser.add_argument("--accept", metavar="CHECK", action="append", default=[], help="accept a warning by name")
    parser.add_argument(
        "--try-here", action="store_true", help="hold against whatever is installed here, a new release say; no record"
    )
    return parser


def _run(options: argparse.Namespace, preflight: Preflight) -> int:
    began, started = datetime.now(UTC), time.perf_counter()
    check_seed(options.seed)
    label = options.run_label or began.strftime("%Y-%m-%d-%H%M%S")
    labels.check(label)
    labels.refuse_used(conformance_record.EXPERIMENT, label)
    registry = registries.load(ROOT)
    choice = page_choice.choose(registry, options.topic, options.page, options.profile)
    profile = None if options.try_here else page_choice.need_profile(choice)
    report = None if profile is None else preflight(profile, registry, options.accept)
    _refuse_blocked(report)
    _need_hypothesis(choice.profile)

    from experiments.conformance import report_lines, running

    topic = choice.topic.name
    ranges = {} if profile is None else page_choice.registered_ranges(registry, topic, profile)
    frameworks = running.prepare(topic, ranges)
    tell = (lambda line: None) if options.json else print
    where = "outside any profile" if profile is None else profile.id
    tell(f"{where} · {topic} · {len(choice.pages)} pages · checked against {running.named(frameworks)}")
    found = running.run(
        choice.pages,
        frameworks,
        seed=options.seed,
        mutants=not options.no_mutants,
        done=lambda page: tell(report_lines.page_line(page)),
        at_once=cores(),
    )
    path, level = None, None
    if profile is not None:
        facts = ProfileFacts(
            id=profile.id,
            registry_digest=registry.digest,
            requirement_digest=requirement_text.digest(profile, ROOT),
            preflight=report,
        )
        draft = conformance_record.record(found, facts, label, began, time.perf_counter() - started)
        path = labels.record_path(conformance_record.EXPERIMENT, label)
        level = store.write(draft, path).evidence_level
    if options.json:
        document = report_lines.to_json(found, None if path is None else page_files.shown(path), level)
        print(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        for line in (*report_lines.failures(found), report_lines.summary(found)):
            print(line)
        kept = "none: this was a try" if path is None else f"{page_files.shown(path)}\nlevel    {level}"
        print(f"record   {kept}")
    unwanted = found.status == "failed" or (options.require_passed and found.status != "passed")
    return EXIT_BLOCKED if unwanted else EXIT_OK


def _quick(profile: Profile, registry: Registry, accept: Sequence[str]) -> Report:
    """The quick preflight: metadata only, so that nothing heavy is imported twice."""
    from tools.environments.preflight import preflight

    return preflight.run(profile, registry, quick=True, accept=accept)


def _refuse_blocked(report: Report | None) -> None:
    """LabError for a blocked report, with the first thing that stands in the way and its repair."""
    blocked = [] if report is None else [check for check in report.checks if check.status == "blocked"]
    if report is None or not blocked:
        return
    first = blocked[0]
    more = f" (and {len(blocked) - 1} more)" if len(blocked) > 1 else ""
    repair = first.repair or f"python tools/environment_preflight.py --profile {report.profile}"
    raise LabError(f"{report.profile}: {first.wanted}", f"{first.found}{more}", repair, where=first.id)


def _need_hypothesis(home: Profile | None) -> None:
    if importlib.util.find_spec("hypothesis") is None:
        has = "python -m pip install hypothesis"
        if home is not None:
            has = f"run it in the profile that has it: python tools/install_environment_profile.py --profile {home.id}"
        raise LabError("hypothesis, which draws the cases", "it is not installed", has)
