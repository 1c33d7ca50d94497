"""The BMC driver against a small Redfish service over TLS, and against servers that hang, trickle or talk nonsense."""

import base64
import copy
import datetime
import ipaddress
import json
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import ANY

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from network.drivers.credentials import BmcCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceTimeout,
    IdentityMismatch,
    LoginRefused,
    PasswordChangeRequired,
    Unreachable,
    UpdateFailed,
    UpdateGone,
    WriteRefused,
)
from network.drivers.parallel import many
from network.drivers.redfish import UNUSED_PROTOCOLS, Bmc
from tests.network.tls import self_signed

pytestmark = pytest.mark.clock

V1 = "/redfish/v1"
UUID = "d9c71cca-32b0-5fa1-8289-5008d84ff583"


def link(path):
    return {"@odata.id": f"{V1}/{path}"}


def members(*paths):
    return {"Members": [link(path) for path in paths], "Members@odata.count": len(paths)}


RESOURCES: dict[str, dict[str, Any]] = {
    "": {
        "Id": "RootService",
        "Name": "Root",
        "RedfishVersion": "1.6.0",
        "Systems": link("Systems"),
        "Links": {"Sessions": link("SessionService/Sessions")},
    },
    "Systems": {"Name": "Systems", **members("Systems/1")},
    "Systems/1": {
        "Id": "1",
        "Name": "gpu001",
        "Manufacturer": "SIMULATED test",
        "Model": "Server",
        "SerialNumber": "SN1",
        "UUID": UUID,
        "HostName": "gpu001",
        "PowerState": "Off",
        "PowerRestorePolicy": "LastState",
        "LocationIndicatorActive": False,
        "Status": {"Health": "OK", "State": "Enabled"},
        "Boot": {
            "BootSourceOverrideTarget": "None",
            "BootSourceOverrideEnabled": "Disabled",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd"],
        },
        "BootProgress": {"LastState": "None"},
        "Bios": link("Systems/1/Bios"),
        "EthernetInterfaces": link("Systems/1/EthernetInterfaces"),
        "LogServices": link("Systems/1/LogServices"),
        "Actions": {
            "#ComputerSystem.Reset": {
                "target": f"{V1}/Systems/1/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "ForceRestart", "GracefulShutdown"],
            }
        },
    },
    "Systems/1/Bios": {
        "Id": "Bios",
        "Name": "BIOS",
        "Attributes": {"SriovGlobalEnable": "Disabled", "NumaNodes": 4},
        "@Redfish.Settings": {
            "@odata.type": "#Settings.v1_3_0.Settings",
            "SettingsObject": link("Systems/1/Bios/Settings"),
        },
    },
    "Systems/1/Bios/Settings": {
        "Id": "Settings",
        "Name": "BIOS settings",
        "Attributes": {"SriovGlobalEnable": "Disabled", "NumaNodes": 4},
    },
    "Systems/1/EthernetInterfaces": members("Systems/1/EthernetInterfaces/eth0"),
    "Systems/1/EthernetInterfaces/eth0": {"Id": "eth0", "Name": "eth0", "MACAddress": "02:42:10:00:01:01"},
    "Systems/1/LogServices": members("Systems/1/LogServices/SEL"),
    "Systems/1/LogServices/SEL": {"Id": "SEL", "Name": "SEL", "Entries": link("Systems/1/LogServices/SEL/Entries")},
    "Systems/1/LogServices/SEL/Entries": {
        "Members": [
            {
                "@odata.id": f"{V1}/x/1",
                "Id": "1",
                "Created": "2026-01-01T00:00:00Z",
                "Severity": "OK",
                "Message": "System powered on",
            }
        ]
    },
    "Chassis": members("Chassis/1"),
    "Chassis/1": {"Id": "1", "Name": "Chassis", "Power": link("Chassis/1/Power")},
    "Chassis/1/Power": {
        "Id": "Power",
        "PowerControl": [{"PowerConsumedWatts": 840}],
        "PowerSupplies": [
            {
                "Name": "PSU 1",
                "Status": {"State": "Enabled", "Health": "OK"},
                "LineInputVoltage": 240,
                "PowerInputWatts": 840,
                "PowerCapacityWatts": 3300,
            },
            {"Name": "PSU 2", "Status": {"State": "UnavailableOffline", "Health": "Critical"}, "LineInputVoltage": 0},
        ],
        "Redundancy": [{"Name": "PSUs", "Mode": "N+m", "Status": {"State": "StandbyOffline", "Health": "Warning"}}],
    },
    "Managers": members("Managers/1"),
    "Managers/1": {
        "Id": "1",
        "Model": "BMC",
        "FirmwareVersion": "2.1",
        "NetworkProtocol": link("Managers/1/NetworkProtocol"),
    },
    "Managers/1/NetworkProtocol": {
        "NTP": {"ProtocolEnabled": False, "NTPServers": []},
        "IPMI": {"ProtocolEnabled": False},
        "HTTPS": {"ProtocolEnabled": True, "Port": 443},
    },
    "AccountService": {"Accounts": link("AccountService/Accounts")},
    "AccountService/Accounts": members("AccountService/Accounts/1"),
    "AccountService/Accounts/1": {
        "@odata.id": f"{V1}/AccountService/Accounts/1",
        "Id": "1",
        "UserName": "admin",
        "RoleId": "Administrator",
        "Enabled": True,
    },
    "UpdateService": {"FirmwareInventory": link("UpdateService/FirmwareInventory")},
    "UpdateService/FirmwareInventory": members("UpdateService/FirmwareInventory/BIOS"),
    "UpdateService/FirmwareInventory/BIOS": {"Id": "BIOS", "Name": "BIOS", "Version": "1.4"},
}


SUBJECT = {
    "CommonName": "gpu001-bmc",
    "Organization": "Example",
    "OrganizationalUnit": "Cluster",
    "City": "Reno",
    "State": "NV",
    "Country": "US",
}


