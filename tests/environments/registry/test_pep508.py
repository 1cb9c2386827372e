"""Our PEP 508 against the `packaging` library: names, extras, URLs, and markers over many environments."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.markers import Marker, UndefinedComparison, default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from stages import count

from tools.environments.registry import pep508

ENVIRONMENT = {
    "implementation_name": "cpython",
    "implementation_version": "3.12.3",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "6.1.0-18-amd64",
    "platform_system": "Linux",
    "platform_version": "#1 SMP",
    "python_full_version": "3.12.3",
    "python_version": "3.12",
    "sys_platform": "linux",
    "extra": "",
}
VALUES = [
    "3.9",
    "3.11",
    "3.12",
    "3.12.3",
    "3.12.*",
    "3",
    "linux",
    "darwin",
    "Linux",
    "x86_64",
    "cpython",
    "6.1",
    "3.11 3.12",
    "",
]
NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,6}[A-Za-z0-9])?", fullmatch=True)
OPERATORS = st.sampled_from(["==", "!=", "<=", ">=", "<", ">", "in", "not in", "~=", "==="])
SPACE = st.sampled_from(["", " ", "  ", "\t"])


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([*ENVIRONMENT, "os.name", "sys.platform", "platform.machine", "python_implementation"]))
    quote = draw(st.sampled_from(['"', "'"]))
    text, operator = f"{quote}{draw(st.sampled_from(VALUES))}{quote}", draw(OPERATORS)
    left, right = (name, text) if draw(st.booleans()) else (text, name)
    return f"{left} {operator} {right}"


MARKERS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
    ),
    max_leaves=5,
)
ENVIRONMENTS = st.fixed_dictionaries(
    {
        "python_version": st.sampled_from(["3.9", "3.11", "3.12"]),
        "python_full_version": st.sampled_from(["3.9.1", "3.11.0rc1", "3.12.3"]),
        "sys_platform": st.sampled_from(["linux", "darwin", "win32"]),
        "platform_release": st.sampled_from(["6.1", "6.1.0-18-amd64", "23.0.0"]),
        "extra": st.sampled_from(["", "test", "Dev_Tools"]),
    }
).map(lambda some: {**ENVIRONMENT, **some})


@settings(max_examples=count(1500), deadline=None)
@given(MARKERS, ENVIRONMENTS)
def test_markers(text: str, environment: dict[str, str]) -> None:
    try:
        expected = Marker(text).evaluate(environment)
    except UndefinedComparison:
        # theirs looks at every part, ours stops where the answer is known: an answer or our own refusal, never a crash
        with contextlib.suppress(pep508.RequirementError):
            pep508.Requirement.parse(f"a; {text}").applies(environment)
        return
    ours = pep508.Requirement.parse(f"a; {text}")
    assert ours.applies(environment) == expected
    again = pep508.Requirement.parse(str(ours))
    assert str(again) == str(ours)
    assert again.applies(environment) == expected


@settings(max_examples=count(1000), deadline=None)
@given(
    NAMES,
    st.lists(NAMES, max_size=3),
    st.sampled_from(["", ">=1", ">=1,<2", "(>=1, <2)", "==1.*", "~=1.2", "@ https://a.example/x-1.whl "]),
    st.sampled_from(["", "; python_version >= '3.11'"]),
    SPACE,
)
def test_whole_requirements(name: str, extras: list[str], tail: str, marker: str, space: str) -> None:
    bracket = f"[{(space + ',').join(extras)}{space}]" if extras else ""
    text = f"{space}{name}{space}{bracket}{space}{tail}{space}{marker}"
    ours, theirs = pep508.Requirement.parse(text), Requirement(text)
    assert ours.name == canonicalize_name(theirs.name)
    assert ours.extras == {canonicalize_name(extra) for extra in theirs.extras}
    assert ours.url == theirs.url
    assert {str(c).replace(" ", "") for c in ours.specifier} == {str(c) for c in theirs.specifier}
    assert (ours.marker is None) == (theirs.marker is None)
    assert pep508.Requirement.parse(str(ours)) == ours
    assert Requirement(str(ours)) == theirs


@settings(max_examples=count(2000), deadline=None)
@given(st.text(alphabet="abZ0.-_[](),;@<>=!~ '\"\tpython_version", max_size=20))
def test_what_is_accepted_is_accepted_there_too(text: str) -> None:
    try:
        ours = pep508.Requirement.parse(text)
    except pep508.RequirementError:
        return
    theirs = Requirement(text)
    assert ours.name == canonicalize_name(theirs.name)
    assert ours.url == theirs.url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-x",
        "a b",
        "a[",
        "a[b",
        "a[b c]",
        "a[b,]",
        "a>=",
        "a>=1 <2",
        "a>=1,,<2",
        "a(>=1",
        "a>=1)",
        "a @ ",
        "a;",
        "a; nonsense == '1'",
        "a; python_version",
        "a; python_version >= 3.11",
        "a; (python_version >= '3.11'",
        "a; python_version >= '3.11",
        "a>=1.*",
        "a<1+cpu",
        "a\n",
        "名>=1",
    ],
)
def test_refused_here_and_there(text: str) -> None:
    with pytest.raises(InvalidRequirement):
        Requirement(text)
    with pytest.raises(pep508.RequirementError, match="wanted"):
        pep508.Requirement.parse(text)


@pytest.mark.parametrize(
    "text", ["a; 'x' == 'x'", "a; os_name == sys_platform", "a" + ";" + "(" * 60 + "os_name == 'a'"]
)
def test_refused_here_although_the_grammar_has_it(text: str) -> None:
    with pytest.raises(pep508.RequirementError):
        pep508.Requirement.parse(text)


def test_a_marker_that_no_rule_decides_is_an_error_not_an_answer() -> None:
    requirement = pep508.Requirement.parse("a; sys_platform ~= '1.0'")
    with pytest.raises(pep508.RequirementError, match="~="):
        requirement.applies(ENVIRONMENT)
    with pytest.raises(pep508.RequirementError, match="os_name"):
        pep508.Requirement.parse("a; os_name == 'posix'").applies({})


def test_versions_compare_as_versions_and_names_as_text() -> None:
    newer = {**ENVIRONMENT, "python_version": "3.9"}
    assert not pep508.Requirement.parse("a; python_version >= '3.11'").applies(newer)
    assert not pep508.Requirement.parse("a; platform_machine >= 'a'").applies(ENVIRONMENT)
    assert pep508.Requirement.parse("a; 'linux' in sys_platform").applies(ENVIRONMENT)


def test_extras_are_compared_by_their_one_spelling() -> None:
    requirement = pep508.Requirement.parse("a; extra == 'Dev.Tools'")
    assert requirement.applies({**ENVIRONMENT, "extra": "dev_tools"})
    assert not requirement.applies({name: value for name, value in ENVIRONMENT.items() if name != "extra"})


def test_this_python_is_described_as_packaging_describes_it() -> None:
    assert pep508.environment_of_this_python() == {k: v for k, v in default_environment().items() if k != "extra"}


def test_equality_is_by_spelling() -> None:
    one, other = pep508.Requirement.parse("Foo_Bar[b,a] <2,>=1"), pep508.Requirement.parse("foo-bar[A,B]>=1, <2")
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == "Requirement('foo-bar[a,b]<2,>=1')"
    assert one != "foo-bar"
