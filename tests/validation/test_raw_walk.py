"""A person with the collector's key leaves a part of a raw output out, or gives it another device's name, and signs what the rest
gives: no item passes so, but for the parts named here, which decide nothing."""

import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from capacity.model import Plan
from inventory.site import Site
from tests.plans import plan_of
from tests.validation import test_incast, test_roce
from tests.validation.bench import TRAINED, numbers, raw_of, with_parts
from tests.validation.raw_walk import Changed, of_each_kind, renamed, without_each
from tests.validation.recordings import made
from tests.validation.test_rejudge import OF_ROCE, burnt, planned_for, subject_of
from validation.evidence import Record
from validation.facts import incast
from validation.from_raw import FROM_RAW, OF_GPUS, PARTS, Again, computed
from validation.register import Register, of_platform
from validation.rejudge import fault
from validation.runners.training import events_of

MakeRecord = Callable[..., Record]

# ---- what decides nothing --------------------------------------------------------------------------------------------
READS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(OF_GPUS, ("gpus", "packages")),
    "S020.observed": ("power_supplies",),
    "S030.observed": ("power_supplies", "thermal"),
    "S031.measured": ("state", "event_log"),
    "S054.applied": ("links", "ports"),
    "S054.measured": ("pings",),
    "S061.applied": ("version",),
    "S125.applied": ("links", "storage"),
    "S144.observed": ("chrony", "clock_day"),
}
"""Items whose raw output is a device's whole answer: the parts of it that each reads. Other items read the others."""
OF_A_GPU = {
    r"/data/gpus/(cuda_toolkits|nccl_conf|held|device_files)/.*": "other steps than this one ask for them by plan and pins",
    r"/data/gpus/devices/\d+/clocks/reasons/\d+": "what slows a clock now: a GPU at its best clock has none",
    r"/data/gpus/devices/\d+/error_kind": "the error itself says whether a GPU answers, and it has to be there",
    r"/data/packages/.*": "packages that this step does not pin",
}
PARTS_OF_A_BMC = "the catalogue does not say how many a model has"
OF_THE_OTHER_RUNS = "the item is about the runs that story.RUN_OF names for it"
DETECTORS = "S177 is about the detectors"
SEEN_BY_THE_COLLECTOR = "who noticed the cut, and when, is told and not judged"
OUTAGE = {
    r"/(sightings|states|bmc_log)/\d+(/.*)?": SEEN_BY_THE_COLLECTOR,
    r"/outage/(victim|nodes).*": "S188 is about the node that lost its power",
}
OF_ONE_RUN = {
    r"/(jobs|metrics)/(alone|half|full|interrupted)(/.*)?": OF_THE_OTHER_RUNS,
    r"/metrics/\w+/\d+/\d+/detectors/\d+": DETECTORS,
    **OUTAGE,
}
LOST = {
    r"/metrics/interrupted/2/(\d|1\d|2[0-7])(/.*)?": "what a node that loses its power wrote before may be lost with it",
    r"/metrics/interrupted/[01]/(27|28|30)": "the last step before the cut, which no one can tell, and that a rank then waited",
}
DECIDES_NOTHING: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(OF_GPUS, OF_A_GPU),
    "S151.applied": {
        **OF_A_GPU,
        r"/data/gpus/devices/\d+(/.*)?": "settings of NCCL are the node's; S026 asks for its GPUs",
    },
    "S020.observed": {
        r"/data/power_supplies/redundancy/\d+(/.*)?": f"{PARTS_OF_A_BMC}; each supply is judged by itself"
    },
    "S030.observed": {
        r"/data/thermal/(fans|temperatures)/\d+": f"{PARTS_OF_A_BMC}; inlet and outlet have to be there",
        r"/data/power_supplies/.*": "S020 judges the supplies; here their power is kept beside the temperatures",
    },
    "S031.measured": {r"/data/event_log/\d+": "a log that was emptied has no entries either"},
    "S034.measured": {
        r"/ranks/0/watch/gpus/\d+/(watts|reasons)/.*": "a phase that was not sampled; one with products has to be there",
        r"/ranks/0/rank/memory/first_wrong": "only of memory that came back wrong",
        r"/said": "what the job printed is for people",
    },
    "S047.measured": {
        r"/.*/result/output/.*": "mlxlink says more than the rate, the errors and the state that network.link_ends reads",
        r"/.*/status(/.*)?": "the output has to be there, whatever the status is",
    },
    "S054.applied": {
        r"/data/(links|ports)/(lo|eth0|swp\d+)(/.*)?": "no in-band cable is planned there",
        r"/data/links/\w+/addresses/\d+": "the step is about the MTU",
    },
    "S058.measured": {r"/parts/\w+/ranks/\d+/transports/\w+": "S066 and S151 judge over what ranks are connected"},
    "S062.measured": {
        r"/(lanes|arbitration)/.*": "S048 is about service levels and lanes",
        r"/(nodes|far)/\d+/3 \(value\)": "a node is known by its GUID, not by what it calls itself",
    },
    "S066.measured": {r"/parts/\w+/ranks/\d/transports/P2P": "on CPUs nothing but gloo connects the ranks"},
    "S086.observed": {r"/\d/data/(outlets|phases)/\d+(/.*)?": "S171 and S088 are about outlets and phases"},
    "S088.observed": {r"/data/outlets/\d+(/.*)?": "S171 is about outlets"},
    "S125.applied": {
        r"/data/links/(lo|eth0)(/.*)?": "no in-band cable is planned there",
        r"/data/links/\w+/addresses/\d+": "the plan's addresses are S128's",
        r"/data/storage/(usage|retry|server/(units|volume|bricks))/.*": "S130 and S127 are about mount and service",
        r"/data/storage/routes/\d+(/.*)?": "routes to other networks",
        r"/data/storage/server/(clients|listening)/\d+": "who is connected, and which daemons run, is not planned; one has to",
    },
    "S143.applied": {r"/0(/\d+)?": "the headline", r"/1/\d": "words without a count that the step asks for"},
    "S151.measured": {r"/ranks/0/spans/0/rows": "one part does not show which rank of all leads the whole: S066 does"},
    "S171.observed": {
        r"/\d/data/outlets/\d+(/.*)?": "outlets that the plan does not use",
        r"/\d/data/phases/\d+(/.*)?": "S088 is about phases",
    },
    **dict.fromkeys(("S176.measured", "S179.measured", "S179.observed"), OF_ONE_RUN),
    "S177.observed": {**OUTAGE, **LOST},
    "S181.measured": {**OUTAGE, **LOST, r"/metrics/\w+/\d+/\d+/detectors/\d+": DETECTORS},
    "S186.measured": {
        r"/(jobs|metrics)/interrupted(/.*)?": OF_THE_OTHER_RUNS,
        r"/metrics/\w+/\d+/\d+/detectors/\d+": DETECTORS,
        **OUTAGE,
    },
    "S188.measured": {
        **LOST,
        r"/(jobs|metrics)/(half|full)(/.*)?": OF_THE_OTHER_RUNS,
        r"/metrics/\w+/\d+/\d+/detectors/\d+": DETECTORS,
        r"/(sightings|states|bmc_log)/\d+(/.*)?": SEEN_BY_THE_COLLECTOR,
    },
}
"""By item, places of a raw output that can be left out or renamed, and why. An expression fits a whole place."""