class Service(BaseHTTPRequestHandler):
    """A Redfish service in memory: GET and PATCH on resources, reset, accounts, Basic authentication."""

    resources: dict[str, dict[str, Any]]
    passwords: ClassVar[dict[str, str]]
    writes: ClassVar[list[tuple[str, Any]]]
    port: int
    ca: Path
    sessions: ClassVar[dict[str, str]]
    logins: ClassVar[list[str]]
    etags: ClassVar[dict[str, int]]
    refuse_reset = False
    drop_patches = False
    outdated = 0
    forbidden = False
    csr_answer: Any = None
    context: ssl.SSLContext
    own: tuple[Path, Path]
    fixed_slots = False
    tasks: ClassVar[list[Any]] = []
    weak_etags = False
    must_change: ClassVar[set[str]] = set()
    tells: Any = (f"{V1}/AccountService/Accounts/1",)
    session_tells = True

    def log_message(self, *_):
        """Quiet."""

    def reply(self, status, body=None, headers=()):
        data = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def path_of(self):
        return self.path.removeprefix(V1).strip("/")

    def allowed(self):
        if self.path_of() == "" or (self.path_of() == "SessionService/Sessions" and self.command == "POST"):
            return True
        if self.headers.get("X-Auth-Token"):
            if self.forbidden and self.command == "GET":
                self.reply(403, {"error": {"code": "Base.1.0.InsufficientPrivilege", "message": "no"}})
                return False
            if self.headers["X-Auth-Token"] in self.sessions:
                self.logins.append("session")
                return self.unrestricted(self.sessions[self.headers["X-Auth-Token"]])
            self.reply(401, {"error": {"code": "Base.1.0.NoValidSession", "message": "no"}})
            return False
        self.logins.append("basic")
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        user, _, password = base64.b64decode(given).decode().partition(":")
        if self.passwords.get(user) == password:
            return self.unrestricted(user)
        self.reply(401, {"error": {"code": "Base.1.0.NoValidSession", "message": "no"}})
        return False

    def unrestricted(self, user):
        """Whether a login may do this: with a password that must be changed first only that (DSP0266)."""
        own = self.path_of() == "AccountService/Accounts/1" and self.command in ("GET", "PATCH")
        if user not in self.must_change or own or self.path_of().startswith("SessionService/Sessions/"):
            return True
        said = {
            "code": "Base.1.18.PasswordChangeRequired",
            "message": "change it",
            "@Message.ExtendedInfo": self.told(),
        }
        self.reply(403, {"error": said})
        return False

    def told(self):
        args = {"MessageArgs": self.tells} if self.tells is not None else {}
        return [{"MessageId": "Base.1.18.PasswordChangeRequired", "Severity": "Critical", **args}]

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def do_GET(self):
        if self.allowed():
            if self.path_of() == "TaskService/Tasks/1" and self.tasks:
                task = self.tasks.pop(0) if len(self.tasks) > 1 else self.tasks[0]
                if task is not None:
                    self.reply(200, {"@odata.id": self.path, **task})
                    return
            found = self.resources.get(self.path_of())
            if found is None:
                self.reply(404, {"error": {"code": "Base.1.0.ResourceNotFound", "message": self.path}})
            else:
                etag = [("ETag", self.etag(self.path_of()))] if self.path_of() in self.etags else []
                self.reply(200, {"@odata.id": self.path, **found}, etag)

    def etag(self, path):
        return f'{"W/" if self.weak_etags else ""}"{self.etags[path]}"'

    def made_csr(self, name):
        """A signing request with a new key, which is kept beside its certificate; or what csr_answer says."""
        if self.csr_answer in ("hello", 7):
            return self.csr_answer
        weak = self.csr_answer == "weak"
        key = rsa.generate_private_key(65537, 1024) if weak else ec.generate_private_key(ec.SECP256R1())
        form = serialization.Encoding.PEM
        kept = key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        self.own[1].write_bytes(kept)
        subject = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, "elsewhere" if self.csr_answer == "other" else name)]
        )
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
        return request.public_bytes(form).decode()

    def do_DELETE(self):
        last = self.path.rsplit("/", 1)[-1]
        if not self.allowed():
            return
        if self.path_of().startswith(("AccountService", "EventService")):
            self.writes.append((self.path_of(), {}))
            if self.fixed_slots:
                self.reply(405)
                return
            del self.resources[self.path_of()]
            listed = self.resources[self.path_of().rpartition("/")[0]]["Members"]
            listed[:] = [m for m in listed if m != link(self.path_of())]
        self.sessions.pop(last, None)
        self.reply(204)

    def do_PATCH(self):
        if self.allowed():
            path, body = self.path_of(), self.body()
            if path in self.etags:
                type(self).outdated -= 1
                if self.outdated >= 0:
                    self.etags[path] += 1  # another client was faster
                if self.headers.get("If-Match") != f'"{self.etags[path]}"':
                    self.reply(412, {"error": {"code": "Base.1.0.PreconditionFailed", "message": "no"}})
                    return
            self.writes.append((path, body))
            if "Password" in body:
                user = body.get("UserName") or self.resources[path]["UserName"]
                self.passwords[user] = body.pop("Password")
                self.must_change.discard(user)
            if not self.drop_patches:
                for key, value in body.items():
                    old = self.resources[path].get(key)
                    self.resources[path][key] = {**old, **value} if isinstance(old, dict) else value
            self.reply(204)

    def do_POST(self):
        if not self.allowed():
            return
        if self.path_of() == "UpdateService/upload":
            self.writes.append((self.path_of(), self.rfile.read(int(self.headers["Content-Length"]))))
            self.reply(202, None, [("Location", f"https://127.0.0.1:{self.port}{V1}/TaskService/Tasks/1")])
            return
        path, body = self.path_of(), self.body()
        if path == "SessionService/Sessions":
            if self.passwords.get(body["UserName"]) != body["Password"]:
                self.reply(401, {"error": {"code": "Base.1.0.NoValidSession", "message": "no"}})
                return
            token = f"token-{len(self.logins)}-{len(self.sessions)}"
            self.sessions[token] = body["UserName"]
            must = body["UserName"] in self.must_change and self.session_tells
            said = {"@Message.ExtendedInfo": self.told()} if must else {}
            self.reply(201, said, [("X-Auth-Token", token), ("Location", f"{V1}/{path}/{token}")])
            return
        self.writes.append((path, body))
        if path.endswith("ComputerSystem.Reset"):
            if self.refuse_reset:
                self.reply(409, {"error": {"code": "Base.1.0.ActionNotSupported", "message": "no feed"}})
                return
            self.resources["Systems/1"]["PowerState"] = "Off" if "Off" in body["ResetType"] else "On"
            self.reply(204)
        elif path.endswith("GenerateCSR"):
            self.reply(200, {"CSRString": self.made_csr(body["CommonName"])})
        elif path.endswith("ReplaceCertificate"):
            if not self.drop_patches:
                self.own[0].write_text(body["CertificateString"])
                self.context.load_cert_chain(*self.own)
            self.reply(204)
        elif path.endswith("UpdateService.SimpleUpdate"):
            task = f"{V1}/TaskService/Tasks/1"
            self.reply(202, {"@odata.id": task, "TaskState": "New"}, [("Location", f"{V1}/TaskService/TaskMonitors/1")])
        elif path.endswith(("VirtualMedia.InsertMedia", "VirtualMedia.EjectMedia")):
            if not self.drop_patches:
                self.resources[path.split("/Actions")[0]].update(body or {"Image": None, "Inserted": False})
            self.reply(204)
        elif path.endswith("Manager.Reset"):
            self.reply(204)
        elif path == "EventService/Subscriptions":
            new = f"{path}/{len(self.writes)}"
            self.resources[new] = {"@odata.id": f"{V1}/{new}", **body}
            self.resources[path]["Members"].append(link(new))
            self.reply(201, self.resources[new])
        elif path == "AccountService/Accounts" and self.fixed_slots:
            self.reply(405)
        elif path == "AccountService/Accounts":
            new = f"{path}/2"
            self.passwords[body["UserName"]] = body.pop("Password")
            self.resources[new] = {"@odata.id": f"{V1}/{new}", "Id": "2", **body}
            self.resources[path]["Members"].append(link(new))
            self.reply(201, self.resources[new])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1 and its key, as PEM files."""
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def service(certificate, tmp_path):
    """A running service; its class attributes are its state."""

    class OneService(Service):
        resources = copy.deepcopy(RESOURCES)
        passwords: ClassVar[dict[str, str]] = {"admin": "factory-pw"}
        writes: ClassVar[list[tuple[str, Any]]] = []
        sessions: ClassVar[dict[str, str]] = {}
        logins: ClassVar[list[str]] = []
        etags: ClassVar[dict[str, int]] = {}
        must_change: ClassVar[set[str]] = set()

    handler = OneService
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    handler.port = server.server_address[1]
    handler.ca = certificate[0]
    handler.context, handler.own = context, (tmp_path / "own.pem", tmp_path / "own.key")
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


MODELLED = Path(__file__).parents[2] / "data/modelled/redfish"


def of_maker(service, maker):
    """Lay a maker's modelled resources over those of the service."""
    for path, resource in json.loads((MODELLED / f"{maker}.json").read_text()).items():
        if resource is None:
            del service.resources[path]
        else:
            service.resources[path] = {**service.resources.get(path, {}), **resource}


