"""What the checks share: acts and jobs that run once, when the first check asks for their result."""

import contextlib
import shlex
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services import telemetry
from capacity.services.boot import record
from capacity.services.boot.intents import all_drive_serials
from capacity.services.cluster import notices_from
from capacity.services.slurm import CHECK_USERS, Design, design
from capacity.storage.load import shared
from inventory.delivered import power_acts
from inventory.delivered.assets import load_assets
from inventory.delivered.firmware import Bundle, load_bundles
from inventory.findings import Finding
from inventory.site import Site
from network import counters, roce
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.credentials import node_credentials
from network.drivers.errors import DeviceError, UnreadableAnswer
from network.infiniband import subnet
from network.infiniband.manager import COUNTERS_ALONE, ManagerHost
from network.nos.model import Model
from validation import drift_reports as drift_reports_of
from validation import kube, permutation, sharp
from validation.check import site_limit
from validation.facts import (
    Facts,
    charged,
    etcd,
    incast,
    node_results,
    probes,
    quotas,
    reclaim,
    reservation_trial,
    revoked,
    second_reader,
    separation_acts,
    storage_acts,
    testinfra_facts,
)
from validation.facts import gangs as gang_facts
from validation.facts import kube as kube_facts
from validation.facts import notices as notice_facts
from validation.facts import permutation as permutation_act
from validation.facts import spreading as spreading_act
from validation.facts import telemetry as telemetry_facts
from validation.facts import usage as usage_facts
from validation.facts.gather import address_of, diagnosed, link_ends_again
from validation.facts.node_results import Kept, Run
from validation.facts.takeover import Takeover, take_over
from validation.infiniband import NOT_DIAGNOSED, best_view, topology
from validation.runners import (
    ansible,
    control_plane,
    granted,
    kubernetes,
    lookups,
    platform_trials,
    preemption,
    slurm,
    slurm_trials,
    training,
    xids,
)
from validation.runners import burn_in as burn_in_runner
from validation.runners import collectives as sweeps
from validation.runners import nccl_tests as nvidias
from validation.runners.engine import OUTPUT, PORT, Beside, Engine, Job, Launch, Load, workload_of
from validation.second_reading import Compared, SecondReadings, compare

ORDER = (
    "drift",
    "trials",
    "revoked_keys",
    "takeover",
    "without_api_server",
    "without_etcd",
    "notices_heard",
    "separation_probed",
    "canaries",
    "checkpoint_writes",
    "collectives",
    "in_network",
    "incast_run",
    "permutation_run",
    "fire_drill",
    "burn_in",
    "smoke",
    "rehearsal",
    "ends_again",
    "diagnosed_again",
)
"""Fixtures whose checks come after all others, in this order. First what began with the run and has to be over before anything
acts on the nodes; then acts; then the jobs that measure, each alone on its nodes; last what counts for as long as the run takes.
The fire drill waits on a telemetry server and disturbs none of them."""
SWEPT = "/var/tmp/bringup-collectives-"
"""What the ranks of a sweep keep on their node, followed by the number of the job."""
MOST_NAMED = 3
"""Faults of one kind that a sentence names."""
SECOND_PORT = PORT + 1
COLLECTIVES = Path(__file__).parent.parent / "workloads" / "collectives.py"
RESULTS = f"{SWEPT}{{job}}"


def place_in_order(fixtures: Collection[str]) -> int:
    """When a check runs that uses these fixtures; checks of the same place keep their order."""
    return max((place for place, name in enumerate(ORDER, 1) if name in fixtures), default=0)


