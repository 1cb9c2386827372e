"""Numbers as text, each with as many digits as it deserves. A missing number is an empty text, never a zero."""

from __future__ import annotations

GIB = 2**30


def milliseconds(value: float | None) -> str:
    """`20233`, `222.6`, `12.25`, `0.0413`."""
    return _digits(value)


def gib(value: float | None) -> str:
    """Bytes as GiB (2**30): `58.1`, `7.36`, `0.0021`."""
    return "" if value is None else _digits(value / GIB)


def percent(share: float | None, *, signed: bool = False) -> str:
    """A share as `0.8 %` or `+22 %`."""
    if share is None:
        return ""
    value = 100 * share
    digits = 0 if abs(value) >= 10 else 1 if abs(value) >= 0.1 else 2
    return f"{value:+.{digits}f} %" if signed else f"{value:.{digits}f} %"


def _digits(value: float | None) -> str:
    if value is None:
        return ""
    size = abs(value)
    if size >= 1000:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}"