def bmc(service, password="factory-pw", budget_s=10, **expected):
    credentials = BmcCredentials("admin", password, service.ca)
    return Bmc("127.0.0.1", credentials, budget_s, name="gpu001", port=service.port, **expected)


def test_everything_is_read(service):
    b = bmc(service)
    assert b.identity() == {
        "manufacturer": "SIMULATED test",
        "model": "Server",
        "serial": "SN1",
        "uuid": UUID,
        "hostname": "gpu001",
        "bmc_model": "BMC",
        "bmc_firmware": "2.1",
    }
    assert b.state()["power"] == "Off"
    supplies = b.psus()
    assert [(p["state"], p["rating_w"]) for p in supplies["psus"]] == [("Enabled", 3300), ("UnavailableOffline", None)]
    assert supplies["redundancy"][0]["health"] == "Warning"
    assert supplies["consumed_w"] == 840
    assert b.firmware() == {"BIOS": "1.4"}
    assert b.nics() == {"eth0": "02:42:10:00:01:01"}
    assert [entry["message"] for entry in b.sel()] == ["System powered on"]
    assert b.protocols() == {"NTP": False, "IPMI": False, "HTTPS": True}


@pytest.mark.parametrize(
    ("progress", "reset_at", "took_s"),
    [
        ({"LastState": "OSRunning", "LastBootTimeSeconds": 412.5}, None, 412.5),
        ({"LastState": "OSRunning", "LastStateTime": "2026-11-29T10:07:00Z"}, "2026-11-29T10:00:00+00:00", 420.0),
        ({"LastState": "OSBootStarted", "LastStateTime": "2026-11-29T10:07:00Z"}, "2026-11-29T10:00:00Z", None),
        ({"LastState": "OSRunning", "LastStateTime": "2026-11-29T09:00:00Z"}, "2026-11-29T10:00:00Z", None),
        ({"LastState": "OSRunning", "LastStateTime": "2026-11-29T10:07:00Z"}, "2026-11-29T10:00:00", None),
        ({"LastState": "OSRunning"}, "2026-11-29T10:00:00Z", None),
        (None, None, None),
    ],
)
def test_the_time_of_a_start_is_what_the_bmc_tells_in_either_form(service, progress, reset_at, took_s):
    service.resources["Systems/1"] |= {"BootProgress": progress, "LastResetTime": reset_at}
    assert bmc(service).state()["boot_s"] == took_s


def test_processors_and_memory_are_those_of_the_bmcs_summary(service):
    service.resources["Systems/1"] |= {
        "ProcessorSummary": {"Count": 2},
        "MemorySummary": {"TotalSystemMemoryGiB": 2048},
    }
    state = bmc(service).state()
    assert (state["processors"], state["memory_gib"]) == (2, 2048)
    service.resources["Systems/1"]["ProcessorSummary"]["Count"] = "two"
    with pytest.raises(BadAnswer, match="processors"):
        bmc(service).state()


def test_power_is_switched_once_and_read_back(service):
    b = bmc(service)
    assert b.power("On") is True
    assert b.state()["power"] == "On"
    assert b.power("On") is False
    assert [path for path, _ in service.writes] == ["Systems/1/Actions/ComputerSystem.Reset"]


def test_a_power_action_is_told_once_it_was_followed(service):
    heard = []
    b = bmc(service, acted=lambda *act: heard.append(act))
    assert b.power("On") is True
    assert b.power("On") is False
    service.refuse_reset = True
    with pytest.raises(WriteRefused):
        b.power("ForceOff")
    assert heard == [("On", "Off", "On")]


def test_a_reset_that_the_bmc_refuses_says_why(service):
    service.refuse_reset = True
    with pytest.raises(WriteRefused, match="gpu001: reset On: .*HTTP 409 no feed"):
        bmc(service).power("On")


def test_the_boot_override_is_set_and_read_back(service):
    b = bmc(service)
    b.set_boot("Pxe")
    assert (b.state()["boot_target"], b.state()["boot_enabled"]) == ("Pxe", "Once")


def test_bios_attributes_wait_for_a_boot_and_are_not_written_twice(service):
    b = bmc(service)
    assert b.set_bios({"SriovGlobalEnable": "Enabled", "NumaNodes": 4}) == {"SriovGlobalEnable": "Enabled"}
    assert b.bios()["current"]["SriovGlobalEnable"] == "Disabled"
    assert b.bios()["pending"] == {"SriovGlobalEnable": "Enabled"}
    assert b.set_bios({"SriovGlobalEnable": "Enabled"}) == {}
    assert len(service.writes) == 1


def test_pending_bios_attributes_are_given_a_time_where_the_bmc_lists_it(service):
    service.resources["Systems/1/Bios"]["@Redfish.Settings"]["SupportedApplyTimes"] = [
        "OnReset",
        "AtMaintenanceWindowStart",
    ]
    bmc(service).set_bios({"NumaNodes": 2})
    ((_, body),) = service.writes
    assert body == {"Attributes": {"NumaNodes": 2}, "@Redfish.SettingsApplyTime": ANY}
    assert body["@Redfish.SettingsApplyTime"]["ApplyTime"] == "OnReset"


def test_an_unknown_bios_attribute_is_refused_before_anything_is_written(service):
    with pytest.raises(WriteRefused, match="unknown: HyperSpeed"):
        bmc(service).set_bios({"HyperSpeed": "On", "NumaNodes": 2})
    assert service.writes == []


def with_subscriptions(service):
    """The service with an EventService whose subscriptions are those of a listener and of a log server nobody planned."""
    service.resources[""]["EventService"] = link("EventService")
    service.resources["EventService"] = {"Subscriptions": link("EventService/Subscriptions")}
    known = {
        "a": {"Destination": "https://10.0.0.9/events", "Protocol": "Redfish", "SubscriptionType": "RedfishEvent"},
        "b": {"Destination": "syslog://10.9.9.9:514", "Protocol": "SyslogUDP", "SubscriptionType": "Syslog"},
    }
    service.resources["EventService/Subscriptions"] = members(*(f"EventService/Subscriptions/{key}" for key in known))
    service.resources |= {f"EventService/Subscriptions/{key}": one for key, one in known.items()}


def with_nvidia(service):
    off = {"State": "Disabled", "Address": "", "Port": 0, "TransportProtocol": "UDP", "TLS": "Disabled"}
    service.resources["Managers/1/NetworkProtocol"]["Oem"] = {"Nvidia": {"Rsyslog": off}}


def with_hpe(service):
    off = {"RemoteSyslogEnabled": False, "RemoteSyslogPort": 514, "RemoteSyslogServer": ""}
    service.resources["Managers/1/NetworkProtocol"]["Oem"] = {"Hpe": off}


def with_old_supermicro(service):
    of_maker(service, "supermicro")
    off = {"EnableSyslog": False, "SyslogServer": "", "SyslogPortNumber": 514}
    service.resources["Managers/1/Oem/Supermicro/Syslog"] = off