@pytest.fixture(scope="session")
def models_wanted(plan: Plan) -> Mapping[str, Model]:
    """What the plan gives each compute switch of a RoCE site."""
    return roce.models(plan)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Checks that wait for something come last, so that it goes on meanwhile."""
    items.sort(key=lambda item: place_in_order(getattr(item, "fixturenames", ())))


@pytest.fixture(scope="session")
def identify_leds(plan: Plan) -> dict[str, str]:
    """Per server: '' when its identity LED followed, else what went wrong."""
    return probes.identify_leds(plan)


@pytest.fixture(scope="session")
def logins(plan: Plan) -> dict[str, probes.Logins]:
    """Per server: how it met logins that must be refused."""
    return probes.logins(plan)


@pytest.fixture(scope="session")
def revoked_keys(plan: Plan) -> dict[str, revoked.Tried]:
    """Per server: how it met a key that was authorised, then revoked, and a user without a job."""
    return revoked.try_all(plan)


@pytest.fixture(scope="session")
def second_readings(plan: Plan, facts: Facts, sample_seed: str) -> SecondReadings:
    """A sample of nodes, read again by testinfra and compared with their facts."""
    again = testinfra_facts.read_nodes(plan, facts, second_reader.sample(plan, sample_seed))
    return SecondReadings(sample_seed, {name: one_node(plan, facts, name, again[name]) for name in again})


def one_node(plan: Plan, facts: Facts, name: str, again: second_reader.Reading) -> Compared:
    """The comparison of one node."""
    data = facts.nodes[name].data
    return compare(name, second_reader.told(data, second_reader.asked(plan, name, data)), again)


@pytest.fixture(scope="session")
def guids(site: Site) -> dict[str, str]:
    """GUID of each InfiniBand switch and adapter port, from the asset list."""
    return subnet.guid_book(load_assets(site))


@pytest.fixture(scope="session")
def delivered_drives(site: Site) -> Callable[[str], Mapping[str, str]]:
    """Serial numbers of a server's drives in the asset list, by their names there (boot0, boot1, data0, …)."""
    assets = load_assets(site)
    return lambda server: all_drive_serials(assets, server)


@pytest.fixture(scope="session")
def installed(out_folder: Path) -> dict[str, record.Installed]:
    """Servers that were installed over the network, as their record says; {} where there is none."""
    path = out_folder / record.FILE
    return record.from_text(path.read_text(encoding="utf-8"), str(path)) if path.exists() else {}


@pytest.fixture(scope="session")
def last_power_acts(out_folder: Path) -> dict[str, power_acts.PowerAct]:
    """The last power action of each server that is recorded."""
    return power_acts.kept(power_acts.folder_of(out_folder))


@pytest.fixture(scope="session")
def bundles(site: Site) -> dict[str, Bundle]:
    """Firmware bundles of the site by model of server; {} where it has none."""
    return load_bundles(site)


@pytest.fixture(scope="session")
def operator_keys(site: Site) -> tuple[str, ...]:
    """Fingerprint of the key that the site's nodes are logged in to with; none where ssh-keygen cannot tell it."""
    return probes.fingerprints(site)


@pytest.fixture(scope="session")
def cabling(plan: Plan, facts: Facts, guids: dict[str, str]) -> list[Finding]:
    """Differences between the planned InfiniBand cables and the discovered ones; a server that is down is reported
    elsewhere."""
    return topology(plan, guids, facts, {name for name, answer in facts.nodes.items() if answer.error})


@pytest.fixture(scope="session")
def ends_again(plan: Plan, facts: Facts) -> Mapping[str, Mapping[str, Any]]:
    """Ends of links at switches whose system does not show since when it counts, a second time (gather.link_ends_again)."""
    return link_ends_again(plan, facts)


@pytest.fixture(scope="session")
def diagnosed_again(plan: Plan, facts: Facts) -> Mapping[str, Any]:
    """What ibdiagnet counts on the same host again, late enough after the facts that two ends can be compared; {} on Ethernet, and
    "error" where it cannot be asked.
    """
    return diagnose_again(plan, facts) if plan.site.fabric.kind == "ib" else {}


def diagnose_again(plan: Plan, facts: Facts) -> Mapping[str, Any]:
    """A second run of ibdiagnet, of which the counters alone are needed."""
    view = best_view(facts)
    nobody: Mapping[str, Any] = {"error": "no host with a subnet manager answers"}
    first: Mapping[str, Any] = nobody if view is None else view.data.get("diagnosed", NOT_DIAGNOSED)
    if view is None or "error" in first:
        return {"error": str(first["error"])}
    host = ManagerHost(view.device, address_of(plan, view.device, "provisioning"), node_credentials(plan.site))
    # the second run may take as long as the first, and both count for how far ends are read apart
    took_s = first["ended"] - first["began"]
    not_before = first["began"] + 2 * took_s / counters.LEAST_SHARE
    return diagnosed(host, plan.site.timeouts.infiniband_s, options=COUNTERS_ALONE, not_before=not_before)


@pytest.fixture(scope="session")
def incast_run(plan: Plan) -> Mapping[str, Any]:
    """What every end on the way counted while several servers wrote to one adapter, on a RoCE site."""
    return try_lossless(plan)


