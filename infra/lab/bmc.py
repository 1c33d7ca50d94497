"""Redfish BMCs: the sushy-tools emulator with a driver of our own, completed by what it lacks.

One gunicorn worker serves all BMCs of a lab on one address each; the address that a request came in on selects the
one system, chassis and manager that this BMC knows. Everything that a BMC remembers is kept by the power daemon
(powerd.py), asked with a time budget. Environment: BRINGUP_LAB, BRINGUP_LAB_HOME.

Ours beside the emulator: Basic and session login against AccountService, also with a password that must be changed first, boot
override Once, BIOS settings that wait for a boot, PowerRestorePolicy, BootProgress, LocationIndicatorActive, Chassis Power with
supplies and redundancy, ThermalSubsystem, FirmwareInventory, updates by MultipartHttpPush with tasks, Manager.Reset, LogServices,
NetworkProtocol with NTP, EventService with subscriptions of log servers (kept, nothing is sent), manager NIC. Virtual media are the
emulator's, for servers that can start from them (infra/metal).
"""

import base64
import functools
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import flask
from sushy_tools import error
from sushy_tools.emulator import main
from sushy_tools.emulator.resources.systems.base import AbstractSystemsDriver

from infra.lab import firmware_image
from infra.lab.accounts import accepts, account, may_only_change, with_password
from infra.lab.client import ask
from infra.lab.paths import LabError, LabPaths
from infra.lab.powerd import RESETS, RESTORE_POLICIES

LAB = os.environ["BRINGUP_LAB"]
SIMULATED = "SIMULATED (bringup lab)"
HIDDEN = "Example Systems"
POWERD_BUDGET_S = 15.0
HANG_POLL_S = 0.5
HANG_LIMIT_S = 3600.0
BOOT_TARGETS = ("None", "Pxe", "Hdd")
CD_TARGET = "Cd"
"""A boot target, and the id of the virtual drive, of servers that have one."""
BOOT_MODES = ("Once", "Continuous", "Disabled")
MAX_IMAGE_BYTES = 1 << 20
BMC_RESETS = ("GracefulRestart", "ForceRestart")
OPEN_ENDPOINTS = ("root_resource", "session_service")

app = main.app
app.config["SUSHY_EMULATOR_STATE_DIR"] = str(LabPaths(LAB).root / "bmc")  # its default is one place for all labs
app.config["SUSHY_EMULATOR_VMEDIA_DEVICES"] = {"Cd": {"Name": "Virtual CD", "MediaTypes": ["CD", "DVD"]}}
sessions: dict[str, tuple[str, str, str]] = {}  # token -> (session id, BMC address, user)

Json = dict[str, Any]


def tell(**request: Any) -> Any:
    """A request to the power daemon; what it refuses becomes a Redfish error."""
    try:
        return ask(LAB, POWERD_BUDGET_S, **request)
    except LabError as problem:
        raise error.Conflict(str(problem)) from problem


@functools.cache
def by_address() -> dict[str, str]:
    return {v["bmc_address"]: name for name, v in tell(op="view").items() if v["kind"] == "server"}


def own() -> Json:
    """The server behind the address of this request, read once per request."""
    if "server" not in flask.g:
        flask.g.server = tell(op="view", device=by_address()[flask.request.environ["SERVER_NAME"]])
    server: Json = flask.g.server
    return server


def update(key: str, value: Any) -> None:
    tell(op="update", device=own()["name"], key=key, value=value)
    flask.g.pop("server", None)


def body() -> Json:
    data = flask.request.get_json(silent=True)
    if not isinstance(data, dict):
        raise error.BadRequest("the request must be a JSON object")
    return data


def link(path: str) -> Json:
    return {"@odata.id": f"/redfish/v1/{path}"}


def resource(kind: str, path: str, name: str, **fields: Any) -> Json:
    """A Redfish resource; `kind` is 'Type.vX_Y_Z' or the type of a collection."""
    return {
        **link(path),
        "@odata.type": f"#{kind}.{kind.split('.')[0]}",
        "Id": path.rsplit("/", 1)[-1],
        "Name": name,
        **fields,
    }


def collection(kind: str, path: str, name: str, members: list[Json]) -> Json:
    return {
        **link(path),
        "@odata.type": f"#{kind}.{kind}",
        "Name": name,
        "Members@odata.count": len(members),
        "Members": members,
    }