LOG_SERVERS = {
    "subscriptions": (with_subscriptions, 8),
    "nvidia": (with_nvidia, 1),
    "hpe": (with_hpe, 1),
    "supermicro": (lambda service: of_maker(service, "supermicro"), 2),
    "old supermicro": (with_old_supermicro, 1),
    "dell": (lambda service: of_maker(service, "dell-idrac10"), 3),
}


@pytest.mark.parametrize(("lay", "most"), LOG_SERVERS.values(), ids=LOG_SERVERS)
def test_log_servers_are_set_where_the_maker_keeps_them_and_read_back(service, lay, most):
    lay(service)
    b, wanted = bmc(service), ["10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4"]
    assert b.log_servers() == {"servers": ["10.9.9.9"] if most == 8 else [], "most": most}
    assert b.set_log_servers(wanted) is True
    assert b.log_servers() == {"servers": wanted[:most], "most": most}
    writes = len(service.writes)
    assert b.set_log_servers(wanted) is False
    assert len(service.writes) == writes
    assert b.set_log_servers(["10.77.0.2"]) is True
    assert b.log_servers()["servers"] == ["10.77.0.2"]


def test_other_subscriptions_stay_as_they_are(service):
    with_subscriptions(service)
    bmc(service).set_log_servers(["10.77.0.1"])
    kept = [one["@odata.id"].rpartition("/")[2] for one in service.resources["EventService/Subscriptions"]["Members"]]
    assert kept[0] == "a"
    assert "b" not in kept
    (sent,) = [body for path, body in service.writes if path == "EventService/Subscriptions"]
    wanted = {"Destination": "syslog://10.77.0.1:514", "Protocol": "SyslogUDP", "SubscriptionType": "Syslog"}
    assert wanted.items() <= sent.items()


def test_a_bmc_that_shows_no_way_to_set_log_servers_says_so(service):
    b = bmc(service)
    assert b.log_servers() == {"servers": [], "most": 0}
    with pytest.raises(WriteRefused, match="gpu001: set log servers: expected a syslog subscription of EventService"):
        b.set_log_servers(["10.77.0.1"])


@pytest.mark.parametrize("lay", [with_nvidia, with_hpe])
def test_log_servers_that_do_not_read_back_are_refused(service, lay):
    lay(service)
    service.drop_patches = True
    with pytest.raises(WriteRefused, match=r"log servers \['10\.77\.0\.1'\], saw log servers \[\]"):
        bmc(service).set_log_servers(["10.77.0.1"])


@pytest.mark.parametrize(
    "garbage", [7, [], "x", {"Nvidia": []}, {"Nvidia": {"Rsyslog": {"State": "Enabled", "Address": 7}}}]
)
def test_garbage_in_the_place_of_log_servers_is_no_traceback(service, garbage):
    service.resources["Managers/1/NetworkProtocol"]["Oem"] = garbage
    if isinstance(garbage, dict) and garbage["Nvidia"]:
        with pytest.raises(BadAnswer, match="read log servers"):
            bmc(service).log_servers()
    else:
        assert bmc(service).log_servers() == {"servers": [], "most": 0}


def test_led_time_servers_and_restore_policy_are_written_and_read_back(service):
    b = bmc(service)
    b.led(True)
    assert b.state()["led_on"] is True
    assert b.set_ntp(["10.77.1.1"]) is True
    assert b.ntp() == ["10.77.1.1"]
    assert b.set_ntp(["10.77.1.1"]) is False
    b.set_restore_policy("AlwaysOn")
    assert b.state()["restore_policy"] == "AlwaysOn"


def test_network_services_are_switched_off_where_the_bmc_has_them(service):
    network = service.resources["Managers/1/NetworkProtocol"]
    network["IPMI"] = {"ProtocolEnabled": True, "Port": 623}
    b = bmc(service)
    assert b.disable_protocols(UNUSED_PROTOCOLS) is True
    assert network["IPMI"] == {"ProtocolEnabled": False, "Port": 623}
    assert "Telnet" not in network
    assert b.disable_protocols(UNUSED_PROTOCOLS) is False
    network["IPMI"]["ProtocolEnabled"], service.drop_patches = True, True
    with pytest.raises(WriteRefused, match="disable protocols: expected IPMI False, saw IPMI True"):
        b.disable_protocols(UNUSED_PROTOCOLS)


def test_a_setting_that_the_bmc_ignores_is_named(service):
    service.drop_patches = True
    with pytest.raises(WriteRefused, match="gpu001: set identify LED: expected on True, saw on False"):
        bmc(service).led(True)


def test_the_factory_password_is_replaced_and_then_refused(service):
    b = bmc(service)
    b.change_password("admin", "site-pw")
    assert b.identity()["serial"] == "SN1"
    assert b.login_refused("admin", "factory-pw")
    assert not b.login_refused("admin", "site-pw")


def test_an_account_is_created_once(service):
    b = bmc(service)
    assert b.ensure_account("ops", "ops-pw", "Operator") is True
    assert [(a["user"], a["role"]) for a in b.accounts()] == [("admin", "Administrator"), ("ops", "Operator")]
    assert b.ensure_account("ops", "ops-pw", "Operator") is False
    assert not b.login_refused("ops", "ops-pw")


WRITES = {
    "power": lambda b: b.power("On"),
    "boot": lambda b: b.set_boot("Pxe"),
    "bios": lambda b: b.set_bios({"NumaNodes": 2}),
    "led": lambda b: b.led(True),
    "ntp": lambda b: b.set_ntp(["10.0.0.1"]),
    "protocols": lambda b: b.disable_protocols(UNUSED_PROTOCOLS),
    "policy": lambda b: b.set_restore_policy("AlwaysOn"),
    "account": lambda b: b.ensure_account("x", "y"),
    "password": lambda b: b.change_password("admin", "y"),
    "log": lambda b: b.clear_sel(),
    "media": lambda b: b.insert_media("http://10.77.1.1/management.iso"),
    "signing request": lambda b: b.signing_request(SUBJECT),
    "disable": lambda b: b.disable_account("root"),
    "delete": lambda b: b.delete_account("root"),
    "update": lambda b: b.simple_update("http://10.77.1.1/x.bin"),
    "push": lambda b: b.push_update(Path(__file__)),
    "no media": lambda b: b.eject_media(),
}


@pytest.mark.parametrize("write", WRITES)
def test_another_server_than_planned_is_never_written_to(service, write):
    with pytest.raises(IdentityMismatch, match="expected serial SN2, saw serial SN1"):
        WRITES[write](bmc(service, serial="SN2", uuid=UUID))
    assert service.writes == []


def test_a_refused_login_names_the_user_and_not_the_password(service):
    with pytest.raises(LoginRefused, match="gpu001: read state: expected user admin accepted, saw HTTP 401") as refused:
        bmc(service, password="hunter2").state()
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(BmcCredentials("admin", "hunter2"))


def test_a_certificate_of_another_ca_is_not_accepted(service):
    other = Bmc("127.0.0.1", BmcCredentials("admin", "factory-pw"), 5, name="gpu001", port=service.port)
    with pytest.raises(LoginRefused, match="gpu001: read identity: expected a certificate signed by a system CA"):
        other.identity()


def test_missing_resources_and_fields_are_a_bad_answer(service):
    del service.resources["AccountService"]
    service.resources["Chassis/1"].pop("Power")
    with pytest.raises(BadAnswer, match="gpu001: read accounts"):
        bmc(service).accounts()
    with pytest.raises(BadAnswer, match="gpu001: read power supplies"):
        bmc(service).psus()