def try_lossless(plan: Plan) -> Mapping[str, Any]:
    """The incast of a plan; nothing where it has none."""
    wanted = incast.planned(plan)
    return {"errors": {}} if wanted is None else incast.run(plan, wanted)


@pytest.fixture(scope="session")
def permutation_run(plan: Plan, facts: Facts, guids: Mapping[str, str]) -> Mapping[str, Any]:
    """What uplinks and adapters counted while all adapters at two leaves wrote to each other, with adaptive routing and without."""
    return try_adaptive(plan, facts, guids)


def try_adaptive(plan: Plan, facts: Facts, guids: Mapping[str, str]) -> Mapping[str, Any]:
    """The permutation of a plan; only "errors" where it cannot be run."""
    wanted = permutation_act.planned(plan)
    if wanted is None:
        return {"errors": {}}
    if plan.site.fabric.kind != "ib":
        return spreading_act.run(plan, wanted)
    known = permutation.prepared(plan, wanted, facts, guids)
    return permutation_act.run(plan, wanted, known) if isinstance(known, permutation_act.Known) else {"errors": known}


@pytest.fixture(scope="session")
def takeover(plan: Plan, facts: Facts) -> Takeover:
    """What happened when the master subnet manager was stopped. After the facts, which are of the site as it stands."""
    return take_over(plan)


@pytest.fixture(scope="session")
def drift_under_way(site: Site) -> Iterator[Future[ansible.Drift]]:
    """Ansible's check-mode run, started and not waited for; it ends with this run."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(ansible.drift, site, stop=stop)
        stop.set()


@pytest.fixture(scope="session")
def drift(drift_under_way: Future[ansible.Drift]) -> ansible.Drift:
    """What Ansible would change now."""
    return drift_under_way.result()


@pytest.fixture(scope="session")
def drift_reports(out_folder: Path) -> list[drift_reports_of.Report]:
    """Reports of drift that were made before (bringup validation drift), oldest first."""
    return drift_reports_of.read(out_folder)


@pytest.fixture(scope="session")
def scheduler(plan: Plan, at_the_end: Callable[[Callable[[], None]], None]) -> slurm.Slurm:
    """The site's Slurm. Its jobs end with the run."""
    made = slurm.connect(plan)
    _close_at_the_end(made, at_the_end)
    return made


@pytest.fixture(scope="session")
def engine(plan: Plan, request: pytest.FixtureRequest, at_the_end: Callable[[Callable[[], None]], None]) -> Engine:
    """The site's workload manager, which runs burn-in, collectives and training. Its jobs end with the run."""
    if plan.site.scheduler.kind == "slurm":
        site_slurm: slurm.Slurm = request.getfixturevalue("scheduler")
        return site_slurm
    site_kubernetes: kubernetes.Kubernetes = request.getfixturevalue("platform")
    return site_kubernetes


@pytest.fixture(scope="session")
def platform(plan: Plan, at_the_end: Callable[[Callable[[], None]], None]) -> kubernetes.Kubernetes:
    """The site's Kubernetes. Its loads end with the run."""
    made = kubernetes.connect(plan)
    _close_at_the_end(made, at_the_end)
    return made


def _close_at_the_end(made: Engine, at_the_end: Callable[[Callable[[], None]], None]) -> None:
    def close() -> None:
        with contextlib.suppress(DeviceError):  # the checks report a controller that does not answer
            made.close()

    at_the_end(close)


@dataclass(frozen=True)
class SlurmNodes:
    """What slurmctld says of all nodes, asked once in a run; `error` says why it could not be asked."""

    known: dict[str, slurm.SlurmNode]
    error: str = ""


@pytest.fixture(scope="session")
def slurm_nodes(scheduler: slurm.Slurm) -> SlurmNodes:
    """State and resources of all nodes by name."""
    try:
        return SlurmNodes(scheduler.nodes())
    except DeviceError as error:
        return SlurmNodes({}, str(error))


@dataclass(frozen=True)
class Policy:
    """What slurmctld and slurmdbd say of the policy in force. `error` says what could not be read; `over_limit_reason`
    is Slurm's name for the limit that the trials break."""

    config: dict[str, str]
    nodes: dict[str, slurm.SlurmNode]
    topology: dict[str, list[str]]
    accounting: slurm.Accounting | None
    over_limit_reason: str
    error: str = ""
    partitions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlatformSaid:
    """What the API server of a site with Kubernetes said. `error` says why it said nothing."""

    answers: Mapping[str, Any]
    error: str = ""


