"""Rack PDUs: what snmpsim needs to present one SNMPv3 agent per PDU, and the readings behind its objects.

Objects, units and values of each dialect are data: pdu_dialects/. Static objects are written into snmpsim's record file;
all others name a reading and are asked from the power daemon through snmp_variation/outlet.py, so that a SET really
switches.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from infra.lab.paths import LabError, LabPaths, write_private
from infra.lab.spec import LabSpec, Outlet, Pdu

STRING, OBJECT_ID = "4", "6"
SYSTEM = "1.3.6.1.2.1.1"
DIALECTS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted(Path(__file__).with_name("pdu_dialects").glob("*.yaml"))
}
ON, OFF, REBOOT = 1, 2, 3  # what the power daemon is asked for; each dialect has its own numbers
LOW_LOAD, NORMAL, NEAR_OVERLOAD, OVERLOAD = 1, 2, 3, 4  # rPDU2PhaseStatusLoadState
SIMULATED_DESCRIPTION = "SIMULATED by bringup lab: switched rack PDU, {objects} objects"
# Factory setting of the near-overload threshold as a share of the rating (26 A on a 32 A AP8xxx).
NEAR_OVERLOAD_SHARE = 0.8


@dataclass
class PduState:
    """What a PDU keeps: relays, names and thresholds. Phases are numbered in the order of their labels."""

    pdu: Pdu
    outlets: dict[int, Outlet]
    on: dict[int, bool] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    device_name: str = ""
    location: str = ""
    thresholds: dict[tuple[str, int], float] = field(default_factory=dict)
    serial: str = ""
    hides_marker: bool = False
    has_input: bool = True

    def feeds(self, number: int) -> bool:
        """Whether an outlet gives power: its relay is closed, and the PDU has input itself."""
        return self.has_input and self.on[number]

    @staticmethod
    def factory(pdu: Pdu, outlets: list[Outlet]) -> "PduState":
        """As delivered: all relays closed, numbered names, thresholds from the rating."""
        state = PduState(pdu, {outlet.number: outlet for outlet in outlets}, serial=pdu.serial, device_name="RackPDU")
        for number in state.outlets:
            state.on[number], state.names[number] = True, f"Outlet {number}"
        for index in range(1, len(state.phases) + 1):
            state.thresholds["low_a", index] = 0
            state.thresholds["near_a", index] = round(NEAR_OVERLOAD_SHARE * pdu.breaker_a)
            state.thresholds["overload_a", index] = round(pdu.breaker_a)
        return state

    @property
    def objects(self) -> dict[str, Any]:
        """Objects, units and values of the PDU's dialect."""
        return DIALECTS[self.pdu.dialect]

    @property
    def phases(self) -> list[str]:
        return sorted({outlet.phase for outlet in self.outlets.values()})

    def kept(self) -> dict[str, Any]:
        """What the PDU keeps without power, as JSON can carry it."""
        return {
            "on": list(self.on.items()),
            "names": list(self.names.items()),
            "device_name": self.device_name,
            "location": self.location,
            "thresholds": [[what, index, amps] for (what, index), amps in self.thresholds.items()],
        }

    def recall(self, kept: Mapping[str, Any]) -> None:
        """Take what `kept` returned."""
        self.on, self.names = dict(kept["on"]), dict(kept["names"])
        self.device_name, self.location = kept["device_name"], kept["location"]
        self.thresholds = {(what, index): amps for what, index, amps in kept["thresholds"]}

    def reading(self, what: str, index: int, watts: Mapping[int, float]) -> int | str:
        """The value of one object in the units of the PDU's dialect; `watts` is the load of each outlet now."""
        volts, units = self.pdu.volts, self.objects["units"]
        if what in ("low_a", "near_a", "overload_a"):
            return round(self.thresholds[what, index] * units["threshold"])
        if what.startswith("phase_"):
            label = self.phases[index - 1]
            load = sum(watts[number] for number, outlet in self.outlets.items() if outlet.phase == label)
            amps = load / volts
            if what == "phase_load":
                return (
                    OVERLOAD
                    if amps >= self.thresholds["overload_a", index]
                    else NEAR_OVERLOAD
                    if amps >= self.thresholds["near_a", index]
                    else LOW_LOAD
                    if amps < self.thresholds["low_a", index]
                    else NORMAL
                )
            return round({"phase_amps": amps, "phase_volts": volts, "phase_power": load}[what] * units[what])
        values: dict[str, int | str] = {
            "description": self.objects["maker"] if self.hides_marker else self._marked,
            "serial": self.serial,
            "device_name": self.device_name,
            "location": self.location,
            "device_power": round(sum(watts.values()) * units["device_power"]),
        }
        if what in values:
            return values[what]
        return {
            "name": self.names[index],
            "state": self.objects["states"]["on" if self.on[index] else "off"],
            "control": self.objects["commands"]["on" if self.on[index] else "off"],
            "outlet_watts": round(watts[index] * units["outlet_watts"]),
            "outlet_amps": round(watts[index] / volts * units["outlet_amps"]),
        }[what]

    @property
    def _marked(self) -> str:
        name = {"apc-rpdu2": "rPDU2"}.get(self.pdu.dialect, self.pdu.dialect)
        return SIMULATED_DESCRIPTION.format(objects=name)

    def command(self, value: int) -> int:
        """ON, OFF or REBOOT for a command in the dialect's numbers. LabError for another one."""
        for what, meant in (("on", ON), ("off", OFF), ("reboot", REBOOT)):
            if self.objects["commands"][what] == value:
                return meant
        raise LabError(f"{value} is no outlet command")

    def readings(self, watts: Mapping[int, float]) -> dict[str, int | str]:
        """All objects that are not static, by READING/INDEX as the record file names them."""
        asked = (value.split("/") for _, tag, value in records(self) if tag.endswith(":outlet"))
        return {f"{what}/{index}": self.reading(what, int(index), watts) for _, what, index in asked}

    def write(self, what: str, index: int, value: str) -> None:
        """Store a name or a threshold. LabError for an object that cannot be written or takes another value."""
        if what == "name":
            self.names[index] = value
        elif what == "device_name":
            self.device_name = value
        elif what == "location":
            self.location = value
        elif (what, index) in self.thresholds:
            raw = int(value) / self.objects["units"]["threshold"]
            amps = int(raw) if raw == int(raw) else raw
            if not 0 <= amps <= round(self.pdu.breaker_a):
                raise LabError(f"threshold {amps:g} A is outside 0 to {self.pdu.breaker_a:g} A")
            self.thresholds[what, index] = amps
        else:
            raise LabError(f"{what} cannot be written")


