"""JSON's traps, each a finding with a place and a mend; any bytes give a value or a LabError and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stages import count

from tools.environments import strict_json
from tools.environments.errors import LabError


def refusal(data: bytes) -> LabError:
    with pytest.raises(LabError) as caught:
        strict_json.loads(data, "some.json")
    return caught.value


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' twice"),
        (b'{"\\u00e9": 1, "\\u00e9": 2}', "\\xe9"),
        (b"[NaN]", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "-Infinity"),
        (b"[1e999]", "1e999"),
        (b"[-1e999]", "-1e999"),
        (b"[" + b"9" * 5000 + b"]", "5000 digits"),
        (b"[9007199254740993]", "16 digits"),
        (b"[" * 100_000, "nesting"),
        (b'{"a":' * 100_000, "nesting"),
        (b'["\\ud800"]', "lone surrogate"),
        (b'{"\\udfff": 1}', "lone surrogate"),
        (b'[{"a": ["x", "\\ud83d"]}]', "lone surrogate"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"[\xff]", "byte 0xff at offset 1"),
        ("{}".encode("utf-16"), "byte 0xff at offset 0"),
        (b"", "line 1, column 1"),
        (b'{"a": 1,}', "line 1, column"),
        (b"[1]\n[2]", "line 2, column 1"),
        (b"'a'", "line 1"),
    ],
)
def test_each_trap_is_a_finding(data: bytes, found: str) -> None:
    error = refusal(data)
    assert found in error.found
    assert error.where == "some.json"
    assert error.wanted
    assert error.next
    str(error).encode()  # what is said of it can be printed anywhere


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": [1, 2.5, -3, null, true, "\xc3\xa9"]}', {"a": [1, 2.5, -3, None, True, "é"]}),
        (b'["\\ud83d\\ude00"]', ["😀"]),
        (b"9007199254740992", 2**53),
        (b"1e300", 1e300),
    ],
)
def test_what_is_strict_is_read(data: bytes, value: object) -> None:
    assert strict_json.loads(data, "some.json") == value


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"[1]")
    assert strict_json.read(tmp_path / "a.json", "a.json") == [1]
    for name in ("gone.json", "."):
        with pytest.raises(LabError, match="a readable file"):
            strict_json.read(tmp_path / name, name)


def test_a_lost_file_comes_from_git_and_a_locked_one_from_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LabError, match=r"git checkout -- requirements/a\.json"):
        strict_json.read(tmp_path / "a.json", "requirements/a.json")

    def locked(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", locked)
    with pytest.raises(LabError, match="check its owner and mode"):
        strict_json.read(tmp_path / "a.json", "requirements/a.json")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=count(500), deadline=None)
@given(JSON)
def test_strict_values_come_back(value: object) -> None:
    assert strict_json.loads(json.dumps(value, ensure_ascii=False).encode(), "x") == value


@settings(max_examples=count(800), deadline=None)
@given(
    st.binary(max_size=60) | st.text(alphabet='[]{}",:0123456789.eE+-\\udntrefalsNI \n', max_size=60).map(str.encode)
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = strict_json.loads(data, "x")
    except LabError as error:
        str(error).encode()
        return
    assert json.loads(data) == value
