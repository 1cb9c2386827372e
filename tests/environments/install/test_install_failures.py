"""What uv, pip and conda say when they fail, as they really say it, and what a user is told of it."""

from __future__ import annotations

import pytest

from tools.environments.errors import LabError
from tools.environments.install.failures import explain
from tools.environments.model import InstallStep

PLENTY = 10**12
TINY = InstallStep("tiny", "what requirements/tiny.txt names", ("uv", "pip", "install"))
UNSATISFIABLE = "we can conclude that your requirements are unsatisfiable."


def told(*lines: str, free: int = PLENTY, step: InstallStep = TINY) -> LabError:
    return explain(step, 1, lines, free)


@pytest.mark.parametrize(
    ("line", "package"),
    [
        (
            f"  cause: Because tiny-beta was not found in the package registry and you require it, {UNSATISFIABLE}",
            "tiny-beta",
        ),
        (f"  cause: Because torch was not found in the provided package locations and so on, {UNSATISFIABLE}", "torch"),
        (f"  cause: Because there is no version of rich==999 and you require rich==999, {UNSATISFIABLE}", "rich==999"),
        (f"  cause: Because only rich<=15.0.0 is available and you require rich>=999, {UNSATISFIABLE}", "rich>=999"),
        ("ERROR: No matching distribution found for rich==999", "rich==999"),
        ("The following packages are not available from current channels:\n  - python=9.9", "python=9.9"),
    ],
)
def test_a_package_that_is_not_there_is_named(line: str, package: str) -> None:
    error = told("error: No solution found when resolving dependencies", line)
    assert error.found == f"{package}: the package sources in use do not have it"
    assert "--index-url" in error.next
    assert "resumes at this step" in error.next
    assert "requirements/tiny.txt" in error.wanted


def test_a_source_that_does_not_answer_is_named() -> None:
    error = told(
        "error: Request failed after 3 retries in 7.4s",
        "  cause: Failed to fetch: http://user:pw@127.0.0.1:1/simple/rich/",
        "  cause: Connection refused (os error 111)",
    )
    assert error.wanted == "a package source that answers"
    assert "127.0.0.1:1/simple/rich/ did not answer" in error.found
    assert "pw" not in str(error)


def test_pip_that_could_not_ask_does_not_say_that_there_is_none() -> None:
    error = told(
        "WARNING: Retrying after connection broken by 'NewConnectionError': /simple/idna/",
        "ERROR: No matching distribution found for idna",
    )
    assert error.found == "idna: the index did not answer"


def test_a_login_that_is_refused() -> None:
    error = told(
        f"  cause: Because idna was not found in the package registry and you require idna, {UNSATISFIABLE}",
        "hint: An index URL (http://127.0.0.1/simple) could not be queried due to a lack of valid authentication "
        "credentials (401 Unauthorized)",
    )
    assert error.wanted == "a package source that lets you in"
    assert "401" in error.found


@pytest.mark.parametrize(
    "line",
    [
        "error: failed to hardlink file: No space left on device (os error 28)",
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "OSError: [Errno 122] Disk quota exceeded",
    ],
)
def test_a_full_disk(line: str) -> None:
    error = told(line)
    assert error.wanted == "room on the disk"
    assert "free some space" in error.next


def test_a_disk_so_full_that_nothing_could_be_said() -> None:
    error = told(free=4096)
    assert error.wanted == "room on the disk"
    assert "0.0 MiB left when step tiny failed" in error.found


def test_a_folder_of_somebody_else() -> None:
    error = told("error: failed to create directory `/x`: Permission denied (os error 13)")
    assert error.wanted == "a folder this user may write"


@pytest.mark.parametrize(
    "lines",
    [
        (f"  cause: Because rich>=15.0.0 depends on pygments>=2.13.0 and you require pygments<2, {UNSATISFIABLE}",),
        (
            "ERROR: Cannot install pygments<2 and rich==15.0.0 because these have conflicting dependencies.",
            "ERROR: Resolution",
        ),
    ],
)
def test_versions_that_do_not_fit_are_shown(lines: tuple[str, ...]) -> None:
    error = told(*lines)
    assert error.wanted.startswith("versions that fit each other")
    assert "pygments<2" in error.found


def test_what_no_rule_knows_is_shown_by_its_last_lines() -> None:
    error = told(*(f"line {number}" for number in range(30)), step=InstallStep("register", "x", ("python",)))
    assert error.wanted == "step register to end well"
    assert "line 29" in error.found
    assert "line 3\n" not in error.found
