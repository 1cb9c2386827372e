"""What went wrong at the hub, in words a user can act on.

The client raises its own classes, those of its HTTP library (httpx or httpx2, by version), plain OSErrors and an
ImportError for SOCKS. Here each becomes one `LabError`. Nothing of the client's own text is passed on: it carries
addresses, and an address can carry a password.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from tools.environments.errors import EXIT_USAGE, LabError

NO_ROOM = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "a file size limit"}
PROXIES = "ALL_PROXY, HTTPS_PROXY, HTTP_PROXY"
OFFLINE = "with the files in the cache already, set LOCAL_FILES_ONLY=True (--local-files-only) to do without the hub"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was being asked of the hub when it failed."""

    model: str
    revision: str
    file: str = ""

    def __str__(self) -> str:
        return f"{self.file + ' of ' if self.file else ''}{self.model} at revision {self.revision}"


def endpoint() -> str:
    """The hub as the user set it up, without its address."""
    return "the hub named by HF_ENDPOINT" if os.environ.get("HF_ENDPOINT") else "the hub"


def explain(error: Exception, wanted: Wanted) -> LabError | None:
    """The finding for an error of the client, or None for one that no user caused."""
    error = _reason(error)
    return _answered(error, wanted) or _unreached(error, wanted) or _local(error, wanted)


def not_a_hub(wanted: Wanted) -> LabError:
    """The answer could be read, and is none a hub gives: a login page of a network, or a wrong HF_ENDPOINT."""
    return _error(
        wanted, f"an answer from {endpoint()} that is not a hub's", "check HF_ENDPOINT and the network's login"
    )


def _reason(error: Exception) -> Exception:
    """Where the client could not ask about a file it says only that the cache lacks it; why stands behind that."""
    from huggingface_hub import errors

    cause = error.__cause__
    return cause if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(cause, Exception) else error


def _answered(error: Exception, wanted: Wanted) -> LabError | None:
    """The hub answered, and refused."""
    from huggingface_hub import errors

    if isinstance(error, errors.RevisionNotFoundError):
        return _error(
            wanted, f"no revision {wanted.revision} there", "give a branch, tag or commit of that model, such as main"
        )
    if isinstance(error, errors.GatedRepoError):
        return _error(
            wanted,
            "the model is gated and this machine's account may not read it",
            "accept its terms on the model's page, then log in: hf auth login",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return _error(
            wanted,
            f"no such model at {endpoint()}, or it is private",
            "check the name; for a private model log in first: hf auth login",
        )
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return _error(wanted, "no such file in that revision", "choose a revision that has it")
    if isinstance(error, errors.FileMetadataError):
        return not_a_hub(wanted)
    if isinstance(error, errors.HfHubHTTPError):
        return _refused(error.response.status_code, wanted)
    return None


def _refused(status: int, wanted: Wanted) -> LabError:
    if status in (401, 403):
        return _error(
            wanted, f"HTTP {status}: this machine's account may not read it", "log in with one that may: hf auth login"
        )
    if status == 429:
        return _error(wanted, "HTTP 429: too many requests", f"wait a few minutes and repeat; {OFFLINE}")
    if status >= 500:
        return _error(wanted, f"HTTP {status}: {endpoint()} is failing", f"repeat later; {OFFLINE}")
    return _error(wanted, f"HTTP {status} from {endpoint()}", "check the name, the revision and HF_ENDPOINT")


def _unreached(error: Exception, wanted: Wanted) -> LabError | None:
    """No answer, or half of one."""
    from huggingface_hub.utils import httpx

    if isinstance(error, ImportError) and "socksio" in str(error):
        return _error(
            wanted,
            "a SOCKS proxy is set and the package socksio is not installed",
            f"use an environment made by the installer (it holds socksio), or unset {PROXIES}",
        )
    if isinstance(error, httpx.ProxyError) or (isinstance(error, ValueError) and "proxy" in str(error).lower()):
        return _error(wanted, "the proxy does not let the request through", f"check {PROXIES}; {OFFLINE}")
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
        return _error(
            wanted, "an HF_ENDPOINT that is no address", "let HF_ENDPOINT begin with https:// or http://", EXIT_USAGE
        )
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | RecursionError):
        return _error(
            wanted, "the connection broke off before the file was whole", f"repeat: nothing half is kept; {OFFLINE}"
        )
    if isinstance(error, httpx.HTTPError):
        return _error(
            wanted,
            f"{endpoint()} cannot be reached ({type(error).__name__})",
            f"check the network, HF_ENDPOINT and {PROXIES}; {OFFLINE}",
        )
    return None


def _local(error: Exception, wanted: Wanted) -> LabError | None:
    """The disk, or the client's own check of a file's size."""
    if not isinstance(error, OSError):
        return None
    if error.errno in NO_ROOM:
        return _error(
            wanted, f"no room to write it: {NO_ROOM[error.errno]}", "free some space, or set HF_HOME to a larger disk"
        )
    if error.errno is None:
        return _error(wanted, "a file of another size than announced", "repeat: nothing half is kept")
    return _error(
        wanted,
        f"the cache folder cannot be used: {os.strerror(error.errno)}",
        "set HF_HOME to a folder that can be written",
    )


def _error(wanted: Wanted, found: str, then: str, code: int = 1) -> LabError:
    return LabError(wanted=str(wanted), found=found, next=then, where="model", code=code)
