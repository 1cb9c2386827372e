"""Does the package index answer? Asked beside everything else, so that a silent one is told in seconds.

pip and uv would spend their retries first: 77 and 12 seconds where nothing answers at all. An index that does answer
costs nothing: the question runs in the background, and no step waits for it. Only the removal of an old environment
does, since nothing may be known then that would stop the new one.
"""

from __future__ import annotations

import threading

from tools.environments.command_line import LEFT_BEHIND
from tools.environments.errors import LabError
from tools.environments.sources.index_settings import NEXT_STEP, IndexSettings


class IndexProbe:
    """One question to the index in force, running in the background from here on."""

    def __init__(self, settings: IndexSettings) -> None:
        self._settings = settings
        self._trouble: LabError | None = None
        self._thread: threading.Thread | None = None
        if not settings.offline:
            self._thread = threading.Thread(target=self._ask, name=LEFT_BEHIND, daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Let the question come to its end, which takes seconds at most; then as `require`."""
        if self._thread is not None:
            self._thread.join()
        self.require()

    def require(self) -> None:
        """LabError where the index is known not to answer, with the options that get round it."""
        if self._trouble is not None:
            trouble, also = self._trouble, ""
            if self._settings.folders():
                also = "; --offline uses the wheel folder alone, where it holds everything"
            raise LabError(trouble.wanted, trouble.found, f"check the network; {NEXT_STEP}{also}", trouble.where)

    def _ask(self) -> None:
        from tools.environments.sources import indexes  # here, so that its import runs in the background as well

        trouble = indexes.answers(self._settings.index_url or indexes.DEFAULT_INDEX)
        if trouble is not None and not indexes.cannot_judge(trouble):
            self._trouble = trouble