# ---- makers ----------------------------------------------------------------------------------------------------------
def test_supplies_of_a_power_subsystem_are_read_before_those_of_the_deprecated_power(service):
    of_maker(service, "dell-idrac10")
    power = bmc(service).psus()
    assert [(p["name"], p["health"], p["input_v"], p["input_w"], p["rating_w"]) for p in power["psus"]] == [
        ("PS1 Status", "OK", 232, 911, 2800),
        ("PS2 Status", "Critical", 0, None, 2800),
    ]
    assert power["redundancy"] == [{"name": "", "mode": "NPlusM", "state": "Enabled", "health": "OK"}]
    assert power["consumed_w"] == 911


def test_a_baseboard_without_supplies_does_not_hide_those_of_the_server(service):
    of_maker(service, "nvidia-dgx")
    assert [p["name"] for p in bmc(service).psus()["psus"]] == ["PSU 1", "PSU 2"]


def test_temperatures_and_fans_come_from_either_form(service):
    of_maker(service, "dell-idrac10")
    assert bmc(service).thermal() == {
        "temperatures": [
            {"chassis": "1", "name": "System Board Inlet Temp", "context": "Intake", "celsius": 24, "health": ""},
            {"chassis": "1", "name": "System Board Exhaust Temp", "context": "Exhaust", "celsius": 41, "health": ""},
            {"chassis": "1", "name": "summary Intake", "context": "Intake", "celsius": 24, "health": ""},
        ],
        "fans": [
            {
                "chassis": "1",
                "name": "System Board Fan1A",
                "state": "Enabled",
                "health": "OK",
                "rpm": 8520,
                "percent": 38,
            }
        ],
    }
    service.resources["Chassis/1"].pop("ThermalSubsystem")
    of_maker(service, "supermicro")
    read = bmc(service).thermal()
    assert [(t["name"], t["celsius"], t["health"]) for t in read["temperatures"]] == [
        ("CPU1 Temp", 51, "OK"),
        ("GPU8 Temp", None, ""),
    ]
    assert [(f["name"], f["rpm"], f["percent"]) for f in read["fans"]] == [("FAN1", 9100, None)]


def test_a_temperature_that_is_no_number_is_unreadable(service):
    of_maker(service, "supermicro")
    service.resources["Chassis/1/Thermal"]["Temperatures"][0]["ReadingCelsius"] = "hot"
    with pytest.raises(BadAnswer, match=r"read temperatures: expected a number at temperatures\[0\].celsius"):
        bmc(service).thermal()


@pytest.mark.parametrize(("maker", "place"), [("dell-idrac10", "Settings"), ("nvidia-dgx", "SD")])
def test_a_boot_override_is_written_to_the_settings_object_that_has_it(service, maker, place):
    of_maker(service, maker)
    bmc(service).set_boot("Pxe")
    assert [path for path, _ in service.writes] == [f"Systems/1/{place}"]


def test_supermicro_is_sent_the_boot_mode_and_boots_virtual_media_as_a_usb_drive(service):
    of_maker(service, "supermicro")
    service.resources["Systems/1"]["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"] = ["Pxe", "Cd", "UsbCd"]
    bmc(service).set_boot("Cd")
    override = {
        "BootSourceOverrideTarget": "UsbCd",
        "BootSourceOverrideEnabled": "Once",
        "BootSourceOverrideMode": "UEFI",
    }
    assert service.writes == [("Systems/1", {"Boot": override})]


def test_a_boot_source_that_the_bmc_does_not_list_is_refused_before_a_write(service):
    with pytest.raises(WriteRefused, match="set boot override: expected a boot source UefiHttp, saw None, Pxe, Hdd"):
        bmc(service).set_boot("UefiHttp")
    assert service.writes == []


@pytest.mark.parametrize("maker", ["dell-idrac10", "supermicro", "nvidia-dgx"])
def test_secure_boot_is_read_and_set_for_the_next_boot(service, maker):
    of_maker(service, maker)
    of_maker(service, "secure-boot")
    b = bmc(service)
    assert b.secure_boot() == {"enabled": False, "in_force": False, "mode": "DeployedMode"}
    assert b.tpms() == [{"kind": "TPM2_0", "state": "Enabled", "firmware": "7.2.3.1"}]
    assert b.set_secure_boot(True) is True
    assert b.set_secure_boot(True) is False
    assert b.secure_boot() == {"enabled": True, "in_force": False, "mode": "DeployedMode"}
    assert service.writes == [("Systems/1/SecureBoot", {"SecureBootEnable": True})]


def test_secure_boot_without_a_platform_key_is_refused_and_can_be_switched_off(service):
    of_maker(service, "secure-boot")
    service.resources["Systems/1/SecureBoot"]["SecureBootMode"] = "SetupMode"
    with pytest.raises(WriteRefused, match="set secure boot: expected a platform key, saw SecureBootMode SetupMode"):
        bmc(service).set_secure_boot(True)
    assert service.writes == []
    assert bmc(service).set_secure_boot(False) is False


def test_secure_boot_that_does_not_stick_is_named(service):
    of_maker(service, "secure-boot")
    service.drop_patches = True
    with pytest.raises(WriteRefused, match="expected SecureBootEnable True, saw SecureBootEnable False"):
        bmc(service).set_secure_boot(True)


@pytest.mark.parametrize("linked", [True, False])
def test_a_bmc_without_secure_boot_shows_none_and_refuses_to_set_it(service, linked):
    if linked:
        service.resources["Systems/1"]["SecureBoot"] = link("Systems/1/SecureBoot")
    assert bmc(service).secure_boot() is None
    assert bmc(service).tpms() == []
    with pytest.raises(WriteRefused, match="expected a SecureBoot resource, saw none"):
        bmc(service).set_secure_boot(True)


IMAGE = "http://10.77.1.1/management.iso"


@pytest.fixture(params=["action", "patch"])
def with_drive(request, service):
    """A manager with a virtual CD, with actions or without."""
    drive = {"Id": "Cd", "MediaTypes": ["CD", "DVD"], "Inserted": False, "Image": None}
    if request.param == "action":
        target = f"{V1}/Managers/1/VirtualMedia/Cd/Actions/VirtualMedia"
        drive["Actions"] = {f"#VirtualMedia.{a}": {"target": f"{target}.{a}"} for a in ("InsertMedia", "EjectMedia")}
    service.resources["Managers/1"]["VirtualMedia"] = link("Managers/1/VirtualMedia")
    service.resources["Managers/1/VirtualMedia"] = members("Managers/1/VirtualMedia/Cd")
    service.resources["Managers/1/VirtualMedia/Cd"] = drive
    return service


def test_virtual_media_is_inserted_once_and_ejected(with_drive):
    b = bmc(with_drive)
    assert b.insert_media(IMAGE) is True
    assert b.media() == [{"id": "Cd", "types": ["CD", "DVD"], "inserted": True, "image": IMAGE}]
    assert b.insert_media(IMAGE) is False
    assert b.insert_media(f"{IMAGE}.new") is True
    assert b.eject_media() is True
    assert b.eject_media() is False
    assert len(with_drive.writes) == 4


def test_media_that_does_not_arrive_is_named(with_drive):
    with_drive.drop_patches = True
    with pytest.raises(
        WriteRefused, match="insert virtual media: expected an inserted image, saw Inserted False.*byte ranges"
    ):
        bmc(with_drive, budget_s=2).insert_media(IMAGE)