# ---- the walk --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def plan(real_site: Site) -> Plan:
    """The lab's plan with limits that it leaves open."""
    any_ = real_site.limits["pdu_load_pct"]
    limits = {
        "collectives_busbw_pct": any_.model_copy(update={"value": 1e-6}),
    }
    return dataclasses.replace(
        plan_of("lab"), site=real_site.model_copy(update={"limits": {**real_site.limits, **limits}})
    )


@dataclasses.dataclass(frozen=True)
class Judge:
    """What the gate says of a raw output of an item, signed with the value that the rest gives."""

    register: Register
    record: MakeRecord
    plan: Plan
    item: str
    subject: str

    def why_not(self, raw: bytes) -> str:
        """Why the item does not pass; '' where it does."""
        found = computed(self.item, self.subject, self.plan, raw)
        if not isinstance(found, Again):
            return found
        if found.problems:
            return found.problems[0]
        item = self.register.items[self.item]
        said = {"limit": 1.0, "limit_source": "plan", **numbers(item, self.plan.site), "value": found.value}
        said |= {} if found.limit is None else {"limit": found.limit}
        said["value"] = json.loads(json.dumps(said["value"]))
        return fault(item, self.record(self.item, self.subject, **said), self.plan.site) or ""


def not_of(item: str) -> Callable[[str], bool]:
    """Whether a place is about other items of the same answer."""
    if item not in READS:
        return lambda place: False
    return lambda place: place.startswith("/data/") and place.split("/")[2] not in READS[item]


def excused(item: str, place: str) -> bool:
    return any(re.fullmatch(pattern, place) for pattern in DECIDES_NOTHING.get(item, {}))


Places = Callable[[bytes, Plan, Callable[[str], bool]], Iterator[tuple[str, Changed]]]


@pytest.fixture(params=["two of each kind", pytest.param("all", marks=pytest.mark.soak)])
def places(request: pytest.FixtureRequest) -> Places:
    """Each place to leave out or rename, but for those of which `other` says that they are not asked for.

    In `make test` two of each kind (one of the parts of a training), and one element at each end of a list is opened; in a
    soak all, and two.
    """
    every, two = request.param == "all", request.param == "two of each kind"

    def found(raw: bytes, plan: Plan, other: Callable[[str], bool]) -> Iterator[tuple[str, Changed]]:
        ends = 2 if every else 1
        walk = itertools.chain(without_each(raw, other, ends), renamed(raw, set(plan.devices["name"]), other, ends))
        return walk if every else of_each_kind(walk, two)

    return found


