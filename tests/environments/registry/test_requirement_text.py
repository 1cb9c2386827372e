"""Requirement files read as pip reads them, and refused with file and line where a registered file must not go."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stages import count

from tools.environments.errors import LabError
from tools.environments.model import Profile
from tools.environments.registry import registry, requirement_text

BASE = registry.load().get("TRAIN-CPU")


def profile_of(root: Path, files: Mapping[str, str | bytes], constraints: tuple[str, ...] = ()) -> Profile:
    """A profile whose first requirement file is the first of `files`, all written under `root`/requirements."""
    for name, text in files.items():
        path = root / "requirements" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return replace(BASE, requirements=(next(iter(files)),), constraints=constraints)


def spelled(root: Path, files: Mapping[str, str | bytes]) -> list[str]:
    return [requirement_text.spelling(line) for line in requirement_text.read(profile_of(root, files), root)]


def refusal(root: Path, files: Mapping[str, str | bytes], constraints: tuple[str, ...] = ()) -> LabError:
    with pytest.raises(LabError) as caught:
        requirement_text.read(profile_of(root, files, constraints), root)
    return caught.value


def test_includes_comments_continuations_and_options(tmp_path: Path) -> None:
    files = {
        "a.txt": "# head\n\n  Foo_Bar >= 1, \\\n  <2  # why\n-r sub/b.txt\n--extra-index-url=https://x.example/simple\n",
        "sub/b.txt": "-c ../c.txt\nbar[Extra]; python_version >= '3.11'\n-rd.txt\n--pre\n-i https://y.example\n",
        "sub/d.txt": "baz @ https://x.example/baz-1-py3-none-any.whl#sha256=00\n",
        "c.txt": "foo-bar != 1.5\n",
    }
    lines = requirement_text.read(profile_of(tmp_path, files), tmp_path)
    assert [(requirement_text.spelling(line), line.file, line.line) for line in lines] == [
        ("requirement foo-bar<2,>=1", "a.txt", 3),
        ("constraint foo-bar!=1.5", "c.txt", 1),
        ('requirement bar[extra] ; python_version >= "3.11"', "sub/b.txt", 2),
        ("requirement baz @ https://x.example/baz-1-py3-none-any.whl#sha256=00", "sub/d.txt", 1),
        ("option --pre", "sub/b.txt", 4),
        ("option --index-url https://y.example", "sub/b.txt", 5),
        ("option --extra-index-url https://x.example/simple", "a.txt", 6),
    ]
    flat = requirement_text.flatten(profile_of(tmp_path, files), tmp_path)
    assert [line.kind for line in flat] == ["requirement", "constraint", "requirement", "requirement"]
    options = requirement_text.options(profile_of(tmp_path, files), tmp_path)
    assert [line.option for line in options] == ["--pre", "--index-url", "--extra-index-url"]


def test_a_file_reached_twice_counts_once(tmp_path: Path) -> None:
    files = {"a.txt": "-r b.txt\n-r c.txt\n", "b.txt": "-r c.txt\n", "c.txt": "foo\n"}
    assert spelled(tmp_path, files) == ["requirement foo"]


def test_constraints_of_the_profile_come_last(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, {"a.txt": "foo\n", "constraints/x.txt": "foo<2\n"}, ("constraints/x.txt",))
    assert [line.kind for line in requirement_text.flatten(profile, tmp_path)] == ["requirement", "constraint"]


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("foo\n-r b.txt\n", "requirements/b.txt:2", "a.txt -> b.txt -> a.txt"),
        ("-r a.txt\n", "requirements/a.txt:1", "a.txt -> a.txt"),
        ("foo\n\n-r gone.txt\n", "requirements/a.txt:3", "no requirements/gone.txt"),
        ("-r ../outside.txt\n", "requirements/a.txt:1", "outside.txt"),
        ("-r /etc/passwd\n", "requirements/a.txt:1", "/etc/passwd"),
        ("-c https://x.example/c.txt\n", "requirements/a.txt:1", "https://x.example/c.txt"),
        ("-r\n", "requirements/a.txt:1", "''"),
        ("-c bad.txt\n", "requirements/bad.txt:2", "foo[extra]"),
        ("-c worse.txt\n", "requirements/worse.txt:1", "-r b.txt"),
        ("foo\n-e .\n", "requirements/a.txt:2", "-e ."),
        ("--index-url\n", "requirements/a.txt:1", "--index-url"),
        ("--pre yes\n", "requirements/a.txt:1", "--pre yes"),
        ("--trusted-host x\n", "requirements/a.txt:1", "--trusted-host x"),
        ("-\n", "requirements/a.txt:1", "-"),
        ("foo==1 --hash=sha256:00\n", "requirements/a.txt:1", "--hash"),
        ("foo @ https://${TOKEN}@x.example\n", "requirements/a.txt:1", "environment variable"),
        ("foo\n./local.whl\n", "requirements/a.txt:2", "./local.whl"),
        (b"foo\n\xff\n", "requirements/a.txt", "offset 4"),
    ],
)
def test_refused_with_file_and_line(tmp_path: Path, text: str | bytes, place: str, found: str) -> None:
    files = {
        "a.txt": text,
        "b.txt": "bar\n-r a.txt\n",
        "bad.txt": "bar\nfoo[extra]\n",
        "worse.txt": "-r b.txt\n",
    }
    error = refusal(tmp_path, files)
    assert error.where == place
    assert found in error.found
    assert error.next


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    profile = replace(profile_of(tmp_path, {"a.txt": "foo\n"}), requirements=("gone.txt",))
    with pytest.raises(LabError, match=r"requirements/gone\.txt"):
        requirement_text.flatten(profile, tmp_path)


def test_the_digest_follows_meaning_not_layout(tmp_path: Path) -> None:
    def digest(name: str, files: Mapping[str, str]) -> str:
        return requirement_text.digest(profile_of(tmp_path / name, files), tmp_path / name)

    plain = digest("one", {"a.txt": "foo>=1,<2\nbar\n"})
    assert plain.startswith("sha256:")
    assert len(plain) == 71
    assert digest("two", {"a.txt": "# comment\nFoo <2, >=1\n-r b.txt\n", "b.txt": "\nbar\n"}) == plain
    assert digest("three", {"a.txt": "foo>=1,<3\nbar\n"}) != plain
    assert digest("four", {"a.txt": "bar\nfoo>=1,<2\n"}) != plain  # the order of installs is part of the intent
    assert digest("five", {"a.txt": "foo>=1,<2\nbar\n--pre\n"}) != plain
    assert digest("six", {"a.txt": "foo>=1,<2\n-c b.txt\n", "b.txt": "bar\n"}) != plain


LINES = st.lists(
    st.one_of(
        st.sampled_from(["foo>=1", "# c", "foo \\", "-r b.txt", "-c b.txt", "", "  bar # x", "--pre", "\\", "-i", "é"]),
        st.text(max_size=20),
    ),
    max_size=8,
)


@settings(max_examples=count(400), deadline=None)
@given(LINES)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    root = tmp_path_factory.mktemp("any")
    text = "\n".join(lines).encode("utf-8", "surrogatepass")
    profile = profile_of(root, {"a.txt": text, "b.txt": "bar\n"})
    where = "requirements/a.txt"
    try:
        requirement_text.digest(profile, root)
    except LabError as error:
        where = error.where
    assert where.startswith("requirements/a.txt")  # anything but a LabError has ended this test already


READ_BY_PIP = (
    "import json, sys\n"
    "from pip._internal.req.req_file import preprocess\n"
    "print(json.dumps([list(preprocess(text)) for text in json.load(sys.stdin)]))\n"
)


def test_logical_lines_agree_with_pip() -> None:
    """pip in a process of its own: once imported, it turns off what setuptools puts in the place of distutils."""
    texts = ["a\\\nb\nc", "a \\\n# c\nb", "a # x \\\nb", "# a \\\nb", "a\\", "\\\n\\\nb", "a#b\n c #d", "a\\\\\nb"]
    asked = [sys.executable, "-c", READ_BY_PIP]
    told = subprocess.run(asked, input=json.dumps(texts), capture_output=True, text=True, check=True).stdout
    assert json.loads(told) == [[list(line) for line in requirement_text.logical_lines(text)] for text in texts]