@pytest.fixture(scope="session")
def platform_said(plan: Plan) -> PlatformSaid:
    """What the API server says of objects, nodes and rights, and of pods that are tried."""
    try:
        return PlatformSaid(kube_facts.ask(plan, kube_facts.over_ssh(plan)))
    except DeviceError as error:
        return PlatformSaid({}, str(error))


@pytest.fixture(scope="session")
def gangs_said(plan: Plan) -> PlatformSaid:
    """What became of gangs that the site's Kueue was given."""
    try:
        return PlatformSaid(gang_facts.ask(plan, kube_facts.over_ssh(plan)))
    except DeviceError as error:
        return PlatformSaid({}, str(error))


@pytest.fixture(scope="session")
def quotas_said(plan: Plan) -> PlatformSaid:
    """What became of Jobs beyond the limits of accounts, which the site's Kueue was given."""
    try:
        return PlatformSaid({"quotas": quotas.ask(plan, kube_facts.over_ssh(plan))})
    except DeviceError as error:
        return PlatformSaid({}, str(error))


@pytest.fixture(scope="session")
def reclaimed(plan: Plan) -> PlatformSaid:
    """What became of Jobs of two accounts that want one node."""
    try:
        return PlatformSaid({"reclaim": reclaim.ask(plan, kube_facts.over_ssh(plan))})
    except DeviceError as error:
        return PlatformSaid({}, str(error))


@pytest.fixture(scope="session")
def reservation_tried(plan: Plan) -> PlatformSaid:
    """What became of a reservation of one node, and what all reservations were meanwhile."""
    try:
        return PlatformSaid({"reservation": reservation_trial.ask(plan, kube_facts.over_ssh(plan))})
    except DeviceError as error:
        return PlatformSaid({}, str(error))


@pytest.fixture(scope="session")
def charged_said(plan: Plan) -> PlatformSaid:
    """For whom Prometheus counted the GPUs of a Job that named somebody else."""
    try:
        prometheus = next(iter(usage_facts.over_ssh(plan).values()), None)
        if prometheus is None:
            return PlatformSaid({}, "the plan has no telemetry server")
        return PlatformSaid({"charged": charged.ask(plan, kube_facts.over_ssh(plan), prometheus)})
    except DeviceError as error:
        return PlatformSaid({}, str(error))


@pytest.fixture(scope="session")
def notices_set_up(plan: Plan) -> PlatformSaid:
    """What each controller has of the program that tells users and operators of events."""
    try:
        return PlatformSaid({"files": notice_facts.files(plan)})
    except DeviceError as error:
        return PlatformSaid({}, str(error))


@dataclass(frozen=True)
class Told:
    """What a trial of the platform gave, and how long it took. `error` says why it gave nothing."""

    answer: Mapping[str, Any]
    seconds: float
    error: str = ""


def _told(ask: Callable[[], Mapping[str, Any]]) -> Told:
    began = time.monotonic()
    try:
        return Told(ask(), time.monotonic() - began)
    except DeviceError as error:
        return Told({}, time.monotonic() - began, str(error))


def _allowed(plan: Plan, act: str) -> None:
    """Skip where the site file allows no faults. act: what the trial does, such as 'it stops …'."""
    if not plan.site.validation.fault_injection:
        pytest.skip(f"NOT RUN: {act}; a site allows it with validation: {{fault_injection: true}} in its site file")


@pytest.fixture(scope="session")
def grants(plan: Plan, platform: kubernetes.Kubernetes) -> Told:
    """By node and trial: GPUs of pods that ask for all of a node but one, for one, and for none."""
    return _told(lambda: granted.try_grants(plan, platform))


@pytest.fixture(scope="session")
def names_asked(plan: Plan, platform: kubernetes.Kubernetes) -> Told:
    """By node: what a pod was told of a name by the cluster's DNS."""
    return _told(lambda: lookups.try_names(plan, platform))


@pytest.fixture(scope="session")
def yielded(plan: Plan, platform: kubernetes.Kubernetes) -> Told:
    """A job that yields the GPUs of a node to one of a higher tier, and goes on afterwards."""
    mount = shared(plan.site, plan.devices).mount_point
    return _told(lambda: preemption.preempt(plan, platform, mount))


