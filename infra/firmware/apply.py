"""A roll-out, stage by stage: servers of one stage at the same time, and no other stage after one with a failure.

outcome = roll_out(stages, bundles, doors, say)       bundles and ways by server
outcome.failed                                        [] when all servers run their bundles
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from infra.firmware.flash import Doors, FlashError, flash
from infra.firmware.rollout import Stage
from inventory.delivered.firmware import Bundle
from network.drivers.errors import DeviceError
from network.drivers.parallel import at_once


@dataclass(frozen=True)
class Outcome:
    """What failed, a message for each server of the last stage that did, and how many servers of later stages are untouched."""

    failed: tuple[str, ...] = ()
    untouched: int = 0


def roll_out(
    stages: Sequence[Stage],
    bundles: Mapping[str, Bundle],
    doors: Callable[[str], Doors],
    say: Callable[[str], None],
    after: Callable[[Stage], None] = lambda stage: None,
) -> Outcome:
    """Bring the servers of all stages to their bundles. `after` hears each stage that has ended without a failure."""
    speaking = threading.Lock()

    def tell(server: str, text: str) -> None:
        with speaking:
            say(f"{server}: {text}")

    def one(server: str) -> str:
        try:
            done = flash(server, bundles[server], doors(server), tell)
        except (DeviceError, FlashError) as error:
            tell(server, "stopped")
            return str(error)
        tell(server, f"done: {', '.join(done)}" if done else "done before")
        return ""

    for number, stage in enumerate(stages, start=1):
        say(f"stage {number} of {len(stages)}, {stage.name}: {', '.join(stage.servers)}")
        failed = tuple(text for text in at_once(stage.servers, one).values() if text)
        if failed:
            return Outcome(failed, sum(len(later.servers) for later in stages[number:]))
        after(stage)
    return Outcome()
