"""What goes wrong when a program talks to a device, as one line for the person who has to act on it.

A DeviceError names the device, the operation, what was expected, what was seen and what to do next. Secrets never
enter its fields: callers pass user names, never passwords or keys.
"""

import re

NOT_PLAIN = re.compile(r"[^ -~]")
"""Characters that may need an escape. Printable ASCII needs none: texts of 16 MB are cleaned in a second."""


class DeviceError(Exception):
    """A device did not do what it was asked.

    device: name or address; operation: what was attempted; expected, seen: short texts; next_step: what to do.
    """

    def __init__(self, device: str, operation: str, expected: str, seen: str, next_step: str) -> None:
        super().__init__(device, operation, expected, seen, next_step)
        self.device, self.operation, self.expected, self.seen, self.next_step = (
            device,
            operation,
            one_line(expected),
            one_line(seen),
            next_step,
        )

    def __str__(self) -> str:
        return f"{self.device}: {self.operation}: expected {self.expected}, saw {self.seen}; {self.next_step}"


class Unreachable(DeviceError):
    """No connection: nothing listens, no route, name unknown, or the connection broke."""


class DeviceTimeout(DeviceError):
    """The device accepted the call, or its address took the packets, and the budget ran out without an answer."""


class LoginRefused(DeviceError):
    """The device answered and refused the credentials."""


class PasswordChangeRequired(LoginRefused):
    """The login is right, and the device does nothing for it before its password is changed (DSP0266, password change required)."""


class LoginNotGiven(DeviceError):
    """The device was not asked: the site gives no credentials for it, or none that can be read."""


class IdentityMismatch(DeviceError):
    """Another device than the planned one answers here. Nothing was written to it."""


class UnknownHostKey(IdentityMismatch):
    """SSH answers here with a host key that is not the known one, or where none is known."""


class OtherDeviceChanged(DeviceError):
    """Another device than the planned one answers here, and its password was changed: it shows nothing of itself before that."""


class BadAnswer(DeviceError):
    """The device answered with something that is not the protocol: truncated, garbage, a missing field."""


class UnreadableAnswer(BadAnswer):
    """An answer, or a field of one, that cannot be read: another type, too long, too deep (network.drivers.answers)."""


class WriteRefused(DeviceError):
    """The device refused a write, or took it and reads back something else."""


class UpdateFailed(DeviceError):
    """A firmware update has ended badly or its task is gone. Which version runs is read from the device."""


class UpdateGone(UpdateFailed):
    """The task of an update is gone: the device may have restarted, with the new version or without it."""


class PushRefused(DeviceError):
    """The device's own syntax check refused a configuration. Nothing was changed."""


class PushRolledBack(DeviceError):
    """A configuration was applied, not confirmed, and the earlier one is back."""


class PushIncomplete(DeviceError):
    """After a push the device runs neither the intended nor the earlier configuration, or cannot be asked."""


def one_line(text: str, limit: int = 300) -> str:
    """Printable text on one line, at most `limit` characters, so that a device's page of output stays a message."""
    line = printable(" ".join(str(text)[: 64 * limit].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def printable(text: str, keep: str = "") -> str:
    """Text in which a character that is no printable one and not in `keep` is an escape: \\x1b, \\u202e.

    Control characters move a terminal's cursor or split a line of a log, format characters turn the reading direction.
    """
    if text.isprintable():
        return text

    def shown(match: re.Match[str]) -> str:
        c = match[0]
        return c if c.isprintable() or c in keep else c.encode("unicode_escape").decode()

    return NOT_PLAIN.sub(shown, text)


def compare_identity(device: str, expected: dict[str, str], seen: dict[str, str]) -> None:
    """Raise IdentityMismatch unless every non-empty expected value equals what was seen.

    Both map a field ('serial', 'uuid', 'mgmt_mac') to its text; case and separators of MACs and UUIDs do not matter.
    """
    wrong = [field for field, want in expected.items() if want and not same_identifier(want, seen.get(field, ""))]
    if wrong:
        raise IdentityMismatch(
            device,
            "compare identity",
            ", ".join(f"{field} {expected[field]}" for field in wrong),
            ", ".join(f"{field} {seen.get(field) or 'nothing'}" for field in wrong),
            "find which device stands at this address, then correct the cabling, the address or assets.csv; "
            "nothing was written",
        )


def same_identifier(one: str, other: str) -> bool:
    """Whether two texts are one serial, MAC, UUID or GUID: case and separators do not matter."""
    return _plain(one) == _plain(other)


def _plain(text: str) -> str:
    return text.strip().lower().replace(":", "").replace("-", "")