@pytest.fixture(scope="session")
def changed_by_hand(plan: Plan, platform: kubernetes.Kubernetes) -> Told:
    """An object of the platform that was changed and put back."""
    return _told(lambda: platform_trials.change_by_hand(plan, platform))


@pytest.fixture(scope="session")
def kubelet_stopped(plan: Plan, platform: kubernetes.Kubernetes) -> Told:
    """A kubelet that was stopped for a while, only where the site file allows faults."""
    _allowed(plan, "it stops the kubelet of a GPU node for a minute")
    return _told(lambda: platform_trials.stop_kubelet(platform))


@pytest.fixture(scope="session")
def node_unfit(plan: Plan, platform: kubernetes.Kubernetes) -> Told:
    """A GPU node whose time service was stopped for a while, only where the site file allows faults."""
    _allowed(plan, "it stops the time service of a GPU node for a minute")
    return _told(lambda: platform_trials.stop_clock(platform))


@pytest.fixture(scope="session")
def notices_heard(plan: Plan, platform: kubernetes.Kubernetes) -> PlatformSaid:
    """What was told of jobs that ended, failed and were evicted, and of a node that came back, where the site allows faults."""
    if not notices_from(plan):
        return PlatformSaid({"notices": {}})
    _allowed(
        plan, "it stops the time service of a GPU node for a minute, so that the node is out of service and comes back"
    )
    try:
        return PlatformSaid({"notices": hear_notices(plan, platform)})
    except DeviceError as error:
        return PlatformSaid({}, str(error))


def hear_notices(plan: Plan, platform: kubernetes.Kubernetes) -> Mapping[str, Any]:
    """The trial of notices."""

    def back() -> str:
        return platform_trials.stop_clock(platform)["node"]

    return notice_facts.ask(plan, kube_facts.over_ssh(plan), notice_facts.at(plan), back)


@pytest.fixture(scope="session")
def without_api_server(plan: Plan, platform: kubernetes.Kubernetes) -> Told:
    """By controller: what the others did without its API server, only where the site file allows faults."""
    _allowed(plan, "it kills the API server of each controller in turn for about half a minute")
    members = control_plane.members_of(plan)
    return _told(lambda: control_plane.lose_api_servers(members, platform))


@pytest.fixture(scope="session")
def without_etcd(plan: Plan) -> Told:
    """By controller: what was written without its member of etcd, only where the site file allows faults."""
    _allowed(plan, "it kills the member of etcd of each controller in turn for some seconds")
    members = control_plane.members_of(plan)
    return _told(lambda: control_plane.lose_etcd(plan, members))


@pytest.fixture(scope="session")
def gpus_at_fault(plan: Plan, facts: Facts, platform: kubernetes.Kubernetes, request: pytest.FixtureRequest) -> Told:
    """By GPU node: what it offered while one of its GPUs was at fault, where the site allows that and a program makes it."""
    programs = tuple(
        tuple(shlex.split(request.config.getoption(name) or "")) for name in ("--raise-xid", "--repair-xid")
    )
    if not (plan.site.validation.fault_injection and all(programs)):
        pytest.skip(
            "NOT RUN: a GPU of each node has to report a fatal XID, which NVIDIA's driver does not do on request; give programs "
            "that raise one and repair the GPU (--raise-xid, --repair-xid), on a site with validation: {fault_injection: true}"
        )
    chosen = {}
    for node in kube.planned_gpus(plan):
        known = facts.nodes[node].data.get("gpus", {}).get("devices", ())
        if found := [one for one in known if not one["error"] and one["module_id"] is not None]:
            chosen[node] = xids.Chosen(found[-1]["module_id"], found[-1]["uuid"])
    return _told(lambda: xids.raise_xids(platform, chosen, xids.Programs(*programs)))


@pytest.fixture(scope="session")
def secrets_in_etcd(plan: Plan) -> Mapping[str, Told]:
    """By controller: how its member of etcd has the Secrets."""
    names = plan.devices.loc[plan.devices["role"] == "controller", "name"]
    return {str(name): _told(partial(etcd.encrypted, plan, str(name))) for name in names}


