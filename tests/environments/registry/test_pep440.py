"""Our PEP 440 against the `packaging` library, on generated versions and specifiers, and the cases that matter here."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from stages import count

from tools.environments.registry import pep440

SMALL = st.integers(0, 3)
RELEASE = st.lists(SMALL, min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


@st.composite
def suffixes(draw: st.DrawFn, local: bool = True) -> str:
    separator = st.sampled_from(["", ".", "-", "_"])
    text = ""
    if draw(st.booleans()):
        word = draw(st.sampled_from(["a", "b", "rc", "alpha", "Beta", "c", "pre", "preview", "RC"]))
        text += draw(separator) + word + draw(separator) + draw(st.sampled_from(["", "0", "1", "02"]))
    if draw(st.booleans()):
        bare = "-" + draw(st.sampled_from(["0", "1", "7"]))
        word = draw(st.sampled_from(["post", "rev", "r"])) + draw(separator) + draw(st.sampled_from(["", "0", "1"]))
        text += draw(st.sampled_from([bare, draw(separator) + word]))
    if draw(st.booleans()):
        text += draw(separator) + "dev" + draw(separator) + draw(st.sampled_from(["", "0", "1", "2"]))
    if local and draw(st.booleans()):
        text += "+" + draw(st.sampled_from(["cpu", "cu128", "cu130", "1", "01", "1.a", "a.1", "CU128", "a-b_c"]))
    return text


@st.composite
def versions(draw: st.DrawFn, local: bool = True) -> str:
    epoch = draw(st.sampled_from(["", "", "", "0!", "1!"]))
    return draw(st.sampled_from(["", "", "v"])) + epoch + draw(RELEASE) + draw(suffixes(local=local))


@st.composite
def clauses(draw: st.DrawFn) -> str:
    operator = draw(st.sampled_from(["==", "!=", "<=", ">=", "<", ">", "~=", "==="]))
    space = draw(st.sampled_from(["", " "]))
    if operator in ("==", "!=") and draw(st.booleans()):
        return f"{operator}{space}{draw(st.sampled_from(['', '1!']))}{draw(RELEASE)}.*"
    return operator + space + draw(versions(local=operator in ("==", "!=", "===")))


def both_parse(text: str) -> bool:
    """Whether a clause is valid; the two must say the same."""
    answers = []
    for make, error in ((Specifier, InvalidSpecifier), (pep440.Specifier, pep440.SpecifierError)):
        try:
            make(text)
            answers.append(True)
        except error:
            answers.append(False)
    assert answers[0] == answers[1], text
    return answers[0]


@settings(max_examples=count(1500), deadline=None)
@given(versions(), versions())
def test_order_and_spelling(first: str, second: str) -> None:
    ours, theirs = (pep440.Version(first), pep440.Version(second)), (Version(first), Version(second))
    assert (ours[0] < ours[1], ours[0] == ours[1], ours[0] > ours[1], ours[0] <= ours[1], ours[0] >= ours[1]) == (
        theirs[0] < theirs[1],
        theirs[0] == theirs[1],
        theirs[0] > theirs[1],
        theirs[0] <= theirs[1],
        theirs[0] >= theirs[1],
    )
    assert (hash(ours[0]) == hash(ours[1])) or ours[0] != ours[1]
    assert str(ours[0]) == str(theirs[0])
    assert (ours[0].public, ours[0].is_prerelease) == (theirs[0].public, theirs[0].is_prerelease)
    assert ours[0].local_text == (theirs[0].local or "")


@settings(max_examples=count(2000), deadline=None)
@given(clauses(), versions(), st.sampled_from([True, False]))
def test_one_clause(clause: str, version: str, prereleases: bool) -> None:
    if both_parse(clause):
        ours = pep440.SpecifierSet(clause).contains(version, prereleases)
        assert ours == SpecifierSet(clause).contains(version, prereleases=prereleases), (clause, version)


@settings(max_examples=count(800), deadline=None)
@given(st.lists(clauses(), max_size=3), versions())
def test_several_clauses(some: list[str], version: str) -> None:
    if all(both_parse(clause) for clause in some):
        text = ",".join(some)
        assert pep440.SpecifierSet(text).contains(version) == SpecifierSet(text).contains(version, prereleases=True)


# Near neighbours of one release, where the exclusive comparisons have their exceptions: every pair, not a sample.
NEIGHBOURS = [
    "".join(parts) for parts in itertools.product(("1", "1.0", "1.1"), ("", "a1", "rc1"), ("", ".post1"), ("", ".dev1"))
]


@pytest.mark.parametrize("operator", ["==", "!=", "<=", ">=", "<", ">", "~="])
def test_every_neighbour(operator: str) -> None:
    for wanted, found, local in itertools.product(NEIGHBOURS, NEIGHBOURS, ("", "+l")):
        clause = operator + wanted
        if both_parse(clause):
            expected = Specifier(clause).contains(found + local, prereleases=True)
            assert pep440.Specifier(clause).contains(found + local) == expected, (clause, found + local)


@settings(max_examples=count(1500), deadline=None)
@given(st.text(alphabet="0123456789.!+-_abrcdevpost vVſKİ*\n", max_size=12))
def test_what_is_a_version(text: str) -> None:
    try:
        expected = str(Version(text))
    except InvalidVersion:
        with pytest.raises(pep440.VersionError):
            pep440.Version(text)
    else:
        assert str(pep440.Version(text)) == expected


@settings(max_examples=count(1000), deadline=None)
@given(st.text(alphabet="<>=!~0123456789.*+-abcdevpost ,;)\t", max_size=12))
def test_what_is_a_clause(text: str) -> None:
    both_parse(text)


def test_the_builds_of_torch_in_order() -> None:
    shuffled = ["2.11.0+cu130", "2.11.0+cpu", "2.11.0", "2.11.0+cu128", "2.11.0+cu126"]
    assert sorted(shuffled, key=pep440.Version) == sorted(shuffled, key=Version)
    assert sorted(shuffled, key=pep440.Version)[-1] == "2.11.0+cu130"


@pytest.mark.parametrize(
    ("specifier", "version", "holds"),
    [
        ("==2.11.0", "2.11.0+cu130", True),  # why the local part is pinned
        ("==2.11.0+cu128", "2.11.0+cu130", False),
        ("==2.11.0+cu128", "2.11.0", False),
        (">=2.11,<2.14", "2.13.0+cpu", True),
        (">=2.11,<2.14", "2.14.0.dev20261101+cpu", False),
        (">=2.11,<2.14", "2.11.0rc1", False),
        (">=5.17,<5.25", "5.24.0", True),
        ("", "anything at all", True),
        (">=1", "not a version", False),
        ("===nightly", "Nightly", True),
    ],
)
def test_cases_of_this_project(specifier: str, version: str, holds: bool) -> None:
    assert pep440.SpecifierSet(specifier).contains(version) is holds


def test_an_installed_prerelease_counts_unless_refused() -> None:
    assert pep440.SpecifierSet(">=1").contains("2.0a1")
    assert not pep440.SpecifierSet(">=1").contains("2.0a1", prereleases=False)


def test_numbers_too_long_for_an_int_are_refused() -> None:
    with pytest.raises(pep440.VersionError):
        pep440.Version("1" * 5000)


def test_spellings() -> None:
    assert str(pep440.SpecifierSet("<2 , >=1")) == "<2,>=1"
    assert pep440.SpecifierSet("<2,>=1") == pep440.SpecifierSet(">=1,<2")
    assert not pep440.SpecifierSet()
    assert len({pep440.SpecifierSet("<2,>=1"), pep440.SpecifierSet(">=1,<2")}) == 1
    assert [str(clause) for clause in pep440.SpecifierSet(">=1,<2")] == [">=1", "<2"]
    assert repr(pep440.Version("1.0+CPU")) == "Version('1.0+cpu')"
    assert pep440.Version("1") != "1"
    assert pep440.SpecifierSet("") != ""
