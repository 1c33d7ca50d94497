"""A key that is authorised, tried, revoked and tried again; and a login of a user of jobs who has none on the node.

    found = try_all(plan)          # {server: Tried}; leaves no trace

A throw-away key goes where the role `users` puts keys (sshd's AuthorizedKeysFile below /etc) and, still authorised, into sshd's
list of revoked keys (RevokedKeys, role `ssh`). It must log in before and be refused after: a refusal alone would also come from a
key that never worked. It can run `true` alone and expires by itself, so that a run that is killed leaves no way in. The files are
changed as root, by sudo where the login is another user.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from capacity.model import Plan
from capacity.services.slurm import CHECK_USERS, COMPUTE_ROLES
from network.drivers import answers
from network.drivers.answers import Line, Source
from network.drivers.credentials import node_credentials
from network.drivers.errors import DeviceError
from network.drivers.parallel import at_once
from network.drivers.ssh import SshHost
from validation.facts.gather import address_of
from validation.facts.probes import attempt, key_login, servers, throwaway_key, with_key

EXPIRES_MIN = 10
"""The key is good for no longer, by the node's clock (sshd(8), expiry-time)."""
OPERATION = "try a revoked key"
PROGRAM = f"""
import json, os, pwd, subprocess, sys, tempfile, time
request = json.loads(sys.argv[1])
key = request["key"]
said = subprocess.run(["/usr/sbin/sshd", "-T"], capture_output=True, text=True, check=True, timeout=10).stdout
settings = dict(line.partition(" ")[::2] for line in said.splitlines())
revoked = settings.get("revokedkeys", "none")
patterns = settings.get("authorizedkeysfile", "").split()
pattern = next((one for one in patterns if one.startswith("/") and one.count("%") == one.count("%u") == 1), "")
def change(path, line):
    try:
        old, mode = open(path).read(), os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        old, mode = "", 0o644
    lines = [one for one in old.splitlines(True) if key not in one]
    lines += [line + "\\n"] if line else []
    if "".join(lines) == old:
        return
    if not lines:
        os.unlink(path)
        return
    handle, new = tempfile.mkstemp(prefix=".bringup-", dir=os.path.dirname(path))
    with os.fdopen(handle, "w") as stream:
        stream.write("".join(lines))
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(new, mode)
    os.replace(new, path)
def free(name):
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return False
    return not any(one.isdigit() and owner("/proc/" + one) == uid for one in os.listdir("/proc"))
def owner(path):
    try:
        return os.stat(path).st_uid
    except OSError:
        return -1
known = [one.pw_name for one in pwd.getpwall()]
user = next((one for one in request["users"] if one in known and free(one)), "")
if pattern and revoked != "none":
    if request["verb"] == "authorise":
        until = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + {EXPIRES_MIN} * 60))
        line = 'restrict,command="true",expiry-time="' + until + '" ' + key
        for name in [request["login"], *([user] if user else [])]:
            change(pattern.replace("%u", name), line)
    elif request["verb"] == "revoke":
        change(revoked, key)
    else:
        for name in [request["login"], *request["users"]]:
            change(pattern.replace("%u", name), "")
        change(revoked, "")
print(json.dumps(dict(revoked=revoked, pattern=pattern, user=user, known=[one for one in request["users"] if one in known])))
"""


class _Told(TypedDict):
    """What PROGRAM prints."""

    revoked: Line
    pattern: Line
    user: Line
    known: list[Line]


@dataclass(frozen=True)
class Tried:
    """What a server made of the key. `authorised` and `revoked`: 'accepted', 'refused' or ssh's last words. `user`: who runs jobs
    and had none there, and `without_job` how that login ended; '' where nobody was tried. `error`: why nothing was tried.
    """

    error: str = ""
    authorised: str = ""
    revoked: str = ""
    user: str = ""
    without_job: str = ""

    def faults(self, *, compute: bool) -> list[str]:
        """What is wrong, a sentence each. `compute`: whether users run jobs on this server."""
        if self.error:
            return [f"a revoked key could not be tried: {self.error}"]
        found = []
        if self.authorised != "accepted":
            found.append(
                f"a key that was authorised did not log in, so that its refusal shows nothing: {self.authorised}"
            )
        if self.revoked != "refused":
            found.append(f"a revoked key was not refused: {self.revoked}")
        if compute and self.without_job != "refused":
            said = f"the login of {self.user} was not refused: {self.without_job}"
            found.append(said if self.user else "no user without a job on this node could be tried")
        return found


def try_all(plan: Plan) -> dict[str, Tried]:
    """The trial on every server, all at once; the throw-away key is made here and gone afterwards."""
    with throwaway_key("throw-away key of a check") as key:
        return at_once(servers(plan), lambda name: _try_one(plan, name, key))


def of_jobs(plan: Plan, server: str) -> bool:
    """Whether users run jobs on a server."""
    role = str(plan.devices.loc[plan.devices["name"] == server, "role"].iloc[0])
    return plan.site.scheduler.kind == "slurm" and role in COMPUTE_ROLES


def _try_one(plan: Plan, name: str, key: Path) -> Tried:
    credentials, address = node_credentials(plan.site), address_of(plan, name, "provisioning")
    options = with_key(credentials.known_hosts, key)
    request = {
        "key": " ".join(key.with_suffix(".pub").read_text().split()[:2]),
        "login": credentials.user,
        "users": list(CHECK_USERS) if of_jobs(plan, name) else [],
    }
    try:
        with SshHost(name, address, credentials).kept_open() as host:
            told = _act(host, "authorise", request)
            if not told["pattern"]:
                return Tried("sshd reads no keys below /etc (AuthorizedKeysFile): run the playbook, role ssh")
            if told["revoked"] == "none":
                return Tried("sshd has no list of revoked keys (RevokedKeys): run the playbook, role ssh")
            try:
                authorised = attempt(f"{credentials.user}@{address}", options)
                user = told["user"]
                without_job = no_job_login(attempt(f"{user}@{address}", options)) if user else ""
                _act(host, "revoke", request)
                revoked = key_login(attempt(f"{credentials.user}@{address}", options))
            finally:
                _act(host, "clean", request)
    except DeviceError as error:
        return Tried(str(error))
    return Tried("", authorised, revoked, user, without_job)


def no_job_login(said: str) -> str:
    """'refused' also where pam_slurm_adopt refuses, in its own words."""
    return "refused" if "pam_slurm_adopt" in said else key_login(said)


def _act(host: SshHost, verb: str, request: Mapping[str, Any]) -> _Told:
    python = ("python3",) if request["login"] == "root" else ("sudo", "-n", "python3")
    told = host.program(PROGRAM, {**request, "verb": verb}, python=python, operation=OPERATION)
    return answers.read(_Told, told, Source(host.name, OPERATION, "run sshd -T on the node"))