@pytest.fixture(scope="session")
def restored_etcd(plan: Plan) -> Told:
    """What came of a backup on the first controller."""
    return _told(lambda: etcd.restored(plan, kube_facts.controller_of(plan)))


@pytest.fixture(scope="session")
def policy(plan: Plan, scheduler: slurm.Slurm, slurm_nodes: SlurmNodes) -> Policy:
    """The policy that Slurm runs with."""
    _, reason = over_limit(design(plan, plan.catalog))
    nodes = slurm_nodes.known
    if slurm_nodes.error:
        return Policy({}, {}, {}, None, reason, slurm_nodes.error)
    try:
        config, topology, partitions = scheduler.config(), scheduler.topology(), scheduler.partitions()
    except DeviceError as error:
        return Policy({}, {}, {}, None, reason, str(error))
    try:
        return Policy(config, nodes, topology, scheduler.accounting(), reason, partitions=partitions)
    except DeviceError as error:
        return Policy(config, nodes, topology, None, reason, str(error))


def over_limit(wanted: Design) -> tuple[tuple[str, ...], str]:
    """Options of a job that breaks a limit of some class, and Slurm's name for that limit; empty where none has one."""
    for qos in wanted.qos:
        if qos.max_wall_min is not None:
            return (f"--qos={qos.name}", f"--time={qos.max_wall_min + 1}", "--nodes=1"), "QOSMaxWallDurationPerJobLimit"
    for qos in wanted.qos:
        if qos.max_gpus_per_user is not None:
            return (f"--qos={qos.name}", f"--gpus={qos.max_gpus_per_user + 1}", "--time=1"), "QOSMaxGRESPerUser"
    return (), ""


@pytest.fixture(scope="session")
def trials_under_way(
    plan: Plan, scheduler: slurm.Slurm, slurm_nodes: SlurmNodes
) -> Iterator[Future[slurm_trials.Trials]]:
    """Jobs that try the policy out, started and not waited for."""
    wanted = design(plan, plan.catalog)
    first, second = CHECK_USERS

    def run() -> slurm_trials.Trials:
        known = slurm_nodes.known
        if slurm_nodes.error:
            return slurm_trials.failed(slurm_nodes.error)
        ready = tuple(node.name for node in wanted.nodes if node.name in known and known[node.name].ready)
        return slurm_trials.run(
            scheduler,
            slurm_trials.Wanted(
                nodes=ready,
                gpus=wanted.nodes[0].gpus,
                users=(first, second),
                highest=wanted.qos[0].name,
                lowest=wanted.qos[-1].name,
                over_limit=over_limit(wanted)[0],
                start_budget_s=float(site_limit(plan.site, "job_start_s").value),
            ),
        )

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(run)


@pytest.fixture(scope="session")
def trials(trials_under_way: Future[slurm_trials.Trials]) -> slurm_trials.Trials:
    """What those jobs met."""
    return trials_under_way.result()


@pytest.fixture(scope="session", autouse=True)
def run_meanwhile(request: pytest.FixtureRequest) -> None:
    """What changes and measures nothing starts with the run and is asked when its checks come (ORDER).

    The trials mostly wait: a grace time, a window. Ansible's check-mode run only reads.
    """
    wanted = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    for name in ("trials", "drift"):
        if name in wanted:
            request.getfixturevalue(f"{name}_under_way")


@pytest.fixture(scope="session")
def canaries(plan: Plan, store_id: str) -> dict[str, storage_acts.Canary]:
    """Per client of the shared file system: its canary, and how it read those of the others."""
    return storage_acts.canaries(plan, store_id)


@pytest.fixture(scope="session")
def separation_probed(plan: Plan, store_id: str) -> separation_acts.Probed:
    """What every server reached of what the matrix of networks allows and denies."""
    return separation_acts.probe(plan, store_id)


@pytest.fixture(scope="session")
def checkpoint_writes(plan: Plan, store_id: str) -> storage_acts.Writes:
    """Writes of all GPU nodes at once, each within the permitted stall and the time of a login."""
    size_b = int(site_limit(plan.site, "storage_write_b").value)
    budget_s = plan.site.storage.checkpoint.stall_s
    return storage_acts.checkpoint_writes(plan, size_b, budget_s, store_id)


