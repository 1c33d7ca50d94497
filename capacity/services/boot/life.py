"""The life of a server from power to ready, as a state machine: pure, so that a run can stop anywhere and go on.

    inspect     identity and assembly are what was delivered      BMC
    firmware    versions are the pinned ones                      BMC
    bios        attributes are those of the profile               BMC
    image       the image is written and read back                reports of the boot server; from a CD nobody hears them
    first-boot  the node lets us in under the host key of its console, and says which image it runs
    ready       nothing left to do

`advance` takes the record of a server, what was seen of it, and the time; it returns the next record and what to do. A step that
stops keeps its name and the reason; `resumed` is what the same command does with it. Nothing goes back a step by itself.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

STEPS = ("inspect", "firmware", "bios", "image", "first-boot", "ready")
BUDGET_S: Mapping[str, float] = {
    "inspect": 900.0,
    "firmware": 5400.0,
    "bios": 1800.0,
    "image": 3600.0,
    "first-boot": 1800.0,
}
"""Time budgets of a step, seconds; what takes longer is stopped as timed-out. Not confirmed: planning figures for servers with
eight GPUs, whose self-test takes about ten minutes a boot; firmware counts three boots and the flashing.
"""
SEED_S = 600.0
"""Key `seed` of the budgets: how long after its start a node may still carry out its seed (cloud-init). Not confirmed: seeds set a
name, an address and a login, which takes seconds.
"""
SAFE_STOPS: Mapping[str, str] = {
    "no-port": "no network port has the MAC that it booted from: correct DEVICE:eth0 in assets.csv",
    "no-lease": "DHCP gave no address in the initramfs: look at the switch port and at dnsmasq's log",
    "no-plan": "nobody serves its plan: bringup boot render; from a CD: correct DEVICE:eth0 in assets.csv, then make a new CD",
    "no-medium": "the CD that it was started from cannot be read: insert it again, compare its SHA-256",
    "no-seed": "the boot server does not serve its seed, and nothing was written: bringup boot render and playbooks/boot.yml; "
    "one that was used comes anew with another image or a consent (SERVER:SERIAL:empty for an empty drive)",
    "wrong-disk": "a planned boot drive is not there: correct DEVICE:boot0 … in assets.csv, or put the right drive in",
    "ambiguous-disk": "several devices have the serial number of one boot drive, as two namespaces or two paths of a drive do: "
    "leave one, or plan another drive",
    "disk-too-small": "the drive is smaller than the image: put the planned drive in",
    "no-tpm": "its disks are to be encrypted and it has no TPM 2.0: switch it on in the BIOS, then the same command",
    "not-sealed": "its TPM did not take the key or did not give it back, or the site's recovery key is none: read the console, "
    "clear the TPM in the BIOS",
    "disk-failed": "a drive or the mirror refused: look at the console, replace the drive",
    "foreign-content": "a drive holds what nobody said may be overwritten: consent to it by serial number and content",
    "half-new": "one drive holds the running system, the other does not: rebuild the mirror, do not write the image",
    "image-broken": "the image ended early or could not be unpacked: build it again, look at the network",
    "image-altered": "what was read back is not the image: build it again, then suspect the drive",
}
"""States in which the initramfs stops by itself (infra/boot/deploy.sh), and what to do. Nothing was made bootable."""
OTHER_STOPS: Mapping[str, str] = {
    "not-as-delivered": "identity or assembly differ from assets.csv and the plan: nothing was changed on it",
    "timed-out": "a step took longer than its budget: look at the console",
    "power-off": "it went off while it was waited for: look at its outlets and its BMC's log",
    "other-image": "it started from something else than what was written: look at the boot order",
    "bmc-silent": "its BMC did not answer for the whole time budget: look at its power, its cable and its address",
    "bmc-garbled": "its BMC answers and says nothing that can be read: restart it, update it, or add its quirk",
    "firmware-behind": "it does not run its firmware bundle: bringup firmware apply, then the same command",
    "bios-refused": "BIOS attributes that were set are not in force after the boot: compare the profile with this BIOS version",
    "not-offered": "it is served another image or other drives, or nothing: bringup boot render, playbooks/boot.yml; from a CD: "
    "bringup image build ROLE --iso",
    "no-consent": "its drives hold a system that nobody said may be overwritten: drain it, then bringup boot render --overwrite",
    "in-use": "it has power and was not switched on by this program: find out what runs on it, then shut it down",
    "rogue-dhcp": "another DHCP server answers on its segment: find it by its MAC and switch it off, then the same command",
    "seed-unfinished": "cloud-init does not end on it: cloud-init status --long on the node says in what; mend that, then go on",
    "unknown-host": "what answers has a host key or UUID that is not enrolled: read the key on its console into known_hosts",
    "not-begun": "a server of a rack before this one is not ready: mend that server, then the same command",
}
"""The other reasons to stand still."""
MUTE_STOP = "it went off while it was written from its CD: its console says why, as `bringup: STATE`"
WORKING = ("started", "writing", "verifying")
DONE = ("written", "already-written")
Action = Literal[
    "inspect", "update-firmware", "set-bios", "boot-from-network", "boot-from-disk", "eject", "log-in", "wait", "none"
]


@dataclass(frozen=True)
class Life:
    """The record of one server. `since`: when this attempt at the step began, Unix time; `stopped`: why it stands still, by
    name, '' while it goes on; `told`: newest report of the boot server that was taken, Unix time; `image`: version of the image
    that was last written to it.
    """

    server: str
    step: str = STEPS[0]
    since: float = 0.0
    stopped: str = ""
    text: str = ""
    told: float = 0.0
    started: bool = False
    image: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for a journal."""
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """What a server told the boot server: Unix time, state, text, and the address that it came from."""

    time: float
    state: str
    text: str = ""
    address: str = ""


