"""What goes wrong with a scheduler: daemons that stop or hang, a node out of service, a node with another key.

Each pair injects and undoes inside a running server, as its console would. The state that undoing needs is in `Undo`.
"""

from infra.lab import node
from infra.lab.fault import Arguments, SoftwareFault, Undo
from infra.lab.paths import LabError
from infra.lab.spec import LabSpec

RETURN_POLLS = 100
KEY, KEPT = "/etc/munge/munge.key", "/etc/munge/munge.key.kept"
DRAIN_REASON = "set aside by hand"


def inside(spec: LabSpec, server: str, script: str) -> None:
    """Run a shell script on a running server."""
    node.run(spec, server, "sh", "-ec", script)


def _first(spec: LabSpec, role: str, arguments: Arguments) -> str:
    if len(arguments) > 1:
        raise LabError("this fault takes one server")
    name = arguments[0] if arguments else next((s.name for s in spec.servers if s.role == role), "")
    return spec.server(name).name


def database_down(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    server = _first(spec, "controller", arguments)
    inside(spec, server, "systemctl stop mariadb")
    return f"MariaDB on {server} has stopped", {"server": server}


def database_back(spec: LabSpec, undo: Undo) -> None:
    inside(spec, undo["server"], f"systemctl start mariadb slurmdbd\n{_answering('sacctmgr -n show cluster')}")


def accounting_down(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    server = _first(spec, "controller", arguments)
    inside(spec, server, "systemctl stop slurmdbd")
    return f"slurmdbd on {server} has stopped", {"server": server}


def accounting_back(spec: LabSpec, undo: Undo) -> None:
    inside(spec, undo["server"], f"systemctl start slurmdbd\n{_answering('sacctmgr -n show cluster')}")


def controller_hung(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    server = _first(spec, "controller", arguments)
    inside(spec, server, "systemctl kill --signal=STOP slurmctld")
    return f"slurmctld on {server} takes connections and does not answer", {"server": server}


def controller_answers(spec: LabSpec, undo: Undo) -> None:
    inside(spec, undo["server"], f"systemctl kill --signal=CONT slurmctld\n{_answering('scontrol ping')}")


def drained(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    server = _first(spec, "gpu", arguments)
    inside(spec, server, f"scontrol update NodeName={server} State=DRAIN Reason='{DRAIN_REASON}'")
    return f"{server} was taken out of service by hand", {"server": server}


def resumed(spec: LabSpec, undo: Undo) -> None:
    inside(spec, undo["server"], f"scontrol update NodeName={undo['server']} State=RESUME")


def other_key(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    server = _first(spec, "gpu", arguments)
    inside(spec, server, f"cp -p {KEY} {KEPT}; head -c 128 /dev/urandom >{KEY}; systemctl restart munge")
    return f"{server} has another munge key", {"server": server}


def own_key(spec: LabSpec, undo: Undo) -> None:
    # The controller has given the node up; a slurmd that starts registers at once.
    script = f"if [ -e {KEPT} ]; then mv {KEPT} {KEY}; fi; systemctl restart munge slurmd"
    inside(spec, undo["server"], f"{script}\n{_answering('scontrol ping')}")


def _answering(command: str) -> str:
    """Shell: wait until the command succeeds; its own failure when it never does."""
    return f"for _ in $(seq {RETURN_POLLS}); do {command} >/dev/null 2>&1 && exit 0; sleep 0.2; done; {command}"


SCHEDULER_FAULTS = {
    "slurmctld-hung": SoftwareFault(
        "the scheduler's controller stops answering", "[CONTROLLER]", controller_hung, controller_answers
    ),
    "slurmdbd-down": SoftwareFault("the accounting daemon stops", "[CONTROLLER]", accounting_down, accounting_back),
    "mariadb-down": SoftwareFault("the accounting database stops", "[CONTROLLER]", database_down, database_back),
    "node-drained": SoftwareFault("a node is taken out of service by hand", "[SERVER]", drained, resumed),
    "munge-key-differs": SoftwareFault("a node has another authentication key", "[SERVER]", other_key, own_key),
}
