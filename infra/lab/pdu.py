"""Rack PDUs: what snmpsim needs to present one SNMPv3 agent per PDU, and the readings behind its objects.

The object tree is the rPDU2 part of PowerNet-MIB as APC's AP8xxx models answer it. No package carries the MIB file;
the numbers below agree with the public users of it (LibreNMS, Torrus and Zabbix definitions).
Static objects are written into snmpsim's record file; all others name a reading and are asked from the power daemon
through snmp_variation/outlet.py, so that a SET really switches.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.lab.paths import LabError, LabPaths, write_private
from infra.lab.spec import LabSpec, Outlet, Pdu

INTEGER, STRING, OBJECT_ID = "2", "4", "6"
SYSTEM = "1.3.6.1.2.1.1"
RPDU2 = "1.3.6.1.4.1.318.1.1.26"
AP8XXX = "1.3.6.1.4.1.318.1.3.4.6"  # sysObjectID of the switched rPDU2 family
ON, OFF, REBOOT = 1, 2, 3  # rPDU2OutletSwitchedControlCommand; the state column uses 2 for on and 1 for off
LOW_LOAD, NORMAL, NEAR_OVERLOAD, OVERLOAD = 1, 2, 3, 4  # rPDU2PhaseStatusLoadState
SIMULATED_DESCRIPTION = "SIMULATED by bringup lab: switched rack PDU, rPDU2 objects"
HIDDEN_DESCRIPTION = "APC Web/SNMP Management Card, Switched Rack PDU"
FIRMWARE = "7.1.4"
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
    thresholds: dict[tuple[str, int], int] = field(default_factory=dict)
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
        """The value of one object in the MIB's units; `watts` is the load of each outlet now."""
        volts = self.pdu.volts
        if what in ("low_a", "near_a", "overload_a"):
            return self.thresholds[what, index]
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
            return {"phase_amps": round(amps * 10), "phase_volts": round(volts), "phase_power": round(load / 10)}[what]
        values: dict[str, int | str] = {
            "description": HIDDEN_DESCRIPTION if self.hides_marker else SIMULATED_DESCRIPTION,
            "serial": self.serial,
            "device_name": self.device_name,
            "location": self.location,
            "device_power": round(sum(watts.values()) / 10),
        }
        if what in values:
            return values[what]
        return {
            "name": self.names[index],
            "state": 2 if self.on[index] else 1,
            "control": ON if self.on[index] else OFF,
            "outlet_watts": round(watts[index]),
            "outlet_amps": round(watts[index] / volts * 10),
        }[what]

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
            amps = int(value)
            if not 0 <= amps <= round(self.pdu.breaker_a):
                raise LabError(f"threshold {amps} A is outside 0 to {self.pdu.breaker_a:g} A")
            self.thresholds[what, index] = amps
        else:
            raise LabError(f"{what} cannot be written")


def records(state: PduState) -> Iterator[tuple[str, str, str]]:
    """(OID, type tag, value or reading) of every object of one PDU, in OID order as snmpsim wants it."""
    pdu = state.pdu

    def asked(what: str, index: int = 0) -> str:
        return f"{pdu.name}/{what}/{index}"

    text, number = STRING + ":outlet", INTEGER + ":outlet"
    rows = [
        (f"{SYSTEM}.1.0", text, asked("description")),
        (f"{SYSTEM}.2.0", OBJECT_ID, AP8XXX),
        (f"{SYSTEM}.5.0", text, asked("device_name")),
        (f"{RPDU2}.2.1.3.1", text, asked("device_name")),  # rPDU2IdentName
        (f"{RPDU2}.2.1.6.1", STRING, FIRMWARE),  # rPDU2IdentFirmwareRev
        (f"{RPDU2}.2.1.8.1", STRING, pdu.model),  # rPDU2IdentModelNumber
        (f"{RPDU2}.2.1.9.1", text, asked("serial")),  # rPDU2IdentSerialNumber
        (f"{RPDU2}.4.1.1.3.1", text, asked("device_name")),  # rPDU2DeviceConfigName, read-write
        (f"{RPDU2}.4.1.1.4.1", text, asked("location")),  # rPDU2DeviceConfigLocation, read-write
        (f"{RPDU2}.4.2.1.4.1", INTEGER, str(len(state.outlets))),  # rPDU2DevicePropertiesNumOutlets
        (f"{RPDU2}.4.2.1.7.1", INTEGER, str(len(state.phases))),  # rPDU2DevicePropertiesNumPhases
        (f"{RPDU2}.4.2.1.9.1", INTEGER, str(round(pdu.breaker_a))),  # rPDU2DevicePropertiesMaxCurrentRating, A
        (f"{RPDU2}.4.3.1.5.1", number, asked("device_power")),  # rPDU2DeviceStatusPower, 0.01 kW
    ]
    for phase in range(1, len(state.phases) + 1):
        rows += [
            (f"{RPDU2}.6.1.1.3.{phase}", INTEGER, str(phase)),  # rPDU2PhaseConfigNumber
            (f"{RPDU2}.6.1.1.5.{phase}", number, asked("low_a", phase)),  # ...LowLoadCurrentThreshold, A, read-write
            (f"{RPDU2}.6.1.1.6.{phase}", number, asked("near_a", phase)),  # ...NearOverloadCurrentThreshold
            (f"{RPDU2}.6.1.1.7.{phase}", number, asked("overload_a", phase)),  # ...OverloadCurrentThreshold
            (f"{RPDU2}.6.3.1.3.{phase}", INTEGER, str(phase)),  # rPDU2PhaseStatusNumber
            (f"{RPDU2}.6.3.1.4.{phase}", number, asked("phase_load", phase)),  # ...LoadState
            (f"{RPDU2}.6.3.1.5.{phase}", number, asked("phase_amps", phase)),  # ...Current, 0.1 A
            (f"{RPDU2}.6.3.1.6.{phase}", number, asked("phase_volts", phase)),  # ...Voltage, V
            (f"{RPDU2}.6.3.1.7.{phase}", number, asked("phase_power", phase)),  # ...Power, 0.01 kW
        ]
    for outlet in state.outlets:
        rows += [
            (f"{RPDU2}.9.2.1.1.3.{outlet}", text, asked("name", outlet)),  # rPDU2OutletSwitchedConfigName, read-write
            (f"{RPDU2}.9.2.3.1.3.{outlet}", text, asked("name", outlet)),  # rPDU2OutletSwitchedStatusName
            (f"{RPDU2}.9.2.3.1.5.{outlet}", number, asked("state", outlet)),  # ...StatusState: off 1, on 2
            (f"{RPDU2}.9.2.4.1.5.{outlet}", number, asked("control", outlet)),  # ...ControlCommand, read-write
            (f"{RPDU2}.9.4.3.1.6.{outlet}", number, asked("outlet_amps", outlet)),  # ...MeteredStatusCurrent, 0.1 A
            (f"{RPDU2}.9.4.3.1.7.{outlet}", number, asked("outlet_watts", outlet)),  # ...MeteredStatusPower, W
        ]
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
