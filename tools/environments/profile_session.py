"""What one session of a profile runs, as command lines: install, preflight, its experiments, their records.

nox and invoke both take their commands from here, so that a session and a pipeline cannot drift apart. Which
experiments a profile has is the registry's to say; a new one is one folder and one word there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT
from tools.environments.model import Profile

INSTALLER = "tools/install_environment_profile.py"
PREFLIGHT = "tools/environment_preflight.py"
STOPS = "--stop-if-blocked"  # of an experiment's run: its preflight is the session's

# option -> what its value is called, None for a switch; each is handed on as given
_FOR_THE_INSTALLER: dict[str, str | None] = {
    "--env-name": "NAME",
    "--backend": "BACKEND",
    "--python": "X.Y",
    "--index-url": "URL",
    "--torch-index": "URL",
    "--find-links": "DIR",
    "--offline": None,
    "--recreate": None,
    "--dry-run": None,
}
_FOR_THE_EXPERIMENTS: dict[str, str | None] = {
    "--run-mode": "MODE",
    "--run-label": "LABEL",
    "--resume": "LABEL",
    "--model-source": "SOURCE",
    "--head": "HEAD",
    "--precision": "PRECISION",
    "--memory-cap-gib": "N",
    "--accept": "CHECK",
}
# options of an image's build; the installer's three on where packages come from count there too
_FOR_THE_IMAGE: dict[str, str | None] = {"--base-image": "NAME", "--ca": "FILE", "--network": "NAME", "--user": "NAME"}
_ALSO_FOR_THE_IMAGE = ("--index-url", "--torch-index", "--find-links", "--dry-run")

# What a profile's `experiments` may name besides folders of experiments/<topic>/: command lines of their own.
OWN_COMMANDS: dict[str, tuple[str, ...]] = {
    "conformance": ("tools/test_framework_conformance.py", "--all-part02", "--require-passed"),
    "exercises": ("-m", "experiments.conformance.exercise", "--all"),
}


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a user gave after `--`: handed on to the installer, handed on to the experiments, and read here."""

    installer: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    workload: str = "smoke"
    resume: bool = False  # go on with one experiment's interrupted run: its plan holds workload and profile
    only: tuple[str, ...] = ()  # experiments to run; empty: all of the profile's
    dry_run: bool = False
    image: tuple[str, ...] | None = None  # options of the build, where all of it is done in the profile's image


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Usage errors as every other error here, instead of leaving the process."""
        own = ("--workload", "--experiment", "--image")
        known = " ".join(sorted([*_FOR_THE_INSTALLER, *_FOR_THE_EXPERIMENTS, *_FOR_THE_IMAGE, *own]))
        raise LabError("options of a profile's session", message, f"after -- these are known: {known}", code=EXIT_USAGE)


def parse(arguments: Sequence[str]) -> SessionOptions:
    """The options after `--`. LabError (usage) for one that is not known, or does not go with another."""
    parser = _Parser(prog="--", add_help=False, allow_abbrev=False)
    for option, value in {**_FOR_THE_INSTALLER, **_FOR_THE_EXPERIMENTS, **_FOR_THE_IMAGE}.items():
        if value is None:
            parser.add_argument(option, action="store_true")
        else:
            parser.add_argument(option, action="append", default=[], metavar=value)
    parser.add_argument("--workload")
    parser.add_argument("--experiment", action="append", default=[])
    parser.add_argument("--image", action="store_true")
    given = vars(parser.parse_args(list(arguments)))
    if given["accept"]:
        from tools.environments.preflight import preflight  # here: records import this module for OWN_COMMANDS alone

        preflight.known(given["accept"])
    _refuse_beside_resume(given)
    return SessionOptions(
        installer=_again(_FOR_THE_INSTALLER, given),
        experiments=_again(_FOR_THE_EXPERIMENTS, given),
        accepted=_again({"--accept": "CHECK"}, given),
        workload=given["workload"] or "smoke",
        resume=bool(given["resume"]),
        only=tuple(given["experiment"]),
        dry_run=given["dry_run"],
        image=_image(given),
    )


def usage(profile: Profile) -> str:
    """The options after `--`, by who takes them."""
    own = {"--workload": "NAME", "--experiment": "NAME", "--image": None}
    groups: dict[str, dict[str, str | None]] = {
        "what to run": own,
        "for the installer": _FOR_THE_INSTALLER,
        "for the experiments": _FOR_THE_EXPERIMENTS,
        "for the image, with --image": _FOR_THE_IMAGE,
    }
    lines = [f"nox -s {profile.id} -- [OPTION ...]   {subjects(profile)}"]
    for name, table in groups.items():
        lines += [f"  {name}", *(f"    {option} {value or ''}".rstrip() for option, value in table.items())]
    return "\n".join(lines)


def subjects(profile: Profile) -> str:
    """What a profile is for, by name: its experiments, or the judgements of one that measures nothing."""
    word, names = (
        ("judgements", profile.judgements) if profile.layer == "delivery" else ("experiments", profile.experiments)
    )
    return f"{word}: {', '.join(names) or 'none yet'}"


def closing(profile: Profile) -> str | None:
    """What a session of a profile without experiments says last; None for one that has run some."""
    if profile.layer == "delivery":
        return f"{profile.id}: environment only, it judges records; {subjects(profile)}"
    return None if profile.experiments else f"{profile.id}: environment only, it has no experiment yet"


def install(profile: Profile, options: SessionOptions) -> list[str]:
    """Gate, then install, or find the environment current. The arguments for any Python 3.11 or 3.12."""
    return [INSTALLER, "--profile", profile.id, *options.installer]


def in_image(profile: Profile, options: SessionOptions) -> list[str]:
    """Build the profile's image, then do in it what a session does; with --dry-run only say what would be installed."""
    if options.dry_run:
        return [INSTALLER, "--profile", profile.id, "--target", "image", *options.installer]
    chosen = [part for name in options.only for part in ("--experiment", name)]
    rest = ["--workload", options.workload, *chosen, *options.experiments]
    return ["-m", "tools.containers", "run", "--profile", profile.id, *(options.image or ()), *rest]