@dataclass(frozen=True)
class Sweep:
    """The collectives sweep: its job (None when it could not be submitted), its report, or what went wrong; the table of
    nccl-tests on one node where they are installed; what each node kept and signed, for which run."""

    job: Job | None
    report: dict[str, Any] | None
    error: str
    nccl_tests: nvidias.Run | None = None
    kept: Kept = field(default_factory=Kept)
    run: Run | None = None

    @property
    def configuration(self) -> dict[str, dict[str, Any]]:
        """What evidence says of the run."""
        return self.run.configuration() if self.run else {}


@pytest.fixture(scope="session")
def collectives(plan: Plan, engine: Engine, store_id: str) -> Sweep:
    """All collectives over all GPU nodes, as one job."""
    return sweep_collectives(plan, engine, store_id)


def sweep_collectives(plan: Plan, scheduler: Engine, store: str = "") -> Sweep:
    """Submit the collectives over all GPU nodes and wait for them. store: as for node_results.begin."""
    names = burn_in_runner.gpu_nodes(plan)
    arguments = sweep_arguments(plan, sweeps.sizes_of(plan), sweeps.OPERATIONS)
    leaves = ";".join(" ".join(names) for names in sweeps.leaves_of(plan))
    arguments += ["--spans", "node,leaf,whole", "--leaf", leaves]
    run = node_results.begin(plan, "collectives", store)
    job, kept, why = run_sweep(plan, scheduler, run, Launch(tuple(arguments)), beside=nccl_tests(plan))
    if why:
        return Sweep(job, None, why)
    try:
        source = Source("the collectives", "join what their ranks measured")
        ranks = sweeps.ranks_of(kept.ranks)
        report = sweeps.joined(ranks, source)
        if other := sweeps.unlike(sweeps.wanted_of(plan), ranks, names):
            return Sweep(job, None, "; ".join(other[:MOST_NAMED]))
        return Sweep(job, report, "", nvidias.printed(kept.samples), kept, run)
    except UnreadableAnswer as error:
        return Sweep(job, None, str(error))


