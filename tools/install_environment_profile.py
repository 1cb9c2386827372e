"""Make the environment of a profile: gate, create, install, register, check, stamp. A second call resumes.

python tools/install_environment_profile.py --profile TRAIN-CPU
python tools/install_environment_profile.py --profile TRAIN-CUDA-MECHANISM --dry-run
"""

# An older Python must get as far as the version check: 3.7's syntax here, and no import of ours above it.
from __future__ import annotations

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLDEST = (3, 11)
if sys.version_info < OLDEST:
    sys.exit(
        "blocked\n  wanted Python 3.11 or 3.12\n  found  Python {}.{} ({})\n  -> python3.12 or python3.11 {}".format(
            sys.version_info[0], sys.version_info[1], sys.executable, " ".join(sys.argv)
        )
    )
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [ROOT, *(path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE)]


def run() -> int:
    """The exit code of the command line; a Ctrl-C this early has nothing to tell but that."""
    try:
        from tools.environments.install_command import main

        return main(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted: nothing was done", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