def records(state: PduState) -> Iterator[tuple[str, str, str]]:
    """(OID, type tag, value or reading) of every object of one PDU, in OID order as snmpsim wants it."""
    pdu, objects = state.pdu, state.objects
    facts = {
        "model": pdu.model,
        "outlets": len(state.outlets),
        "phases": len(state.phases),
        "rating_a": round(pdu.breaker_a),
    }
    rows = [
        (f"{SYSTEM}.1.0", f"{STRING}:outlet", f"{pdu.name}/description/0"),
        (f"{SYSTEM}.2.0", OBJECT_ID, str(objects["sys_object_id"])),
        (f"{SYSTEM}.5.0", f"{STRING}:outlet", f"{pdu.name}/device_name/0"),
    ]
    numbers = {"device": [0], "phase": range(1, len(state.phases) + 1), "outlet": state.outlets}
    for table, indices in numbers.items():
        for n in indices:
            for oid, tag, said in objects[table]:
                if "reading" in said:
                    rows.append((oid.format(n=n), f"{tag}:outlet", f"{pdu.name}/{said['reading']}/{n}"))
                else:
                    rows.append((oid.format(n=n), tag, said["value"].format(n=n, **facts)))
    yield from sorted(rows, key=lambda row: [int(part) for part in row[0].split(".")])


def factory_states(spec: LabSpec) -> dict[str, PduState]:
    """PduState of every PDU, as delivered."""
    outlets: dict[str, list[Outlet]] = {pdu.name: [] for pdu in spec.pdus}
    for outlet in spec.outlets:
        outlets[outlet.pdu].append(outlet)
    return {pdu.name: PduState.factory(pdu, outlets[pdu.name]) for pdu in spec.pdus}


def write_agents(spec: LabSpec, paths: LabPaths) -> Path:
    """Write record files and snmpsim's arguments (0600: they carry the passphrases); returns the arguments' path."""
    user, lines = spec.snmp, []
    for name, state in factory_states(spec).items():
        data = paths.root / "pdu" / name
        # An agent without a context reads the file of the empty name.
        write_private(data / ".snmprec", "".join(f"{'|'.join(row)}\n" for row in records(state)))
        lines.append(
            f"--v3-engine-id=auto --v3-user={user.user} --v3-auth-key={paths.secret('snmp_auth')} "
            f"--v3-auth-proto={user.auth_protocol} --v3-priv-key={paths.secret('snmp_priv')} "
            f"--v3-priv-proto={user.priv_protocol} --data-dir={data} --agent-udpv4-endpoint={state.pdu.address}:161"
        )
    arguments = paths.root / "pdu" / "arguments"
    write_private(arguments, "\n".join(lines) + "\n")
    return arguments
