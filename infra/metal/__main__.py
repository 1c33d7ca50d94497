"""`python -m infra.metal [--short]`: the demo of servers from nothing."""

import sys

from infra.metal.demo import main

if __name__ == "__main__":
    sys.exit(main())