def environment_python(
    profile: Profile, options: SessionOptions, *, python: str = sys.executable, root: Path = ROOT
) -> str:
    """The interpreter of a finished environment, asked from the installer, which looks and installs nothing.

    LabError where there is none, in the installer's own words.
    """
    kept = [option for option in options.installer if option not in ("--recreate", "--dry-run")]
    command = [python, INSTALLER, "--profile", profile.id, *kept, "--locate", "--json"]
    child = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    try:
        told = json.loads(child.stdout)
        if "error" in told:
            raise LabError(**told["error"], code=child.returncode)
        return str(told["python"])
    except (KeyError, TypeError, ValueError):
        sys.stderr.write(child.stderr)
        raise LabError(
            wanted=f"the installed environment of {profile.id}",
            found=f"the installer ended with {child.returncode} and named none",
            next=f"python {INSTALLER} --profile {profile.id}",
        ) from None


def after_install(profile: Profile, options: SessionOptions) -> list[list[str]]:
    """Preflight, the experiments in the registry's order, all in one start, then what has a command line of its own.

    The one start makes the preflight itself, and stops where it is blocked: a command for it comes first only where
    nothing is begun that way. For the environment's own Python. Each experiment writes a record, validated and graded
    as it is written. LabError (usage) as in `measuring_commands`.
    """
    commands = measuring_commands(profile, options)
    asked_there = any(STOPS in command for command in commands)
    return commands if asked_there else [preflight_command(profile, options), *commands]


def preflight_command(profile: Profile, options: SessionOptions) -> list[str]:
    """The preflight by itself."""
    return [PREFLIGHT, "--profile", profile.id, *options.accepted]


