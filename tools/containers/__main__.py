"""Entry point of `python -m tools.containers`."""

from __future__ import annotations

import sys

from tools.containers.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
