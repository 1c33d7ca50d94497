"""Power supplies, temperatures and fans in both forms of Redfish, as one shape.

    supplies(chassis, get)   # {"psus": [...], "redundancy": [...], "consumed_w": 840}
    thermal(chassis, get)    # {"temperatures": [...], "fans": [...]}

New BMCs have PowerSubsystem and ThermalSubsystem (DMTF release 2020.4, DSP0268); Power and Thermal are deprecated since
and still the only ones on many. Where a chassis has both, the new one is read if it has anything. `chassis` are the
members of the chassis collection, `get` reads a resource by its path. What comes out is not typed yet: the caller passes
it through network.drivers.answers.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from typing_extensions import TypedDict

from network.drivers.answers import Line, Number

Resource = Mapping[str, Any]
Get = Callable[[str], Resource]

MEMBERS = 1_000
"""Most supplies or fans of one chassis, each with a request of its own."""


class Psu(TypedDict):
    """One power supply; numbers are None where the BMC does not tell."""

    name: Line
    state: Line
    health: Line
    input_v: Number | None
    input_w: Number | None
    rating_w: Number | None


class PowerSupplies(TypedDict):
    """All supplies of a server and the redundancy sets that the BMC reports: [{'name', 'mode', 'health', 'state'}]."""

    psus: list[Psu]
    redundancy: list[dict[Line, Line]]
    consumed_w: Number | None


class Temperature(TypedDict):
    """One temperature; health is '' where the BMC does not judge it. context: DSP0268's PhysicalContext, such as Intake or Exhaust,
    '' where the BMC does not tell."""

    chassis: Line
    name: Line
    context: Line
    celsius: Number | None
    health: Line


class Fan(TypedDict):
    """One fan; rpm, percent: None where the BMC does not tell."""

    chassis: Line
    name: Line
    state: Line
    health: Line
    rpm: Number | None
    percent: Number | None


class Thermal(TypedDict):
    """Temperatures and fans of all chassis."""

    temperatures: list[Temperature]
    fans: list[Fan]


def supplies(chassis: Iterable[Resource], get: Get) -> dict[str, Any]:
    """Supplies of the first chassis that has any, as PowerSupplies.

    LookupError where no chassis has power at all. Baseboards of GPUs have a power subsystem without supplies.
    """
    found: dict[str, Any] | None = None
    for one in chassis:
        for read in (_new_power, _old_power):
            power = read(one, get)
            if power is not None and power["psus"]:
                return power
            found = found or power
    if found is None:
        raise LookupError("no chassis with PowerSubsystem or Power")
    return found


def thermal(chassis: Iterable[Resource], get: Get) -> dict[str, Any]:
    """Temperatures and fans of every chassis, as Thermal. LookupError where none has them."""
    temperatures, fans, seen = list[dict[str, Any]](), list[dict[str, Any]](), False
    for one in chassis:
        for read in (_new_thermal, _old_thermal):
            there = read(one, get)
            seen = seen or there is not None
            if there is not None and any(there):
                temperatures += there[0]
                fans += there[1]
                break
    if not seen:
        raise LookupError("no chassis with ThermalSubsystem or Thermal")
    return {"temperatures": temperatures, "fans": fans}


def told(value: Any) -> Any:
    """What the BMC says; '' where it says nothing or null (DSP0266: null is an unknown value)."""
    return "" if value is None else value


def _new_power(chassis: Resource, get: Get) -> dict[str, Any] | None:
    if "PowerSubsystem" not in chassis:
        return None
    power = get(chassis["PowerSubsystem"]["@odata.id"])
    psus = []
    for psu in _members(power.get("PowerSupplies"), get):
        metrics = _linked(psu, "Metrics", get)
        psus.append(
            {
                "name": told(psu.get("Name")),
                **_status(psu),
                "input_v": _reading(metrics, "InputVoltage"),
                "input_w": _reading(metrics, "InputPowerWatts"),
                "rating_w": psu.get("PowerCapacityWatts"),
            }
        )
    redundancy = [
        {"name": told(group.get("GroupName")), "mode": told(group.get("RedundancyType")), **_status(group)}
        for group in power.get("PowerSupplyRedundancy") or []
    ]
    environment = _linked(chassis, "EnvironmentMetrics", get)
    return {"psus": psus, "redundancy": redundancy, "consumed_w": _reading(environment, "PowerWatts")}


def _old_power(chassis: Resource, get: Get) -> dict[str, Any] | None:
    if "Power" not in chassis:
        return None
    power = get(chassis["Power"]["@odata.id"])
    psus = [
        {
            "name": told(psu.get("Name")),
            **_status(psu),
            "input_v": psu.get("LineInputVoltage"),
            "input_w": psu.get("PowerInputWatts"),
            "rating_w": psu.get("PowerCapacityWatts"),
        }
        for psu in power.get("PowerSupplies", [])
    ]
    redundancy = [
        {"name": told(group.get("Name")), "mode": told(group.get("Mode")), **_status(group)}
        for group in power.get("Redundancy", [])
    ]
    control = power.get("PowerControl") or [{}]
    return {"psus": psus, "redundancy": redundancy, "consumed_w": control[0].get("PowerConsumedWatts")}


def _temperature(chassis: object, name: Any, context: Any, celsius: Any, health: Any = "") -> dict[str, Any]:
    return {"chassis": chassis, "name": told(name), "context": told(context), "celsius": celsius, "health": health}


def _new_thermal(chassis: Resource, get: Get) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | None:
    if "ThermalSubsystem" not in chassis:
        return None
    subsystem, name = get(chassis["ThermalSubsystem"]["@odata.id"]), told(chassis.get("Id"))
    metrics = _linked(subsystem, "ThermalMetrics", get)
    temperatures = [
        _temperature(name, one.get("DeviceName"), one.get("PhysicalContext"), one.get("Reading"))
        for one in metrics.get("TemperatureReadingsCelsius") or []
    ]
    temperatures += [
        _temperature(name, f"summary {context}", context, (one or {}).get("Reading"))
        for context, one in (metrics.get("TemperatureSummaryCelsius") or {}).items()
        if not context.startswith("@")
    ]
    fans = [
        {
            "chassis": name,
            "name": told(fan.get("Name")),
            **_status(fan),
            "rpm": (fan.get("SpeedPercent") or {}).get("SpeedRPM"),
            "percent": _reading(fan, "SpeedPercent"),
        }
        for fan in _members(subsystem.get("Fans"), get)
    ]
    return temperatures, fans


def _old_thermal(chassis: Resource, get: Get) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | None:
    if "Thermal" not in chassis:
        return None
    body, name = get(chassis["Thermal"]["@odata.id"]), told(chassis.get("Id"))
    temperatures = [
        _temperature(
            name, one.get("Name"), one.get("PhysicalContext"), one.get("ReadingCelsius"), _status(one)["health"]
        )
        for one in body.get("Temperatures") or []
    ]
    fans = [
        {
            "chassis": name,
            "name": told(fan.get("Name") or fan.get("FanName")),  # FanName until Thermal 1.1
            **_status(fan),
            "rpm": fan.get("Reading") if fan.get("ReadingUnits") == "RPM" else None,
            "percent": fan.get("Reading") if fan.get("ReadingUnits") == "Percent" else None,
        }
        for fan in body.get("Fans") or []
    ]
    return temperatures, fans


def _members(link: Any, get: Get) -> Iterable[Resource]:
    """The members of a collection, whether it links to them or holds them. LookupError for more than MEMBERS."""
    members = get(link["@odata.id"]).get("Members", []) if link else []
    if len(members) > MEMBERS:
        raise LookupError(f"more than {MEMBERS} members at {link['@odata.id']}")
    return [member if set(member) - {"@odata.id"} else get(member["@odata.id"]) for member in members]


def _linked(resource: Resource, key: str, get: Get) -> Resource:
    return get(resource[key]["@odata.id"]) if resource.get(key) else {}


def _reading(resource: Resource, key: str) -> Any:
    """The Reading of a sensor excerpt; None where there is none."""
    return (resource.get(key) or {}).get("Reading")


def _status(resource: Resource) -> dict[str, Any]:
    status = resource.get("Status") or {}
    return {"state": told(status.get("State")), "health": told(status.get("Health"))}