def measuring_commands(profile: Profile, options: SessionOptions) -> list[list[str]]:
    """What measures, without a preflight of its own in front.

    LabError (usage) for an experiment that this profile does not have, and for a --resume that does not say which
    experiment's run it means.
    """
    strangers = [name for name in options.only if name not in profile.experiments]
    if strangers:
        raise LabError(
            wanted=f"an experiment of {profile.id}: {', '.join(profile.experiments) or 'it has none yet'}",
            found=strangers[0],
            next="python -m experiments list",
            where="--experiment",
            code=EXIT_USAGE,
        )
    if options.resume:
        _refuse_to_resume_but_one(profile, options)
    chosen = [name for name in profile.experiments if not options.only or name in options.only]
    together = [name for name in chosen if name not in OWN_COMMANDS]
    runs = [_run(together, profile, options)] if together else []
    own = [[*OWN_COMMANDS[name], "--profile", profile.id] for name in chosen if name in OWN_COMMANDS]
    return [*runs, *own]


def verification(profile: Profile, runs: Path, since: float) -> list[str] | None:
    """Read back the records that the profile's experiments wrote since (epoch seconds); None where there are none."""
    written = [path for name in profile.experiments for path in sorted((runs / name).glob("*/record.json"))]
    fresh = [str(path) for path in written if path.stat().st_mtime >= since]
    return ["-m", "experiments", "results", "verify", *fresh] if fresh else None


def _run(names: Sequence[str], profile: Profile, options: SessionOptions) -> list[str]:
    """One command for all of them: they share its preflight, unless none is made, and its import of torch."""
    begin = [] if options.resume else ["--workload", options.workload, "--profile", profile.id]
    if not options.resume and "dry_run" not in options.experiments:
        begin.append(STOPS)
    return ["-m", "experiments", "run", *names, *begin, *options.experiments]


def _refuse_to_resume_but_one(profile: Profile, options: SessionOptions) -> None:
    """LabError (usage) unless one experiment is named, and one whose runs can be interrupted and taken up again."""
    able = [name for name in profile.experiments if name not in OWN_COMMANDS]
    if len(options.only) == 1 and options.only[0] in able:
        return
    raise LabError(
        wanted=f"--resume with one --experiment whose run it goes on with: {', '.join(able) or 'none here has any'}",
        found=", ".join(options.only) or "no --experiment",
        next=f"add --experiment {able[0]}, or whose run it is" if able else "leave --resume out",
        where="--resume",
        code=EXIT_USAGE,
    )


def _refuse_beside_resume(given: dict[str, object]) -> None:
    """LabError (usage) for what has no meaning beside --resume: a workload, or an image, which holds no earlier run."""
    beside = [option for option in ("--workload", "--image") if given[option.removeprefix("--")]]
    if given["resume"] and beside:
        raise LabError(
            wanted="options that go together",
            found=f"{beside[0]} with --resume, which goes on here with a run as it began",
            next=f"leave {beside[0]} out, or begin a new run without --resume",
            where=beside[0],
            code=EXIT_USAGE,
        )


def _image(given: dict[str, object]) -> tuple[str, ...] | None:
    """The options of the build; None without --image. LabError (usage) for one that the other way alone takes."""
    other = _FOR_THE_IMAGE if not given["image"] else [o for o in _FOR_THE_INSTALLER if o not in _ALSO_FOR_THE_IMAGE]
    for option in other:
        if given[option.removeprefix("--").replace("-", "_")]:
            raise LabError(
                wanted="options that go together",
                found=f"{option} {'with' if given['image'] else 'without'} --image",
                next=f"leave {option} out" if given["image"] else "add --image, or leave it out",
                where=option,
                code=EXIT_USAGE,
            )
    if not given["image"]:
        return None
    sources = {option: _FOR_THE_INSTALLER[option] for option in _ALSO_FOR_THE_IMAGE if option != "--dry-run"}
    return _again({**_FOR_THE_IMAGE, **sources}, given)


def _again(table: dict[str, str | None], given: dict[str, object]) -> tuple[str, ...]:
    """The given options of one table, spelled out as they were."""
    spelled: list[str] = []
    for option, value in table.items():
        found = given[option.removeprefix("--").replace("-", "_")]
        if value is None:
            spelled += [option] if found else []
        else:
            assert isinstance(found, list)
            spelled += [part for entry in found for part in (option, str(entry))]
    return tuple(spelled)