def test_media_that_stays_in_is_named(with_drive):
    bmc(with_drive).insert_media(IMAGE)
    with_drive.drop_patches = True
    with pytest.raises(WriteRefused, match="eject virtual media: expected an empty drive, saw Inserted True.*by hand"):
        bmc(with_drive, budget_s=2).eject_media()


def test_a_server_without_virtual_drive_is_refused(service):
    with pytest.raises(WriteRefused, match="expected a virtual drive for CDs, saw no virtual media"):
        bmc(service).insert_media(IMAGE)


def test_an_image_address_with_a_login_is_refused_without_showing_it(service):
    with pytest.raises(ValueError, match="without a login") as refused:
        bmc(service).insert_media("http://user:hunter2@10.77.1.1/x.iso")
    assert "hunter2" not in str(refused.value)


# ---- accounts --------------------------------------------------------------------------------------------------------
@pytest.fixture(params=["collection", "slots"])
def with_accounts(request, service):
    """A BMC with roles, whose accounts are made by POST or are slots of which two are empty; ours is 'ops'."""
    service.fixed_slots = request.param == "slots"
    service.resources["AccountService"]["Roles"] = link("AccountService/Roles")
    service.resources["AccountService/Roles"] = members("AccountService/Roles/1", "AccountService/Roles/2")
    service.resources["AccountService/Roles/1"] = {"Id": "Administrator", "RoleId": "Administrator"}
    service.resources["AccountService/Roles/2"] = {"Id": "ReadOnly"}
    if service.fixed_slots:
        for n in (1, 3):
            path = f"AccountService/Accounts/{n}" if n > 1 else "AccountService/Accounts/slot1"
            service.resources[path] = {"Id": str(n), "UserName": "", "RoleId": "None", "Enabled": False}
            service.resources["AccountService/Accounts"]["Members"].insert(0 if n == 1 else 9, link(path))
    return service


def test_an_account_is_made_and_the_factory_one_disabled_with_it(with_accounts):
    factory = bmc(with_accounts)
    assert factory.roles() == ["Administrator", "ReadOnly"]
    assert factory.ensure_account("ops", "ops-password") is True
    assert factory.ensure_account("ops", "ops-password") is False
    with pytest.raises(WriteRefused, match="disable account admin: .*saw admin is logged in"):
        factory.disable_account("admin")
    credentials = BmcCredentials("ops", "ops-password", with_accounts.ca)
    ours = Bmc("127.0.0.1", credentials, 10, name="gpu001", port=with_accounts.port)
    assert ours.disable_account("admin") is True
    assert ours.disable_account("admin") is False
    assert {a["user"]: a["enabled"] for a in ours.accounts()} == {"admin": False, "ops": True}


def test_an_account_is_deleted(with_accounts):
    b = bmc(with_accounts)
    b.ensure_account("ops", "ops-password", "ReadOnly")
    assert b.delete_account("ops") is True
    assert b.delete_account("ops") is False
    assert [a["user"] for a in b.accounts()] == ["admin"]
    with pytest.raises(WriteRefused, match="saw admin is logged in"):
        b.delete_account("admin")


def test_a_role_that_the_bmc_does_not_have_is_refused_with_those_it_has(with_accounts):
    with pytest.raises(WriteRefused, match="expected a role Operator, saw Administrator, ReadOnly"):
        bmc(with_accounts).ensure_account("ops", "ops-password", "Operator")
    assert with_accounts.writes == []


def test_an_account_that_stays_enabled_is_named(service):
    service.resources["AccountService/Accounts/2"] = {"Id": "2", "UserName": "root", "RoleId": "x", "Enabled": True}
    service.resources["AccountService/Accounts"]["Members"].append(link("AccountService/Accounts/2"))
    service.drop_patches = True
    with pytest.raises(WriteRefused, match="disable account root: expected Enabled False, saw Enabled True"):
        bmc(service).disable_account("root")


# ---- certificate -----------------------------------------------------------------------------------------------------
@pytest.fixture
def with_certificates(service):
    actions = {
        f"#CertificateService.{a}": {"target": f"{V1}/CertificateService/Actions/CertificateService.{a}"}
        for a in ("GenerateCSR", "ReplaceCertificate")
    }
    service.resources[""]["CertificateService"] = link("CertificateService")
    service.resources["CertificateService"] = {"Id": "CertificateService", "Actions": actions}
    collection = "Managers/1/NetworkProtocol/HTTPS/Certificates"
    service.resources[collection] = members(f"{collection}/1")
    return service


