"""`python -m infra.cli`, for where the `bringup` script is not installed."""

import sys

from infra.cli import main

sys.exit(main())