# ---- the emulator's drivers ---------------------------------------------------------------------------------------
class Driver(AbstractSystemsDriver):
    """One system, known by its UUID; its name redirects there, as elsewhere in the emulator."""

    driver = "<power daemon>"

    def node(self, identity: str) -> Json:
        server = own()
        if identity == server["name"]:
            raise error.AliasAccessError(server["uuid"])
        if identity != server["uuid"]:
            raise error.NotFound(f"this BMC has no system {identity}")
        return server

    @property
    def systems(self) -> list[str]:
        return [own()["uuid"]]

    def uuid(self, identity: str) -> Any:
        return self.node(identity)["uuid"]

    def name(self, identity: str) -> Any:
        return self.node(identity)["name"]

    def get_power_state(self, identity: str) -> Any:
        return self.node(identity)["power"]

    def set_power_state(self, identity: str, state: str) -> None:
        tell(op="reset", device=self.node(identity)["name"], kind=state)

    def get_boot_device(self, identity: str) -> Any:
        return self.node(identity)["boot"]["target"]

    def set_boot_device(self, identity: str, source: str) -> None:
        self.node(identity)
        update("boot", {"target": source})

    def set_boot_image(self, identity: str, device: str, boot_image: str | None = None, **_: Any) -> None:
        if "cd" not in self.node(identity) or device != CD_TARGET:
            raise error.NotFound(f"this server has no drive {device}")
        update("cd", boot_image or "")

    def get_boot_mode(self, identity: str) -> Any:
        return self.node(identity)["boot"]["mode"]

    def get_total_memory(self, identity: str) -> int:
        return int(self.node(identity)["memory_gib"])

    def get_total_cpus(self, identity: str) -> int:
        return int(self.node(identity)["cpus"])

    def get_bios(self, identity: str) -> Json:
        server = self.node(identity)
        pending = server["bios_pending"] if flask.request.endpoint == "bios_settings" else {}
        return {**server["bios"], **pending}

    def set_bios(self, identity: str, attributes: Json) -> None:
        unknown = sorted(set(attributes) - set(self.node(identity)["bios"]))
        if unknown:
            raise error.BadRequest(f"unknown BIOS attributes: {', '.join(unknown)}")
        update("bios_pending", attributes)

    def get_versions(self, identity: str) -> Json:
        return {"BiosVersion": self.node(identity)["firmware"]["BIOS"]}

    def set_versions(self, identity: str, versions: Json) -> None:
        self.node(identity)
        update("firmware", {"BIOS": versions["BiosVersion"]})

    def get_nics(self, identity: str) -> list[Json]:
        server = self.node(identity)
        return [{"id": "eth0", "mac": server["mac"]}]

    def get_http_boot_uri(self, identity: str) -> None:
        return None

    def get_processors(self, identity: str) -> Any:
        raise error.NotSupportedError("this BMC lists no processors")

    get_simple_storage_collection = get_secure_boot = get_processors


class Chassis:
    """One chassis, under its server's UUID."""

    chassis = property(lambda self: [own()["uuid"]])

    def uuid(self, identity: str) -> Any:
        return driver.uuid(identity)

    def name(self, identity: str) -> str:
        return f"{driver.name(identity)} chassis"


driver, chassis = Driver(), Chassis()
main.Application.systems = property(lambda self: driver)
main.Application.chassis = property(lambda self: chassis)


# ---- ComputerSystem -------------------------------------------------------------------------------------------------
def system_patch(identity: str) -> tuple[str, int]:
    """Boot override, restore policy, identify LED and asset tag."""
    wanted, server = body(), driver.node(identity)
    unknown = set(wanted) - {"Boot", "PowerRestorePolicy", "LocationIndicatorActive", "IndicatorLED", "AssetTag"}
    if unknown or not wanted:
        raise error.BadRequest(f"not writable: {', '.join(sorted(unknown)) or 'an empty body'}")
    boot = wanted.get("Boot", {})
    change = {
        key: boot[name]
        for key, name in (
            ("target", "BootSourceOverrideTarget"),
            ("enabled", "BootSourceOverrideEnabled"),
            ("mode", "BootSourceOverrideMode"),
        )
        if name in boot
    }
    if change.get("enabled", "Once") not in BOOT_MODES or change.get("target", "Pxe") not in boot_targets(server):
        raise error.BadRequest(f"boot override {boot} is not among {boot_targets(server)} and {BOOT_MODES}")
    if "target" in change and "enabled" not in change:
        change["enabled"] = "Once"
    policy = wanted.get("PowerRestorePolicy")
    if policy not in (None, *RESTORE_POLICIES):
        raise error.BadRequest(f"PowerRestorePolicy {policy} is not among {', '.join(RESTORE_POLICIES)}")
    if change:
        update("boot", change)
    if policy:
        update("restore", policy)
    if "LocationIndicatorActive" in wanted:
        update("indicator", bool(wanted["LocationIndicatorActive"]))
    if "IndicatorLED" in wanted:
        update("indicator", wanted["IndicatorLED"] != "Off")
    if "AssetTag" in wanted:
        update("asset_tag", str(wanted["AssetTag"]))
    app.logger.info("settings of %s changed", server["name"])
    return "", 204