def signed(csr, certificate):
    """The certificate for a signing request, by the key of the service's first certificate."""
    ca = x509.load_pem_x509_certificate(certificate[0].read_bytes())
    key = serialization.load_pem_private_key(certificate[1].read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    request, now = x509.load_pem_x509_csr(csr.encode()), datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder().subject_name(request.subject).issuer_name(ca.subject)
    built = built.public_key(request.public_key()).serial_number(2).not_valid_before(now - datetime.timedelta(hours=1))
    built = built.not_valid_after(now + datetime.timedelta(hours=1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return (
        built.add_extension(names, False).sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    )


def test_a_certificate_is_asked_for_signed_and_presented(with_certificates, certificate):
    b = bmc(with_certificates)
    csr = b.signing_request(SUBJECT, ["127.0.0.1"])
    pem = signed(csr, certificate)
    b.install_certificate(pem)
    presented = ssl.get_server_certificate(("127.0.0.1", with_certificates.port))
    assert presented.split() == pem.split()
    assert b.state()["power"] == "Off"


def test_a_certificate_that_is_not_presented_is_named(with_certificates, certificate):
    b = bmc(with_certificates, budget_s=2)
    with_certificates.drop_patches = True
    with pytest.raises(WriteRefused, match="install certificate: expected the new certificate, saw another one"):
        b.install_certificate(signed(b.signing_request(SUBJECT), certificate))


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        ("hello", "expected a signing request in PEM"),
        (7, "expected a signing request of at most 32768 characters"),
        ("other", "expected a signing request for gpu001-bmc, saw one for elsewhere"),
        ("weak", "expected a key of at least 2048 bits, saw 1024 bits"),
    ],
)
def test_an_answer_that_is_not_the_signing_request_is_unreadable(with_certificates, answer, seen):
    with_certificates.csr_answer = answer
    with pytest.raises(BadAnswer, match=f"make signing request: {seen}"):
        bmc(with_certificates).signing_request(SUBJECT)


def test_a_subject_without_a_field_is_refused_before_anything_is_asked(service):
    with pytest.raises(ValueError, match="look at Country"):
        bmc(service).signing_request({**SUBJECT, "Country": ""})
    with pytest.raises(WriteRefused, match=r"expected CertificateService.GenerateCSR, saw no such action"):
        bmc(service).signing_request(SUBJECT)


# ---- firmware --------------------------------------------------------------------------------------------------------
TASK = f"{V1}/TaskService/Tasks/1"


def running(percent, state="Running", health="OK", *messages):
    """A task in one of its states; messages are (id, severity)."""
    told = [
        {"MessageId": f"Update.1.0.{name}", "MessageSeverity": how, "Message": f"{name} text"} for name, how in messages
    ]
    return {"Name": "Update", "TaskState": state, "TaskStatus": health, "PercentComplete": percent, "Messages": told}


@pytest.fixture
def updates(service):
    """A service that takes images by address and by push, and whose one task goes through the states of `tasks`."""
    service.resources["UpdateService"] |= {
        "MultipartHttpPushUri": f"{V1}/UpdateService/upload",
        "MaxImageSizeBytes": 3_000_000,
        "Actions": {
            "#UpdateService.SimpleUpdate": {
                "target": f"{V1}/UpdateService/Actions/UpdateService.SimpleUpdate",
                "TransferProtocol@Redfish.AllowableValues": ["HTTP", "HTTPS"],
            }
        },
    }
    service.tasks = [running(0), running(40), running(40), running(100, "Completed")]
    return service


def follow(service, task, budget_s=5.0):
    seen = []
    bmc(service).follow_update(task, budget_s, lambda t: seen.append((t["state"], t["percent"])), poll_s=0.01)
    return seen


def test_an_image_is_fetched_by_the_bmc_and_its_task_followed(updates):
    task = bmc(updates).simple_update("https://10.77.1.1/bmc.bin", [f"{V1}/UpdateService/FirmwareInventory/BIOS"])
    assert task == TASK
    assert updates.writes[0][1] == {
        "ImageURI": "https://10.77.1.1/bmc.bin",
        "TransferProtocol": "HTTPS",
        "Targets": [f"{V1}/UpdateService/FirmwareInventory/BIOS"],
    }
    assert follow(updates, task) == [("Running", 0), ("Running", 40), ("Completed", 100)]


def test_an_image_is_pushed_whole_with_its_parameters(updates, tmp_path):
    image = tmp_path / "bios \u2028 1.5.bin"
    image.write_bytes(bytes(range(256)) * 4096)
    assert bmc(updates).push_update(image, ["/redfish/v1/x"]) == TASK
    ((_, body),) = updates.writes
    head, _, rest = body.partition(b"\r\n\r\n")
    assert b'name="UpdateParameters"' in head
    assert rest.startswith(b'{"Targets": ["/redfish/v1/x"]}\r\n--')
    assert b'name="UpdateFile"; filename="bios1.5.bin"' in rest
    assert image.read_bytes() in body


def test_an_image_that_is_too_large_is_not_sent(updates, tmp_path):
    (tmp_path / "x").write_bytes(bytes(3_000_001))
    with pytest.raises(
        WriteRefused, match="push update: expected an image of at most 3000000 bytes, saw 3000001 bytes"
    ):
        bmc(updates).push_update(tmp_path / "x")
    assert updates.writes == []


VERIFICATION = ("VerificationFailed", "Critical")


@pytest.mark.parametrize(
    ("last", "named"),
    [
        (running(60, "Exception", "Critical", ("TransferringToComponent", "OK"), VERIFICATION), "Verification"),
        (running(100, "Completed", "Critical", ("ApplyFailed", "Critical")), "Apply"),
        (running(100, "Completed", "Warning", ("ActivateFailed", "Warning")), "Activate"),
    ],
    ids=["exception", "completed critically", "completed with a warning"],
)
def test_an_update_that_fails_is_named_by_its_message_id(updates, last, named):
    updates.tasks = [running(10), last]
    with pytest.raises(
        UpdateFailed, match=f"expected task Completed, saw Update.1.0.{named}Failed: {named}Failed text; "
    ):
        follow(updates, TASK)


def test_a_task_without_reason_is_named_by_its_state(updates):
    updates.tasks = [running(None, "Killed", "")]
    with pytest.raises(UpdateFailed, match="saw task Killed: the BMC gives no reason"):
        follow(updates, TASK)


def test_an_update_that_does_not_end_is_named_with_what_was_seen_last(updates):
    updates.tasks = [running(40)]
    with pytest.raises(DeviceTimeout, match="expected an update that ends in 0.3 s, saw Running, 40 %"):
        follow(updates, TASK, 0.3)


def test_a_task_that_is_gone_after_a_restart_is_a_failure_of_its_own(updates):
    updates.tasks = [running(40), None]
    with pytest.raises(UpdateGone, match="saw no such task; the BMC may have restarted"):
        follow(updates, TASK)


def test_a_percentage_that_is_no_number_is_unreadable(updates):
    updates.tasks = [running("half")]
    with pytest.raises(BadAnswer, match="read update task: expected a number at percent"):
        follow(updates, TASK)


def test_firmware_of_one_name_goes_by_its_id_and_what_is_not_installed_is_left_out(service):
    listed = [("BMC-Primary", "Firmware:BMC", "3.0"), ("BMC-Backup", "Firmware:BMC", "2.9"), ("X", "BIOS", "1.4")]
    listed += [("Previous-159-1.3__BIOS", "BIOS", "1.3")]
    inventory = "UpdateService/FirmwareInventory"
    service.resources[inventory] = members(*(f"{inventory}/{item}" for item, _, _ in listed))
    for item, name, version in listed:
        service.resources[f"{inventory}/{item}"] = {
            "@odata.id": f"{V1}/{inventory}/{item}", "Id": item, "Name": name, "Version": version,
        }  # fmt: skip
    assert bmc(service).firmware() == {"BMC-Primary": "3.0", "BMC-Backup": "2.9", "BIOS": "1.4"}


def test_tasks_that_have_not_ended_are_listed(service):
    assert bmc(service).running_tasks() == []
    service.resources[""]["Tasks"] = link("TaskService")
    service.resources["TaskService"] = {"Tasks": link("TaskService/Tasks")}
    service.resources["TaskService/Tasks"] = members("TaskService/Tasks/1", "TaskService/Tasks/2")
    for number, state in (("1", "Completed"), ("2", "Running")):
        path = f"TaskService/Tasks/{number}"
        service.resources[path] = {"@odata.id": f"{V1}/{path}", "TaskState": state}
    service.tasks = []
    assert bmc(service).running_tasks() == [f"{V1}/TaskService/Tasks/2"]


@pytest.mark.parametrize(
    ("allowed", "sent"),
    [
        (["ForceRestart", "GracefulRestart"], "GracefulRestart"),
        (["ForceRestart"], "ForceRestart"),
        (None, "GracefulRestart"),
    ],
)
def test_a_bmc_restarts_by_the_gentlest_way_that_it_has(service, allowed, sent):
    path = service.resources["Managers"]["Members"][0]["@odata.id"].removeprefix(f"{V1}/")
    action = {"target": f"{V1}/{path}/Actions/Manager.Reset"}
    if allowed:
        action["ResetType@Redfish.AllowableValues"] = allowed
    service.resources[path]["Actions"] = {"#Manager.Reset": action}
    bmc(service).reset_bmc()
    assert service.writes == [(f"{path}/Actions/Manager.Reset", {"ResetType": sent})]


def test_a_bmc_that_cannot_be_restarted_is_refused(service):
    with pytest.raises(
        WriteRefused, match="restart BMC: expected Manager.Reset with GracefulRestart or ForceRestart, saw no"
    ):
        bmc(service).reset_bmc()


def test_a_bmc_without_update_actions_is_refused_with_the_other_way(service, tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    with pytest.raises(WriteRefused, match="saw no SimpleUpdate; push the image as a file instead"):
        bmc(service).simple_update("http://10.77.1.1/x")
    with pytest.raises(WriteRefused, match="expected MultipartHttpPushUri, saw none"):
        bmc(service).push_update(tmp_path / "x")


# ---- sessions and ETags ----------------------------------------------------------------------------------------------
@pytest.fixture
def with_sessions(service):
    service.resources[""]["SessionService"] = link("SessionService")
    return service


def test_a_bmc_without_session_service_is_asked_with_basic_authentication(service):
    bmc(service).state()
    assert set(service.logins) == {"basic"}


def test_a_session_is_used_and_ended_with_the_call(with_sessions):
    b = bmc(with_sessions)
    for _ in range(2):
        b.state()
        assert with_sessions.sessions == {}
    assert set(with_sessions.logins) == {"session"}


def test_a_session_is_kept_inside_of_with_and_ended_after_it(with_sessions):
    with bmc(with_sessions) as b:
        b.state()
        (token,) = with_sessions.sessions
        b.identity()
        assert list(with_sessions.sessions) == [token]
    assert with_sessions.sessions == {}


def test_a_session_that_the_bmc_has_ended_is_replaced_once(with_sessions):
    with bmc(with_sessions) as b:
        b.state()
        with_sessions.sessions.clear()
        assert b.state()["power"] == "Off"


def test_a_session_is_ended_after_a_failure(with_sessions):
    with pytest.raises(IdentityMismatch):
        bmc(with_sessions, serial="SN2").led(True)
    assert with_sessions.sessions == {}


def test_a_refused_session_names_the_user_and_not_the_password(with_sessions):
    with pytest.raises(LoginRefused, match="expected user admin accepted, saw HTTP 401") as refused:
        bmc(with_sessions, password="hunter2").state()
    assert "hunter2" not in str(refused.value)


def test_a_login_that_is_right_and_may_not_read_is_told_apart_and_is_no_refusal(with_sessions):
    with_sessions.forbidden = True
    with pytest.raises(LoginRefused, match="saw HTTP 403; the login is right: .* change its password"):
        bmc(with_sessions).state()
    assert bmc(with_sessions).login_refused("admin", "factory-pw") is False
    assert with_sessions.sessions == {}


@pytest.fixture(params=["a session that tells", "a session that does not tell", "basic"])
def demanding(request):
    """A BMC that wants the factory's password changed first: DSP0266, section on password change required handling."""
    service = request.getfixturevalue("service" if request.param == "basic" else "with_sessions")
    service.must_change.add("admin")
    service.session_tells = request.param == "a session that tells"
    return service


def test_a_password_that_must_be_changed_is_no_refusal_and_is_named(demanding):
    with pytest.raises(PasswordChangeRequired, match="saw HTTP 403, its password must be changed first; the login is"):
        bmc(demanding).state()
    assert bmc(demanding).login_refused("admin", "factory-pw") is False
    assert bmc(demanding).login_refused("admin", "hunter2") is True


def test_a_required_change_is_made_by_the_account_itself_and_proven(demanding):
    b = bmc(demanding)
    assert b.change_required_password("the-sites-own") is True
    assert [path for path, _ in demanding.writes] == ["AccountService/Accounts/1"]
    assert b.state()["power"] == "Off"
    assert b.login_refused("admin", "factory-pw")
    assert b.change_required_password("another") is False
    assert demanding.passwords == {"admin": "the-sites-own"}
    assert demanding.sessions == {}


def test_no_change_is_made_where_none_is_required(service):
    assert bmc(service).change_required_password("the-sites-own") is False
    assert service.writes == []


@pytest.mark.parametrize("tells", [None, (), ("http://elsewhere/Accounts/1",), ("/etc/passwd",), (7,)])
def test_without_the_accounts_address_nothing_is_written(demanding, tells):
    demanding.tells = tells
    with pytest.raises(BadAnswer, match="no address in it; change the password on the BMC's own page"):
        bmc(demanding).change_required_password("the-sites-own")
    assert demanding.writes == []


def test_the_password_of_another_account_is_not_changed(demanding):
    demanding.resources["AccountService/Accounts/1"]["UserName"] = "somebody"
    with pytest.raises(BadAnswer, match="expected the account of admin, saw that of somebody"):
        bmc(demanding).change_required_password("the-sites-own")
    assert demanding.writes == []


def test_a_change_that_is_not_kept_is_refused_and_shows_no_password(demanding, monkeypatch):
    monkeypatch.setattr(demanding, "do_PATCH", lambda self: (self.body(), self.reply(204)))
    with pytest.raises(WriteRefused, match="check the BMC's password rules") as refused:
        bmc(demanding).change_required_password("the-sites-own")
    assert "the-sites-own" not in str(refused.value)


def test_accounts_are_managed_over_sessions(with_sessions):
    b = bmc(with_sessions)
    assert b.ensure_account("ops", "ops-password") is True
    b.change_password("admin", "another-password")
    assert b.login_refused("admin", "factory-pw")
    assert b.state()["power"] == "Off"
    assert with_sessions.sessions == {}


@pytest.mark.parametrize("weak", [False, True])
def test_a_patch_names_the_version_that_it_changes(service, weak):
    service.etags["Systems/1"], service.weak_etags = 7, weak
    bmc(service).led(True)
    assert service.writes == [("Systems/1", {"LocationIndicatorActive": True})]


def test_a_change_in_between_is_read_again_once(service):
    service.etags["Systems/1"], service.outdated = 7, 1
    bmc(service).led(True)
    assert len(service.writes) == 1


def test_changes_in_between_that_do_not_end_are_refused(service):
    service.etags["Systems/1"], service.outdated = 7, 2
    with pytest.raises(WriteRefused, match="gpu001: set identify LED: expected success, saw HTTP 412"):
        bmc(service).led(True)
    assert service.writes == []


# ---- servers that are no BMC, on plain sockets ----------------------------------------------------------------------
def listen(answer):
    """(port, stop) of a TCP server that calls answer(connection) for each connection."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return server


def never(connection):
    time.sleep(30)


def garbage(connection):
    connection.sendall(b"\x00\xff not TLS at all\r\n\r\n")
    connection.close()


def tls(certificate, answer):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def wrapped(connection):
        with context.wrap_socket(connection, server_side=True) as secure:
            secure.recv(65535)
            answer(secure)

    return wrapped


def trickle(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(100):
        connection.sendall(b" ")
        time.sleep(0.2)


def truncated(connection):
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"Systems": ')


def no_json(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


@pytest.mark.parametrize(
    ("answer", "secure", "expected"),
    [
        (never, False, DeviceTimeout),
        (never, True, DeviceTimeout),
        (trickle, True, DeviceTimeout),
        (garbage, False, (LoginRefused, Unreachable, BadAnswer)),
        (truncated, True, (BadAnswer, Unreachable)),
        (no_json, True, BadAnswer),
    ],
    ids=["accepts and says nothing", "hangs after TLS", "trickles", "garbage", "truncated", "no JSON"],
)
def test_a_server_that_is_no_bmc_is_named_within_the_budget(certificate, answer, secure, expected):
    server = listen(tls(certificate, answer) if secure else answer)
    credentials = BmcCredentials("admin", "pw", certificate[0])
    b = Bmc("127.0.0.1", credentials, 2, name="gpu001", port=server.getsockname()[1])
    began = time.monotonic()
    with pytest.raises(expected, match="^gpu001: read identity: "):
        b.identity()
    assert time.monotonic() - began < 20
    server.close()


def test_one_absent_bmc_among_many_stops_no_other(service):
    absent = Bmc("127.0.0.1", BmcCredentials("admin", "pw", service.ca), 2, name="gpu002", port=1)
    answers = many([bmc(service), absent], Bmc.identity)
    assert not isinstance(answers["gpu001"], Exception)
    assert isinstance(answers["gpu002"], Unreachable)