OF_A_TRAINING = pytest.mark.parametrize(
    "places", ["one of each kind", pytest.param("all", marks=pytest.mark.soak)], indirect=True
)
"""Seven items judge its raw output, which is the largest."""
SUBJECTS = {"S062.measured": ("leaf01", "ibl001"), "S054.applied": ("gpu001", "leaf01")}
CASES = [
    (item, subject)
    for item in sorted(set(FROM_RAW) - TRAINED - OF_ROCE)
    if not of_platform(item)  # test_kube.py leaves out parts of theirs
    for subject in SUBJECTS.get(item, (subject_of(item),))
]


def raw_for(item: str, subject: str) -> bytes:
    return burnt() if item == "S034.measured" else raw_of(item, subject)


@pytest.mark.parametrize(("item", "subject"), CASES)
def test_what_is_left_out_or_renamed_does_not_pass(
    register: Register, record: MakeRecord, plan: Plan, item: str, subject: str, places: Places
) -> None:
    judge, raw = Judge(register, record, planned_for(plan, item), item, subject), raw_for(item, subject)
    assert judge.why_not(raw) == ""
    passed = {place for place, changed in places(raw, plan, not_of(item)) if judge.why_not(changed()) == ""}
    assert {place for place in passed if not excused(item, place)} == set()


@OF_A_TRAINING
def test_what_is_left_out_of_a_training_or_renamed_does_not_pass(
    register: Register, record: MakeRecord, plan: Plan, places: Places
) -> None:
    """All items about a training at once: they have the same raw output."""
    judges = [Judge(register, record, plan, item, "lab") for item in sorted(TRAINED)]
    raw = made().as_json()
    assert [judge.why_not(raw) for judge in judges] == [""] * len(judges)
    passed = {
        (judge.item, place)
        for place, changed in places(raw, plan, not_of("S188.measured"))
        for made_of in [changed()]
        for judge in judges
        if not excused(judge.item, place) and judge.why_not(made_of) == ""
    }
    assert passed == set()


@OF_A_TRAINING
def test_parts_that_nodes_signed_of_a_training_cannot_be_left_out_or_renamed(
    monkeypatch: pytest.MonkeyPatch, plan: Plan, places: Places
) -> None:
    """On a site that pins host keys: what a node signed has to be what is judged, and all of it."""
    raw = with_parts(made()).as_json()
    monkeypatch.setattr("validation.training_story.events_of", functools.cache(events_of))  # most files stay the same

    def holds(changed: bytes) -> bool:
        try:
            return bool(PARTS["S188.measured"](changed))
        except (ValueError, LookupError, TypeError, AttributeError):
            return False

    assert holds(raw)
    passed = {
        place
        for place, changed in places(raw, plan, lambda place: place != "" and not f"{place}/".startswith("/parts/"))
        if place.startswith("/parts/") and holds(changed())
    }
    assert {place for place in passed if not re.fullmatch(r"/parts/\w+/\w+/samples", place)} == set()


@pytest.mark.parametrize("every_count", [False, pytest.param(True, marks=pytest.mark.soak)])
@pytest.mark.parametrize("item", sorted(OF_ROCE))
def test_an_incast_without_a_sender_a_cable_or_the_counters_of_an_end_does_not_pass(
    item: str, every_count: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are on a RoCE site; single counters are looked at by name."""
    raw: dict[str, Any] = test_incast.healthy()
    intended = incast.planned(test_roce.PLAN)  # what the plan says is the same for all that is tried
    monkeypatch.setattr(incast, "planned", lambda _: intended)

    def passes(changed: Mapping[str, Any]) -> bool:
        found = computed(item, "site", test_roce.PLAN, json.dumps(changed).encode())
        return isinstance(found, Again) and not found.problems

    assert passes(raw)
    ends = sorted(raw["before"])
    both = itertools.product(("before", "later"), (ends[0], ends[-1]))
    for at, end in both if every_count else (("before", ends[0]), ("later", ends[-1])):
        assert not passes({**raw, at: {name: one for name, one in raw[at].items() if name != end}})
        for word in raw[at][end]:
            fewer = {name: count for name, count in raw[at][end].items() if name != word}
            assert not passes({**raw, at: {**raw[at], end: fewer}}), (at, end, word)
    told = json.loads(json.dumps(raw["incast"]))
    for key, part in told.items():
        assert not passes({**raw, "incast": {name: one for name, one in told.items() if name != key}})
        if isinstance(part, list):
            assert not passes({**raw, "incast": {**told, key: part[1:]}})
