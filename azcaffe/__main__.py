# SPDX-License-Identifier: AGPL-3.0-or-later
"""`python -m azcaffe`."""

import sys

from azcaffe.cli.main import main

if __name__ == "__main__":  # spawned workers import this module again under another name
    sys.exit(main())