emulated_system = app.view_functions["system_resource"]
app.view_functions["system_resource"] = lambda identity: (
    system_patch(identity) if flask.request.method == "PATCH" else emulated_system(identity)
)


def boot_targets(server: Json) -> tuple[str, ...]:
    return (*BOOT_TARGETS, CD_TARGET) if "cd" in server else BOOT_TARGETS


def maker(server: Json) -> str:
    return HIDDEN if server["hides_marker"] else SIMULATED


def complete_root(data: Json, server: Json) -> None:
    data.update(
        Vendor=maker(server),
        Product=f"{maker(server)} BMC",
        UUID=server["uuid"],
        SessionService=link("SessionService"),
        AccountService=link("AccountService"),
        Tasks=link("TaskService"),
        EventService=link("EventService"),
        Links={"Sessions": link("SessionService/Sessions")},
    )


def complete_system(data: Json, server: Json) -> None:
    lost = server["psus"] - len(server["supplies"])
    progress = "None" if server["power"] == "Off" else "OSRunning" if server["ready"] else "OSBootStarted"
    data.update(
        Manufacturer=maker(server),
        Model=server["model"],
        SerialNumber=server["serial"],
        HostName=server["name"],
        AssetTag=server["asset_tag"],
        PowerRestorePolicy=server["restore"],
        LocationIndicatorActive=server["indicator"],
        IndicatorLED="Lit" if server["indicator"] else "Off",
        LogServices=link(f"Systems/{server['uuid']}/LogServices"),
        BootProgress={"LastState": progress, **boot_time(server)},
        Status={
            "State": "Enabled" if server["ac"] else "UnavailableOffline",
            "Health": "OK" if not lost else "Warning" if server["ac"] else "Critical",
        },
    )
    data["Boot"].update(
        {
            "BootSourceOverrideEnabled": server["boot"]["enabled"],
            "BootSourceOverrideTarget@Redfish.AllowableValues": list(boot_targets(server)),
        }
    )
    data["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] = list(RESETS)
    for absent in ("SecureBoot", "Storage", "Memory", *(() if "cd" in server else ("VirtualMedia",))):
        data.pop(absent, None)


def boot_time(server: Json) -> Json:
    """How long the last start took, where the program that plays the server has measured it."""
    took = server.get("ready_after_s")
    return {} if took is None else {"LastBootTimeSeconds": took}


def complete_chassis(data: Json, server: Json) -> None:
    for unset in ("AssetTag", "SKU", "PartNumber", "Location", "Thermal"):
        data.pop(unset, None)
    data.update(
        Manufacturer=maker(server),
        Model=server["model"],
        SerialNumber=server["serial"],
        ChassisType="RackMount",
        PowerState=server["power"],
        Power=link(f"Chassis/{server['uuid']}/Power"),
        ThermalSubsystem=link(f"Chassis/{server['uuid']}/ThermalSubsystem"),
    )


def complete_manager(data: Json, server: Json) -> None:
    path = f"Managers/{server['uuid']}"
    data.pop("VirtualMedia", None)
    data.update(
        Manufacturer=maker(server),
        Description=f"{maker(server)} BMC",
        Model=f"{maker(server)} BMC",
        FirmwareVersion=server["firmware"]["BMC"],
        NetworkProtocol=link(f"{path}/NetworkProtocol"),
        EthernetInterfaces=link(f"{path}/EthernetInterfaces"),
    )
    data.setdefault("Actions", {})["#Manager.Reset"] = {
        "target": f"/redfish/v1/{path}/Actions/Manager.Reset",
        "ResetType@Redfish.AllowableValues": list(BMC_RESETS),
    }


def complete_updates(data: Json, server: Json) -> None:
    for absent in ("Actions", "HttpPushUri", "SoftwareInventory"):
        data.pop(absent, None)
    data.update(
        FirmwareInventory=link("UpdateService/FirmwareInventory"),
        MultipartHttpPushUri="/redfish/v1/UpdateService/upload",
        MaxImageSizeBytes=MAX_IMAGE_BYTES,
    )


def complete_nic(data: Json, server: Json) -> None:
    data.update(Id="eth0", Name="eth0", MACAddress=server["mac"], PermanentMACAddress=server["mac"])


COMPLETIONS = {
    "root_resource": complete_root,
    "system_resource": complete_system,
    "chassis_resource": complete_chassis,
    "manager_resource": complete_manager,
    "UpdateService.update_service_resource": complete_updates,
    "ethernet_interface": complete_nic,
}


@app.after_request
def garble_answer(answer: flask.Response) -> flask.Response:
    """What becomes of an answer that was right: no JSON, cut off by the end of the connection, or with values of other types.

    Flask runs what is registered first last: it sees the whole answer.
    """
    kind = own()["garbles"]
    if kind == "json":
        answer.set_data(answer.get_data() + b"\xff\x00,")
    elif kind == "types" and answer.is_json:
        answer.set_data(json.dumps(other_types(answer.get_json())))
    elif kind == "cut":
        data = answer.get_data()
        answer.response = half(data)
        answer.headers["Content-Length"] = str(len(data))
    return answer


def half(data: bytes) -> Iterator[bytes]:
    """The first half; then gunicorn ends the connection, for the sake of the error."""
    yield data[: len(data) // 2]
    raise RuntimeError("this BMC garbles: the connection ends in the middle of the answer")


def other_types(said: Any) -> Any:
    """An object with each value of another JSON type: texts become numbers, numbers texts, lists objects, objects lists."""
    return {key: _other_type(value) for key, value in said.items()} if isinstance(said, dict) else _other_type(said)


def _other_type(value: Any) -> Any:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return [value]
    return {"value": value} if isinstance(value, list) else str(value)


@app.after_request
def complete(response: flask.Response) -> flask.Response:
    """Add to the emulator's answers what it does not know."""
    completion = COMPLETIONS.get(flask.request.endpoint or "")
    if completion and response.status_code == 200 and flask.request.method == "GET" and response.is_json:
        data = response.get_json()
        completion(data, own())
        response.set_data(json.dumps(data))
    return response


# ---- Chassis power --------------------------------------------------------------------------------------------------
@app.route("/redfish/v1/Chassis/<identity>/Power")
def power(identity: str) -> Json:
    server = driver.node(identity)
    live, path = server["supplies"], f"Chassis/{identity}/Power"
    supplies = []
    for psu in range(1, server["psus"] + 1):
        fed = psu in live
        supplies.append(
            {
                **link(f"{path}#/PowerSupplies/{psu - 1}"),
                "MemberId": str(psu - 1),
                "Name": f"PSU {psu}",
                "PowerSupplyType": "AC",
                "Manufacturer": maker(server),
                "PowerCapacityWatts": server["psu_rating_w"],
                "LineInputVoltage": server["input_v"] if fed else 0,
                "PowerInputWatts": round(server["watts"] / len(live)) if fed else 0,
                "Status": {"State": "Enabled" if fed else "UnavailableOffline", "Health": "OK" if fed else "Critical"},
            }
        )
    spare = server["psus"] - server["psus_needed"]
    lost = server["psus"] - len(live)
    redundancy = (
        []
        if not spare
        else [
            {
                **link(f"{path}#/Redundancy/0"),
                "MemberId": "0",
                "Name": "PSU redundancy",
                "Mode": "N+m",
                "MinNumNeeded": server["psus_needed"],
                "MaxNumSupported": server["psus"],
                "RedundancySet": [link(f"{path}#/PowerSupplies/{psu}") for psu in range(server["psus"])],
                "Status": {
                    "State": "Enabled",
                    "Health": "OK" if lost == 0 else "Warning" if lost <= spare else "Critical",
                },
            }
        ]
    )
    return resource(
        "Power.v1_7_0",
        path,
        "Power",
        PowerControl=[
            {
                **link(f"{path}#/PowerControl/0"),
                "MemberId": "0",
                "Name": "Server",
                "PowerConsumedWatts": server["watts"],
            }
        ],
        PowerSupplies=supplies,
        Redundancy=redundancy,
    )


# ---- Chassis fans and temperatures -----------------------------------------------------------------------------------
FANS = 4
FAN_RPM = 8000
INLET_C, RISE_K = 24.0, 12.0
"""Air of the lab: all of it made up. Fans turn and air warms up while the server is on."""


@app.route("/redfish/v1/Chassis/<identity>/ThermalSubsystem")
def thermal_subsystem(identity: str) -> Json:
    path = f"Chassis/{driver.node(identity)['uuid']}/ThermalSubsystem"
    return resource(
        "ThermalSubsystem.v1_3_0",
        path,
        "Thermal",
        Fans=link(f"{path}/Fans"),
        ThermalMetrics=link(f"{path}/ThermalMetrics"),
    )


@app.route("/redfish/v1/Chassis/<identity>/ThermalSubsystem/Fans")
def fans(identity: str) -> Json:
    on = driver.node(identity)["watts"] > 0
    path = f"Chassis/{identity}/ThermalSubsystem/Fans"
    members = [
        resource(
            "Fan.v1_5_0",
            f"{path}/{number}",
            f"Fan {number}",
            SpeedPercent={"Reading": 50 if on else 0, "SpeedRPM": FAN_RPM if on else 0},
            Status={"State": "Enabled", "Health": "OK"},
        )
        for number in range(1, FANS + 1)
    ]
    return collection("Fan", path, "Fans", members)


@app.route("/redfish/v1/Chassis/<identity>/ThermalSubsystem/ThermalMetrics")
def thermal_metrics(identity: str) -> Json:
    rise_k = RISE_K if driver.node(identity)["watts"] > 0 else 0.0
    return resource(
        "ThermalMetrics.v1_3_0",
        f"Chassis/{identity}/ThermalSubsystem/ThermalMetrics",
        "Thermal metrics",
        TemperatureReadingsCelsius=[
            {"DeviceName": "Inlet Temp", "PhysicalContext": "Intake", "Reading": INLET_C},
            {"DeviceName": "Exhaust Temp", "PhysicalContext": "Exhaust", "Reading": INLET_C + rise_k},
        ],
    )


# ---- firmware, event log, network services --------------------------------------------------------------------------
@app.route("/redfish/v1/UpdateService/FirmwareInventory")
def firmware_collection() -> Json:
    path = "UpdateService/FirmwareInventory"
    return collection(
        "SoftwareInventoryCollection", path, "Firmware", [link(f"{path}/{item}") for item in sorted(own()["firmware"])]
    )


@app.route("/redfish/v1/UpdateService/FirmwareInventory/<item>")
def firmware(item: str) -> Json:
    server = own()
    if item not in server["firmware"]:
        raise error.NotFound(f"no firmware {item}")
    return resource(
        "SoftwareInventory.v1_4_0",
        f"UpdateService/FirmwareInventory/{item}",
        item,
        Version=server["firmware"][item],
        Manufacturer=maker(server),
        Updateable=True,
    )


@app.route("/redfish/v1/UpdateService/upload", methods=["POST"])
def push_update() -> Any:
    """A multipart push. The image says what it brings (infra/lab/firmware_image.py); a bad one fails as on metal: in its task."""
    server = own()
    file = flask.request.files.get("UpdateFile")
    if file is None or "UpdateParameters" not in flask.request.form:
        raise error.BadRequest("the body must have the parts UpdateParameters and UpdateFile")
    try:
        targets = {
            str(path).rsplit("/", 1)[-1] for path in json.loads(flask.request.form["UpdateParameters"])["Targets"]
        }
    except (ValueError, KeyError, TypeError) as problem:
        raise error.BadRequest("UpdateParameters must be a JSON object with Targets") from problem
    try:
        versions = firmware_image.read(file.read(MAX_IMAGE_BYTES), server["model"])
    except ValueError:
        versions, refused = {}, "Update.1.0.VerificationFailed"
    else:
        versions = {item: version for item, version in versions.items() if not targets or item in targets}
        refused = "" if set(versions) <= set(server["firmware"]) and versions else "Update.1.0.ApplyFailed"
    number = tell(op="begin_update", device=server["name"], versions=versions, refused=refused)
    made = task(number)
    return made, 202, {"Location": made["@odata.id"]}


@app.route("/redfish/v1/TaskService/Tasks")
def tasks() -> Json:
    path = "TaskService/Tasks"
    return collection("TaskCollection", path, "Tasks", [link(f"{path}/{number}") for number in own()["updates"]])


@app.route("/redfish/v1/TaskService/Tasks/<number>")
def task(number: str) -> Json:
    flask.g.pop("server", None)  # a push has just changed it
    update = own()["updates"].get(number)
    if update is None:
        raise error.NotFound(f"no task {number}")
    messages = [{"MessageId": update["message"], "Severity": "Critical", "Message": "refused by the lab's BMC"}]
    return resource(
        "Task.v1_4_3",
        f"TaskService/Tasks/{number}",
        "Firmware update",
        TaskState=update["state"],
        TaskStatus="Critical" if update["message"] else "OK",
        PercentComplete=update["percent"],
        Messages=messages if update["message"] else [],
    )


@app.route("/redfish/v1/Managers/<identity>/Actions/Manager.Reset", methods=["POST"])
def reset_manager(identity: str) -> tuple[str, int]:
    server = driver.node(identity)
    if body().get("ResetType") not in BMC_RESETS:
        raise error.BadRequest(f"ResetType must be one of {', '.join(BMC_RESETS)}")
    for token in [token for token, session in sessions.items() if session[1] == server["bmc_address"]]:
        del sessions[token]
    threading.Timer(0.2, ask, (LAB, POWERD_BUDGET_S), {"op": "reset_bmc", "device": server["name"]}).start()
    return "", 204  # the answer leaves before the network does


@app.route("/redfish/v1/Systems/<identity>/LogServices")
def log_services(identity: str) -> Json:
    driver.node(identity)
    path = f"Systems/{identity}/LogServices"
    return collection("LogServiceCollection", path, "Logs", [link(f"{path}/SEL")])


@app.route("/redfish/v1/Systems/<identity>/LogServices/SEL")
def event_log(identity: str) -> Json:
    driver.node(identity)
    path = f"Systems/{identity}/LogServices/SEL"
    return resource(
        "LogService.v1_1_3",
        path,
        "System event log",
        LogEntryType="SEL",
        OverWritePolicy="WrapsWhenFull",
        ServiceEnabled=True,
        Entries=link(f"{path}/Entries"),
        Actions={"#LogService.ClearLog": {"target": f"/redfish/v1/{path}/Actions/LogService.ClearLog"}},
    )


@app.route("/redfish/v1/Systems/<identity>/LogServices/SEL/Entries")
def event_log_entries(identity: str) -> Json:
    path = f"Systems/{identity}/LogServices/SEL/Entries"
    return collection(
        "LogEntryCollection",
        path,
        "System events",
        [
            resource(
                "LogEntry.v1_6_1",
                f"{path}/{entry['id']}",
                f"Event {entry['id']}",
                EntryType="SEL",
                Severity=entry["severity"],
                Message=entry["message"],
                Created=datetime.fromtimestamp(entry["created"], UTC).isoformat(timespec="seconds"),
            )
            for entry in driver.node(identity)["sel"]
        ],
    )


@app.route("/redfish/v1/Systems/<identity>/LogServices/SEL/Actions/LogService.ClearLog", methods=["POST"])
def event_log_clear(identity: str) -> tuple[str, int]:
    tell(op="sel_clear", device=driver.node(identity)["name"])
    return "", 204


@app.route("/redfish/v1/Managers/<identity>/NetworkProtocol", methods=["GET", "PATCH"])
def network_protocol(identity: str) -> Any:
    server, path = driver.node(identity), f"Managers/{identity}/NetworkProtocol"
    if flask.request.method == "PATCH":
        wanted = body()
        ntp, ipmi = wanted.get("NTP", {}), wanted.get("IPMI", {})
        if (
            not isinstance(ntp, dict)
            or not isinstance(ipmi, dict)
            or not set(wanted) <= {"NTP", "IPMI"}
            or not set(ntp) <= {"ProtocolEnabled", "NTPServers"}
            or not set(ipmi) <= {"ProtocolEnabled"}
        ):
            raise error.BadRequest("PATCH takes NTP with ProtocolEnabled and NTPServers, and IPMI with ProtocolEnabled")
        if ntp:
            update("ntp", ntp)
        if ipmi:
            update("ipmi", bool(ipmi["ProtocolEnabled"]))
        return "", 204
    return resource(
        "ManagerNetworkProtocol.v1_5_0",
        path,
        "Network services",
        HostName=f"{server['name']}-bmc",
        NTP=server["ntp"],
        HTTPS={"ProtocolEnabled": True, "Port": 443},
        HTTP={"ProtocolEnabled": False, "Port": 80},
        IPMI={"ProtocolEnabled": server["ipmi"], "Port": 623},
        SSH={"ProtocolEnabled": False, "Port": 22},
        SNMP={"ProtocolEnabled": False, "Port": 161},
    )


@app.route("/redfish/v1/EventService")
def event_service() -> Json:
    path = "EventService"
    return resource(
        "EventService.v1_10_0", path, "Events", ServiceEnabled=True, Subscriptions=link(f"{path}/Subscriptions")
    )


@app.route("/redfish/v1/EventService/Subscriptions", methods=["GET", "POST"])
def subscriptions() -> Any:
    path, kept = "EventService/Subscriptions", own()["log_servers"]
    if flask.request.method == "GET":
        members = [link(f"{path}/{one['Id']}") for one in kept]
        return collection("EventDestinationCollection", path, "Subscriptions", members)
    wanted = body()
    place = urlsplit(str(wanted.get("Destination", "")))
    if wanted.get("SubscriptionType") != "Syslog" or wanted.get("Protocol") != "SyslogUDP":
        raise error.BadRequest("this BMC takes subscriptions of SubscriptionType Syslog with Protocol SyslogUDP only")
    if place.scheme != "syslog" or not place.hostname:
        raise error.BadRequest("Destination must be syslog://HOST:PORT")
    number = str(max((int(one["Id"]) for one in kept), default=0) + 1)
    told = {key: str(wanted.get(key, "")) for key in ("Destination", "Protocol", "SubscriptionType", "Context")}
    update("log_servers", [*kept, {"Id": number, **told}])
    return subscription(number), 201, {"Location": f"/redfish/v1/{path}/{number}"}


@app.route("/redfish/v1/EventService/Subscriptions/<number>", methods=["GET", "DELETE"])
def subscription(number: str) -> Any:
    kept = own()["log_servers"]
    found = next((one for one in kept if one["Id"] == number), None)
    if found is None:
        raise error.NotFound(f"no subscription {number}")
    if flask.request.method == "DELETE":
        update("log_servers", [one for one in kept if one is not found])
        return "", 204
    return {
        **resource("EventDestination.v1_14_0", f"EventService/Subscriptions/{number}", "Syslog subscription"),
        **found,
    }


@app.route("/redfish/v1/Managers/<identity>/EthernetInterfaces")
def manager_ports(identity: str) -> Json:
    driver.node(identity)
    path = f"Managers/{identity}/EthernetInterfaces"
    return collection("EthernetInterfaceCollection", path, "BMC ports", [link(f"{path}/bmc")])


@app.route("/redfish/v1/Managers/<identity>/EthernetInterfaces/bmc")
def manager_port(identity: str) -> Json:
    server = driver.node(identity)
    return resource(
        "EthernetInterface.v1_5_1",
        f"Managers/{identity}/EthernetInterfaces/bmc",
        "BMC port",
        MACAddress=server["bmc_mac"],
        PermanentMACAddress=server["bmc_mac"],
        LinkStatus="LinkUp",
        IPv4Addresses=[{"Address": server["bmc_address"], "AddressOrigin": "Static"}],
    )


# ---- accounts and sessions ------------------------------------------------------------------------------------------
@app.route("/redfish/v1/AccountService")
def account_service() -> Json:
    return resource(
        "AccountService.v1_7_0",
        "AccountService",
        "Accounts",
        ServiceEnabled=True,
        MinPasswordLength=8,
        Accounts=link("AccountService/Accounts"),
    )


def account_resource(number: str, entry: Json) -> Json:
    return resource(
        "ManagerAccount.v1_5_0",
        f"AccountService/Accounts/{number}",
        f"Account {number}",
        UserName=entry["user"],
        Password=None,
        RoleId=entry["role"],
        Enabled=entry["enabled"],
        PasswordChangeRequired=entry.get("must_change", False),
    )


def checked_password(data: Json) -> str:
    password = data.get("Password")
    if not isinstance(password, str) or not 8 <= len(password) <= 64:
        raise error.BadRequest("Password must have 8 to 64 characters")
    return password


@app.route("/redfish/v1/AccountService/Accounts", methods=["GET", "POST"])
def accounts() -> Any:
    known = own()["accounts"]
    if flask.request.method == "GET":
        members = [link(f"AccountService/Accounts/{number}") for number in sorted(known, key=int)]
        return collection("ManagerAccountCollection", "AccountService/Accounts", "Accounts", members)
    data = body()
    user = str(data.get("UserName", ""))
    if not user or any(entry["user"] == user for entry in known.values()):
        raise error.Conflict(f"account {user!r} exists or has no name")
    number = str(max(map(int, known), default=0) + 1)
    entry = account(user, checked_password(data), str(data.get("RoleId", "Administrator")))
    update("accounts", {**known, number: entry})
    made = account_resource(number, entry)
    return made, 201, {"Location": made["@odata.id"]}


@app.route("/redfish/v1/AccountService/Accounts/<number>", methods=["GET", "PATCH", "DELETE"])
def one_account(number: str) -> Any:
    known = own()["accounts"]
    if number not in known:
        raise error.NotFound(f"no account {number}")
    if flask.request.method == "GET":
        return account_resource(number, known[number])
    if flask.request.method == "DELETE":
        update("accounts", {key: entry for key, entry in known.items() if key != number})
        return "", 204
    data = body()
    entry = known[number]
    if "Password" in data:
        entry = with_password(entry, checked_password(data))
    entry = {
        **entry,
        "enabled": bool(data.get("Enabled", entry["enabled"])),
        "role": data.get("RoleId", entry["role"]),
        "user": data.get("UserName", entry["user"]),
    }
    update("accounts", {**known, number: entry})
    for token in [
        token
        for token, (_, address, user) in sessions.items()
        if user == entry["user"] and address == flask.request.environ["SERVER_NAME"]
    ]:
        del sessions[token]
    return "", 204


@app.route("/redfish/v1/SessionService")
def session_service() -> Json:
    return resource(
        "SessionService.v1_1_8",
        "SessionService",
        "Sessions",
        ServiceEnabled=True,
        Sessions=link("SessionService/Sessions"),
    )


@app.route("/redfish/v1/SessionService/Sessions", methods=["GET", "POST"])
def session_collection() -> Any:
    path, address = "SessionService/Sessions", flask.request.environ["SERVER_NAME"]
    if flask.request.method == "POST":
        data = body()
        user = str(data.get("UserName", ""))
        if not accepts(own()["accounts"], user, str(data.get("Password", ""))):
            return refused()
        token, number = secrets.token_hex(16), secrets.token_hex(4)
        sessions[token] = (number, address, user)
        made = resource("Session.v1_5_0", f"{path}/{number}", "Session", UserName=user)
        if restricted := may_only_change(own()["accounts"], user):
            made["@Message.ExtendedInfo"] = [change_required(restricted)]
        return made, 201, {"X-Auth-Token": token, "Location": made["@odata.id"]}
    members = [link(f"{path}/{number}") for number, where, _ in sessions.values() if where == address]
    return collection("SessionCollection", path, "Sessions", members)


@app.route("/redfish/v1/SessionService/Sessions/<number>", methods=["GET", "DELETE"])
def session(number: str) -> Any:
    address = flask.request.environ["SERVER_NAME"]
    for token, (found, where, user) in list(sessions.items()):
        if (found, where) == (number, address):
            if flask.request.method == "DELETE":
                del sessions[token]
                return "", 204
            return resource("Session.v1_5_0", f"SessionService/Sessions/{number}", "Session", UserName=user)
    raise error.NotFound(f"no session {number}")


def refused() -> Any:
    message = {"error": {"code": "Base.1.0.NoValidSession", "message": "wrong user name or password"}}
    return message, 401, {"WWW-Authenticate": 'Basic realm="BMC"'}


def change_required(number: str) -> Json:
    """The message that a login may do nothing but change the password of its account (DMTF, Base message registry)."""
    uri = f"/redfish/v1/AccountService/Accounts/{number}"
    return {
        "@odata.type": "#Message.v1_1_2.Message",
        "MessageId": "Base.1.18.PasswordChangeRequired",
        "Message": f"The password provided for this account must be changed before access is granted. PATCH Password at '{uri}'.",
        "MessageArgs": [uri],
        "Severity": "Critical",
    }


def restricted(user: str) -> Any:
    """What a login gets that asks for more than its own account while its password must be changed (DSP0266)."""
    number = may_only_change(own()["accounts"], user)
    request = flask.request
    own_account = request.endpoint == "one_account" and (request.view_args or {}).get("number") == number
    if not number or (own_account and request.method in ("GET", "PATCH")) or request.endpoint == "session":
        return None
    message = change_required(number)
    said = {"code": message["MessageId"], "message": message["Message"], "@Message.ExtendedInfo": [message]}
    return {"error": said}, 403


@app.before_request
def hang() -> None:
    """A BMC whose firmware hangs: it took the connection and says nothing until the client gives up or it is repaired."""
    end = time.monotonic() + HANG_LIMIT_S
    while own()["hangs"] and time.monotonic() < end:
        # The TLS layer offers no peek, so the descriptor is looked at below it.
        with socket.socket(fileno=os.dup(flask.request.environ["gunicorn.socket"].fileno())) as raw:
            raw.settimeout(HANG_POLL_S)
            try:
                gone = raw.recv(1, socket.MSG_PEEK) == b""
            except (TimeoutError, BlockingIOError):
                gone = False
            except OSError:
                gone = True
        if gone:
            raise error.Conflict("the client has given up")
        time.sleep(HANG_POLL_S)
        flask.g.pop("server", None)


@app.before_request
def garble() -> Any:
    """A BMC whose web server answers everything with a page."""
    page = "<html><body>Loading\x00</body></html>", 200, {"Content-Type": "text/html"}
    return page if own()["garbles"] == "page" else None


@app.before_request
def authenticate() -> Any:
    """The root, the session service and logging in are open; all else needs a session or an account of this BMC."""
    request = flask.request
    if request.endpoint in OPEN_ENDPOINTS or (request.endpoint == "session_collection" and request.method == "POST"):
        return None
    known = sessions.get(request.headers.get("X-Auth-Token", ""))
    if known and known[1] == request.environ["SERVER_NAME"]:
        return restricted(known[2])
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    try:
        user, _, password = base64.b64decode(token).decode().partition(":")
    except ValueError:
        user = password = ""
    if scheme.lower() == "basic" and accepts(own()["accounts"], user, password):
        return restricted(user)
    return refused()
