"""Data files that come with the program, read by libyaml where PyYAML has it: a tenth of the time of PyYAML's own parser.

Not for what people hand in: libyaml takes no care of hostile nesting (inventory/site/yaml_source.py does).
"""

from pathlib import Path
from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_data(path: Path) -> Any:
    """The content of a file. OSError, UnicodeDecodeError or yaml.YAMLError when it cannot be read."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