def sweep_arguments(plan: Plan, sizes: Sequence[int], operations: Sequence[str]) -> list[str]:
    """What every sweep of collectives is told (workloads/collectives.py)."""
    timed, warm_up = sweeps.ROUNDS[workload_of(plan).computes_on]
    return [
        *("--sizes", ",".join(map(str, sizes)), "--timeout-s", str(int(plan.site.timeouts.collectives_s // 2))),
        *("--types", ",".join(sweeps.ELEMENT_B), "--operations", ",".join(operations)),
        *("--iterations", str(timed), "--warm-up", str(warm_up), "--results", RESULTS),
    ]


def nccl_tests(plan: Plan) -> Beside | None:
    """NVIDIA's own measurement on the first node, which signs what it printed with what its ranks kept: compared with, never asked
    for. None where workloads run on CPUs."""
    workload = workload_of(plan)
    if workload.computes_on == "cpu":
        return None
    largest_b = int(site_limit(plan.site, "collectives_max_size_b").value)
    sizes = ("--minbytes", "8", "--maxbytes", str(largest_b), "--stepfactor", "2")
    gpus = workload.ranks_per_node
    return Beside(("all_reduce_perf", *sizes, "--ngpus", str(gpus)), gpus, f"{RESULTS}/nccl-tests.txt")


def run_sweep(
    plan: Plan, scheduler: Engine, run: Run, *launches: Launch, beside: Beside | None = None
) -> tuple[Job | None, Kept, str]:
    """(job, what its nodes kept and signed, why it is of no use or '') of sweeps over all GPU nodes, one after the other; the nodes
    keep nothing."""
    names, budget_s = burn_in_runner.gpu_nodes(plan), plan.site.timeouts.collectives_s
    load = Load(
        "bringup-collectives",
        len(names),
        workload_of(plan),
        COLLECTIVES,
        launches,
        limit_min=max(1, round(budget_s / 60)),
        beside=beside,
        results=RESULTS,
        run=run,
    )
    try:
        job = scheduler.wait(scheduler.begin(load), budget_s)
    except DeviceError as error:
        return None, Kept(), str(error)
    jobs = dict.fromkeys(names, job.job_id)
    kept = node_results.collect(plan, scheduler.hosts, jobs, SWEPT, OUTPUT, run) if job.ok else Kept()
    node_results.remove(scheduler.hosts, jobs, SWEPT, OUTPUT)
    return job, kept, "; ".join(kept.errors.values()) if job.ok else ended_badly(job)


@dataclass(frozen=True)
class InNetwork:
    """All-reduce with and without reduction in the switches: what each node kept and signed, or why there is nothing."""

    job: Job | None
    kept: Kept
    error: str
    run: Run


@pytest.fixture(scope="session")
def in_network(plan: Plan, engine: Engine, store_id: str) -> InNetwork:
    """All-reduce over all GPU nodes, first with reduction in the switches, then without, as one job."""
    return sweep_in_network(plan, engine, store_id)


def sweep_in_network(plan: Plan, scheduler: Engine, store: str = "") -> InNetwork:
    """Submit both sweeps and wait for them. store: as for node_results.begin."""
    wanted = sharp.wanted_of(plan)
    run = node_results.begin(plan, "in-network", store)
    told = [*sweep_arguments(plan, wanted.sizes, wanted.operations), "--spans", "whole", "--in-network"]
    first, second = sharp.ASKED
    both = (Launch((*told, first)), Launch((*told, second), SECOND_PORT))
    return InNetwork(*run_sweep(plan, scheduler, run, *both), run)


def ended_badly(job: Job) -> str:
    """How a job ended that did not complete, with the end of its output."""
    tail = answers.text(job.output.decode(errors="replace")[-400:])
    return f"job {job.job_id} ended {job.state} {job.reason} after {job.seconds:.0f} s: {tail}"


@pytest.fixture(scope="session")
def burn_in(
    plan: Plan,
    engine: Engine,
    out_folder: Path,
    store_id: str,
    at_the_end: Callable[[Callable[[], None]], None],
) -> burn_in_runner.BurnIn:
    """The burn-in that `bringup validation start` has begun, if there is one and it is over; else load on all GPU nodes at the
    same time, in the site's length."""
    started = burn_in_runner.started_of(out_folder, plan)
    if started is None:
        return burn_in_runner.run(plan, engine, store_id)
    if left := burn_in_runner.running(engine.standing(list(started.jobs.values())), started):
        pytest.skip(f"the burn-in runs on {len(left)} of {len(started.jobs)} nodes: bringup validation status")
    done = burn_in_runner.collect(plan, engine, replace(started, store=store_id))

    def over() -> None:
        try:
            burn_in_runner.forget(out_folder, engine, started)
        except DeviceError as error:  # the records of the run are signed all the same, and the next collect does it
            warnings.warn(f"{error}; then run bringup validation collect again", stacklevel=1)

    at_the_end(over)
    return done


@pytest.fixture(scope="session", autouse=True)
def drill_begun(request: pytest.FixtureRequest, plan: Plan) -> Iterator[Future[telemetry_facts.Drill] | None]:
    """The fire drill of the alert rules, begun together with the first check: it is mostly waiting."""
    wanted = any("fire_drill" in getattr(item, "fixturenames", ()) for item in request.session.items)
    servers = telemetry.servers(plan)
    if not wanted or not servers:
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(telemetry_facts.drill, plan, address_of(plan, servers[0], "provisioning"), int(time.time()))


@pytest.fixture(scope="session")
def fire_drill(drill_begun: Future[telemetry_facts.Drill] | None) -> telemetry_facts.Drill:
    """How the fire drill of the alert rules went."""
    if drill_begun is None:
        return telemetry_facts.Drill("", {}, {}, "the plan has no server that could run telemetry")
    return drill_begun.result()


@pytest.fixture(scope="session")
def smoke(plan: Plan, store_id: str, request: pytest.FixtureRequest) -> training.Recording:
    """The training run on several nodes and on one. Where power may be cut, the runs of the rehearsal, which has both."""
    if plan.site.validation.fault_injection:
        recording: training.Recording = request.getfixturevalue("rehearsal")
        return recording
    return training.smoke(plan, request.getfixturevalue("engine"), store_id)


@pytest.fixture(scope="session")
def rehearsal(plan: Plan, store_id: str, request: pytest.FixtureRequest) -> training.Recording:
    """The training run that loses a node. Cuts power, so only where the site file allows it."""
    if not plan.site.validation.fault_injection:
        pytest.skip(
            "NOT RUN: it cuts a GPU server's power at its PDU outlets in the middle of a job; a site that is not in use yet "
            "allows it with validation: {fault_injection: true} in its site file"
        )
    return training.rehearse(plan, request.getfixturevalue("engine"), store_id)
