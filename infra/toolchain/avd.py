"""startup-config of EOS held against Arista's AVD (package pyavd), which we did not write.

    complaints, text = checked([structured])[0]     # what its schema refuses, and the text that its templates write

pyavd needs an older python-dateutil than the project, so it has an environment of its own, `.tools/avd`, that `make setup` makes.
"""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from infra.toolchain.paths import tools_dir

AVD = tools_dir() / "avd" / "bin" / "python"
"""Its Python; absent before `make setup`."""
BUDGET_S = 120
PROGRAM = """
import json, sys
from pyavd import get_device_config, validate_structured_config
said = []
for given in json.load(sys.stdin):
    result = validate_structured_config(given)
    wrong = [f"{'.'.join(map(str, v.path))}: {v.message}" for v in result.validation_result.violations]
    wrong += [str(k) for k in result.validation_result.ignored_eos_config_keys]
    said.append((wrong, "" if wrong else get_device_config(result.validated_data)))
json.dump(said, sys.stdout)
"""


def checked(configurations: Sequence[dict[str, Any]]) -> list[tuple[list[str], str]]:
    """(complaints, text; '' with complaints) of each configuration in AVD's data model."""
    done = subprocess.run(
        [AVD, "-c", PROGRAM],
        input=json.dumps(list(configurations)),
        capture_output=True,
        text=True,
        timeout=BUDGET_S,
        check=True,
    )
    return [(complaints, text) for complaints, text in json.loads(done.stdout)]