@dataclass(frozen=True)
class Seen:
    """What was seen of a server just now; None: not asked, or no answer. `inspected`, `firmware` and `bios` are what differs
    from the plan, () when all is as planned. `running`: version of the image that the node says it runs. `on`: whether the
    server had power, as of before the reports were read. `silent`: why the BMC gave no answer, `garbled`: why its answer is none.
    `barred`: by which stop and why it must not be started from the network. `stranger`: why what answers as its node is not
    trusted. `seeding_s`: how long after its start the node still carries out its seed; None where that has ended. `mute`: it is
    written from a CD, which reports to nobody. `cd_in`: that CD was not taken out yet.
    """

    inspected: tuple[str, ...] | None = None
    firmware: tuple[str, ...] | None = None
    bios: tuple[str, ...] | None = None
    reports: tuple[Report, ...] = field(default=())
    running: str | None = None
    on: bool | None = None
    silent: str = ""
    garbled: str = ""
    barred: tuple[str, str] | None = None
    stranger: str = ""
    seeding_s: float | None = None
    mute: bool = False
    cd_in: bool = False


def from_dict(said: Mapping[str, Any]) -> Life:
    """A record from a journal. ValueError for one of another program."""
    try:
        made = Life(**said)
    except TypeError as error:
        raise ValueError(f"not the record of a server: {error}") from None
    if made.step not in STEPS:
        raise ValueError(f"{made.server}: no step {made.step!r}; there are {', '.join(STEPS)}")
    return made


def resumed(life: Life, now: float) -> Life:
    """The same command again: a server that stands still tries its step anew, with its whole time budget."""
    return replace(life, stopped="", text="", since=now, started=False) if life.stopped else life


def reimaged(life: Life, now: float) -> Life:
    """A ready server that is to be written anew. ValueError for one that is on its way."""
    if life.step != "ready":
        raise ValueError(f"{life.server} is at {life.step}: only a ready server is imaged anew")
    return Life(life.server, "image", now, told=life.told, image=life.image)


def adopted(life: Life, running: str | None, image: str, now: float) -> Life:
    """A server that runs the image already, whatever became of its record, is ready; but not while it is being written, nor
    before its first boot is judged.
    """
    busy = life.step == "first-boot" or (life.step == "image" and life.started)
    if running != image or busy or life.step == "ready":
        return life
    return Life(life.server, "ready", now, told=life.told, image=image)


def stopped(life: Life, why: str, text: str) -> Life:
    """It stands still for this reason, one of SAFE_STOPS and OTHER_STOPS."""
    return replace(life, stopped=why, text=text)


def way_out(stop: str) -> str:
    """What to do about a stop."""
    return {**SAFE_STOPS, **OTHER_STOPS}.get(stop, "look at the console")


