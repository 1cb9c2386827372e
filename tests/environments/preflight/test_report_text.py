"""Reports as text and JSON: the status word, the counts, one arrow, and lines that stay readable."""

from __future__ import annotations

import json

from tools.environments.model import Check, Report
from tools.environments.preflight import report_text

OK = Check("host.python", "ok", "Python 3.12", "Python 3.12.3")
SKIPPED = Check("gpu.count", "skipped", "no GPU", "this profile uses none")
WARNING = Check("python.path", "warning", "only its own folders", "PYTHONPATH adds /x", "unset PYTHONPATH")
BLOCKED = Check("torch.build", "blocked", "2.11.0+cu128", "2.11.0+cu130", "create a new environment: COMMAND")
LONG = Check("packages.metadata", "blocked", "w" * 60, "f" * 60)


def report(*checks: Check, accepted: tuple[str, ...] = ()) -> Report:
    return Report("TRAIN-CPU", "sha256:0", checks, accepted)


def test_all_ok_is_one_line() -> None:
    assert report_text.to_text(report(OK, SKIPPED)) == "status=ok · 1 checks ok, 1 do not apply here"
    assert report_text.to_text(report(OK)) == "status=ok · 1 checks ok"


def test_blocked_comes_before_warning_and_each_has_one_arrow() -> None:
    lines = report_text.to_text(report(OK, WARNING, BLOCKED, SKIPPED)).splitlines()
    assert lines[0] == "status=blocked · 1 blocked, 1 warning, 1 ok, 1 do not apply here"
    assert lines[1] == "  blocked  torch.build     wanted 2.11.0+cu128   found 2.11.0+cu130"
    assert lines[2] == "           → create a new environment: COMMAND"
    assert lines[3].startswith("  warning  python.path     wanted ")
    assert len(lines) == 5


def test_accepted_warning_is_shown_as_accepted_and_counts_no_more() -> None:
    lines = report_text.to_text(report(OK, WARNING, accepted=("python.path",))).splitlines()
    assert lines[0] == "status=ok · 1 accepted, 1 ok"
    assert lines[1].startswith("  accepted python.path")


def test_two_warnings_are_plural() -> None:
    assert report_text.to_text(report(WARNING, WARNING)).startswith("status=warning · 2 warnings, 0 ok")


def test_a_long_check_takes_a_line_for_each_part() -> None:
    lines = report_text.to_text(report(LONG)).splitlines()
    assert lines[1] == f"  blocked  packages.metadata wanted {'w' * 60}"
    assert lines[2].strip() == f"found {'f' * 60}"
    assert lines[2].index("found") == lines[1].index("wanted")


def test_the_same_repair_is_told_once() -> None:
    again = Check("torch.cuda", "blocked", "12.8", "13.0", BLOCKED.repair)
    lines = report_text.to_text(report(BLOCKED, again)).splitlines()
    assert lines[2].endswith("→ create a new environment: COMMAND")
    assert lines[4].strip() == "→ as for torch.build"


def test_ids_take_the_width_of_the_longest() -> None:
    lines = report_text.to_text(report(BLOCKED, LONG)).splitlines()
    assert lines[1].index("wanted") == lines[3].index("wanted")


def test_colour_marks_the_status_word_only() -> None:
    plain = report_text.to_text(report(WARNING))
    coloured = report_text.to_text(report(WARNING), colour=True)
    assert "\x1b[33mstatus=warning\x1b[0m" in coloured
    assert "\x1b[33mwarning\x1b[0m  python.path" in coloured
    assert coloured.replace("\x1b[33m", "").replace("\x1b[0m", "") == plain


def test_json_has_the_one_shape() -> None:
    data = report_text.to_json(report(BLOCKED, WARNING, accepted=("python.path",)))
    assert json.loads(json.dumps(data)) == data
    assert data == {
        "profile": "TRAIN-CPU",
        "registry_digest": "sha256:0",
        "status": "blocked",
        "accepted": ["python.path"],
        "checks": [
            {
                "id": "torch.build",
                "status": "blocked",
                "wanted": "2.11.0+cu128",
                "found": "2.11.0+cu130",
                "repair": "create a new environment: COMMAND",
            },
            {
                "id": "python.path",
                "status": "warning",
                "wanted": "only its own folders",
                "found": "PYTHONPATH adds /x",
                "repair": "unset PYTHONPATH",
            },
        ],
    }
