"""One end of an Ethernet link as ethtool of its own kernel says it: switches that run Linux, and servers. Pure.

    end = link_end({"link": …, "fec": …, "module": …, "statistics": …}, Source("inl001", "read swp1"))

`link` is what `ethtool IF` prints, `fec` `ethtool -I --show-fec IF`, `module` `ethtool -m IF` and `statistics` `ethtool -S IF`; the
last three are empty where a driver does not answer. Words: ethtool.c, fec.c, sff-common.c and cmis.c of ethtool (git.kernel.org),
and the kernel's documentation of mlx5's counters. Bit error rates need `rx_bits_phy`, which not every driver counts.
"""

import math
import re
from collections.abc import Mapping

from network.drivers import answers
from network.drivers.answers import Source
from network.link_ends import LinkEnd

ASKED = ("link", "fec", "module", "statistics")

_ROW = re.compile(r"^\s*([A-Za-z0-9_/ .-]{1,64}?)\s*:[ \t]*(.{0,200}?)\s*$", re.M)
_SPEED = re.compile(r"([0-9]{1,8})Mb/s")
_DBM = re.compile(r"/ (-?[0-9]{1,4}(?:\.[0-9]{1,6})?|-inf) dBm")
_RECEIVED = re.compile(r"^\s*(?:Rcvr signal avg|Receiver signal average) optical power[^:\n]{0,40}:(.{0,80})$", re.M)
_BOUND = re.compile(r"^\s*Laser rx power (high|low) alarm threshold\s*:(.{0,80})$", re.M)


def link_end(said: Mapping[str, str], source: Source) -> LinkEnd:
    """What ethtool says of an end. UnreadableAnswer names the device for text that is not ethtool's."""
    if missing := [name for name in ASKED if name not in said]:
        raise source.unreadable(f"{', '.join(ASKED)} of ethtool", f"nothing of {', '.join(missing)}")
    link = _rows(said["link"])
    if "Link detected" not in link:
        raise source.unreadable("'Link detected' of ethtool", answers.line(said["link"])[:80])
    up = link["Link detected"].startswith("yes")
    with answers.reading(source, "numbers of ethtool"):
        speed = _SPEED.fullmatch(link.get("Speed", ""))
        counted = {name: int(text) for name, text in _rows(said["statistics"]).items() if text.isdecimal()}
        bits = counted.get("rx_bits_phy", 0)
        power, bounds = _light(said["module"])
        return LinkEnd(
            state="Up" if up else "Down",
            physical="LinkUp" if up else link["Link detected"],
            rate_gbps=int(speed[1]) / 1000 if speed and up else 0.0,
            fec=_fec(said["fec"]),
            raw_ber=_share(counted, "rx_corrected_bits_phy", bits),
            errors=None,
            counted_s=None,
            rx_dbm=power,
            rx_range_dbm=bounds,
            lanes=int(lanes) if (lanes := link.get("Lanes", "")).isdecimal() else 0,
            # symbols that FEC did not correct: each has at least one wrong bit
            effective_ber=_share(counted, "rx_pcs_symbol_err_phy", bits),
        )


def _rows(text: str) -> dict[str, str]:
    return {name.strip(): value for name, value in _ROW.findall(text)}


def _share(counted: Mapping[str, int], name: str, bits: int) -> float | None:
    return counted[name] / bits if bits and name in counted else None


def _fec(text: str) -> str:
    rows = _rows(text)
    return answers.line(rows.get("Active FEC encoding") or rows.get("Active FEC encodings") or "")


def _light(text: str) -> tuple[tuple[float, ...], tuple[float, float] | None]:
    """Received power of each lane and the module's alarm thresholds, dBm; nothing for copper, which has neither."""
    powers = [_dbm(row) for row in _RECEIVED.findall(text)]
    bounds = {which: _dbm(row) for which, row in _BOUND.findall(text)}
    lanes = tuple(power for power in powers if power is not None)
    low, high = bounds.get("low"), bounds.get("high")
    return lanes, None if low is None or high is None else (low, high)


def _dbm(text: str) -> float | None:
    """Power in dBm; minus infinity where there is no light; None for text without a power."""
    found = _DBM.search(text)
    return None if found is None else -math.inf if found[1] == "-inf" else float(found[1])