def advance(
    life: Life, seen: Seen, now: float, image: str, budgets: Mapping[str, float] = BUDGET_S
) -> tuple[Life, Action]:
    """The next record of a server and what to do now. `image` is the version that it shall run."""
    if life.stopped or life.step == "ready":
        return life, "none"
    if not life.since:
        life = replace(life, since=now)
    moved, action = _STEP[life.step](life, seen, image)
    if moved.step != life.step:
        moved = replace(moved, since=now, started=False)
        return moved, _FIRST[moved.step]
    seed_s = budgets.get("seed", SEED_S)
    if not moved.stopped and moved.step == "first-boot" and (seen.seeding_s or 0.0) > seed_s:
        why = f"cloud-init has not ended {seen.seeding_s:.0f} s after the start, budget {seed_s:g} s"
        return stopped(moved, "seed-unfinished", why), "none"
    if not moved.stopped and now - moved.since > budgets[moved.step]:
        spent = f"{moved.step} took longer than {budgets[moved.step]:g} s"
        last = seen.silent or seen.garbled or moved.text
        why = "bmc-silent" if seen.silent else "bmc-garbled" if seen.garbled else "timed-out"
        why = "seed-unfinished" if seen.seeding_s is not None else why
        return stopped(moved, why, f"{spent}; last: {last}" if last else spent), "none"
    return moved, "none" if moved.stopped else action


def _inspect(life: Life, seen: Seen, image: str) -> tuple[Life, Action]:
    if seen.inspected is None:
        return life, "inspect"
    if seen.inspected:
        return replace(life, stopped="not-as-delivered", text="; ".join(seen.inspected)), "none"
    return replace(life, step="firmware"), "wait"


def _firmware(life: Life, seen: Seen, image: str) -> tuple[Life, Action]:
    return _brought_about(life, seen.firmware, "bios", "update-firmware")


def _bios(life: Life, seen: Seen, image: str) -> tuple[Life, Action]:
    return _brought_about(life, seen.bios, "image", "set-bios")


def _brought_about(life: Life, differs: tuple[str, ...] | None, after: str, action: Action) -> tuple[Life, Action]:
    """A step that is done when nothing differs; its action is asked for once, then waited for."""
    if differs is None:
        return life, "wait"
    if not differs:
        return replace(life, step=after, text=""), "wait"
    text = "; ".join(differs)
    return (replace(life, text=text), "wait") if life.started else (replace(life, started=True, text=text), action)


def _image(life: Life, seen: Seen, image: str) -> tuple[Life, Action]:
    fresh = [report for report in seen.reports if report.time > life.told]
    if not life.started and seen.barred is not None:
        return stopped(life, *seen.barred), "none"
    if not life.started:
        told = max((report.time for report in seen.reports), default=life.told)
        return replace(life, started=True, told=max(told, life.told)), "boot-from-network"
    if seen.mute:
        return _image_of_cd(life, seen, image)
    if not fresh:
        return _powered(life, seen)
    last = max(fresh, key=lambda report: report.time)
    life = replace(life, told=last.time, text=last.text)
    if last.state in DONE:
        return replace(life, step="first-boot", image=image), "wait"
    if last.state in WORKING:
        return _powered(life, seen)
    return replace(life, stopped=last.state, text=last.text), "none"


def _image_of_cd(life: Life, seen: Seen, image: str) -> tuple[Life, Action]:
    """A CD writes, reads back and restarts the server: the node that answers then says what it runs. Where the initramfs stops the
    power goes off, and only the console says why.
    """
    if seen.running is not None or seen.stranger:
        return replace(life, step="first-boot", image=image), "wait"
    moved, action = _powered(life, seen)
    return replace(moved, text=MUTE_STOP) if moved.stopped else moved, action


def _first_boot(life: Life, seen: Seen, image: str) -> tuple[Life, Action]:
    if seen.stranger:
        return stopped(life, "unknown-host", seen.stranger), "none"
    if seen.running is None and not life.started:  # after a stop the power is off, and nobody else switches it on
        return replace(life, started=True), "boot-from-disk" if seen.on is False else "log-in"
    if seen.running is None:
        return _powered(life, seen)[0], "log-in"
    if seen.running != image:
        said = f"the node runs image {seen.running or 'unknown'}, planned {image}"
        return replace(life, stopped="other-image", text=said), "none"
    if seen.bios:
        return stopped(life, "bios-refused", "; ".join(seen.bios)), "none"
    if seen.seeding_s is not None:
        return replace(life, text="cloud-init has not ended"), "log-in"
    if seen.cd_in:
        return life, "eject"
    return replace(life, step="ready", image=image, text=""), "none"


def _powered(life: Life, seen: Seen) -> tuple[Life, Action]:
    """A server that is waited for has power."""
    return (replace(life, stopped="power-off", text="it went off"), "none") if seen.on is False else (life, "wait")


_STEP = {"inspect": _inspect, "firmware": _firmware, "bios": _bios, "image": _image, "first-boot": _first_boot}
_FIRST: Mapping[str, Action] = {
    "firmware": "wait",
    "bios": "wait",
    "image": "wait",
    "first-boot": "boot-from-disk",
    "ready": "none",
}
