"""Slurm's answers against its design: each difference is named, and nothing else is."""

import re
from dataclasses import replace

import pytest

from capacity.services.slurm import Design, design
from inventory.catalog import load_catalog
from inventory.paths import repo_root
from tests.plans import plan_of
from tests.playbooks.test_slurm_accounts import ASSOCIATIONS, QOS
from tests.playbooks.test_slurm_accounts import module as accounts_module
from validation import slurm_policy
from validation.runners.slurm import ASSOCIATION_COLUMNS, CLASS_COLUMNS, Accounting


@pytest.fixture(scope="module")
def wanted() -> Design:
    return design(plan_of("lab"), load_catalog())


def accounting(qos: str = QOS, associations: str = ASSOCIATIONS) -> Accounting:
    """As sacctmgr of a lab answered (the recording of the module's tests has no column for the cluster)."""
    classes = [dict(zip(CLASS_COLUMNS, line.split("|"), strict=True)) for line in qos.splitlines()]
    rows = [
        dict(zip(ASSOCIATION_COLUMNS, ["lab", *line.split("|")], strict=True)) for line in associations.splitlines()
    ]
    return Accounting(tuple(classes), tuple(rows), "")


def test_what_the_role_applied_has_no_difference(wanted: Design):
    assert slurm_policy.class_differences(wanted, accounting()) == []
    assert slurm_policy.account_differences(wanted, accounting()) == []


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("training|2|", "training|9|", "class training: priority is 9, the site file wants 2"),
        (
            "|experimentation|00:00:05",
            "||00:00:05",
            "class training: preempts is none, the site file wants experimentation",
        ),
        ("00:01:00", "00:00:10", "class inference: grace time, s is 10, the site file wants 60"),
        ("1-00:00:00", "", "class training: longest run, min is unlimited, the site file wants 1440"),
        ("gres/gpu=16", "gres/gpu=32", "class experimentation: GPUs of one user is 32, the site file wants 16"),
        (
            "training|2|experimentation|00:00:05|DenyOnLimit",
            "training|2|experimentation|00:00:05|",
            "class training: refuses at once what breaks a limit is False, the site file wants True",
        ),
        (
            "normal|0||00:00:00||||\n",
            "normal|0||00:00:00||||\nvip|9||00:00:00||||\n",
            "class vip is not in the site file",
        ),
    ],
)
def test_a_class_that_differs_is_named(wanted: Design, old: str, new: str, difference: str):
    assert old in QOS
    assert slurm_policy.class_differences(wanted, accounting(qos=QOS.replace(old, new, 1))) == [difference]


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("vision||research|", "vision||root|", "account vision: parent is root, the site file wants research"),
        ("research||root|80|", "research||root|1|", "account research: shares is 1, the site file wants 80"),
        (
            "services||root|20|inference|",
            "services||root|20|inference,training|",
            "account services: classes is inference training, the site file wants inference",
        ),
        ("|gres/gpu=16\n", "|\n", "account vision: GPUs is unlimited, the site file wants 16"),
        (
            "research|bob||1|experimentation,inference,training|experimentation|\n",
            "",
            "user bob is not in account research",
        ),
        (
            "root|root||1|normal||\n",
            "root|root||1|normal||\nguests||root|1|training|training|\n",
            "account guests is not in the site file",
        ),
        (
            "root|root||1|normal||\n",
            "root|root||1|normal||\nresearch|eve||1|training|training|\n",
            "user eve of account research is not in the site file",
        ),
    ],
)
def test_an_account_that_differs_is_named(wanted: Design, old: str, new: str, difference: str):
    assert old in ASSOCIATIONS
    seen = accounting(associations=ASSOCIATIONS.replace(old, new, 1))
    assert slurm_policy.account_differences(wanted, seen) == [difference]


def test_what_is_missing_altogether_is_named_once(wanted: Design):
    empty = Accounting((), (), "")
    assert slurm_policy.class_differences(wanted, empty) == [
        "class inference is missing",
        "class training is missing",
        "class experimentation is missing",
    ]
    found = slurm_policy.account_differences(wanted, empty)
    assert "account vision is missing" in found
    assert "user alice is not in account vision" in found


def test_another_cluster_in_the_same_database_is_none_of_ours(wanted: Design):
    seen = accounting()
    foreign = ({**seen.associations[0], "Cluster": "other", "Account": "theirs"},)
    assert slurm_policy.account_differences(wanted, replace(seen, associations=seen.associations + foreign)) == []


def test_a_node_below_another_leaf_group_is_named(wanted: Design):
    nodes = ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert slurm_policy.topology_differences(wanted, {"unit001": nodes}) == []
    assert slurm_policy.topology_differences(wanted, {"unit001": nodes[:3], "unit002": nodes[3:]}) == [
        "switch unit001: has gpu001, gpu002, gpu003, planned gpu001, gpu002, gpu003, gpu004",
        "switch unit002: has gpu004, planned ",
    ]
    assert slurm_policy.topology_differences(wanted, {}) == ["switch unit001: Slurm does not have it"]


@pytest.mark.parametrize(
    "text", ["", "00:00:00", "00:01:30", "02:00:00", "1-02:30:00", "31-00:00:59", "UNLIMITED", "5", "01:30"]
)
def test_times_are_read_as_the_module_that_sets_them_reads_them(text: str):
    assert slurm_policy.minutes(text) == accounts_module.minutes(text)
    assert slurm_policy.seconds(text) == accounts_module.seconds(text)


@pytest.mark.parametrize(
    "text",
    ["", "cpu=4", "gres/gpu=16", "cpu=4,gres/gpu=16,node=2", "gres/gpu:h100=8", "billing=1,xgres/gpu=3", "gres/gpu=0"],
)
def test_gpus_are_read_as_the_module_that_sets_them_reads_them(text: str):
    assert slurm_policy.gpus(text) == accounts_module.gpus(text)


def test_a_user_of_the_root_account_and_a_limit_of_a_user_are_not_in_the_site_file(wanted: Design):
    seen = accounting()
    extra = dict.fromkeys(ASSOCIATION_COLUMNS, "") | {"Cluster": "lab", "Account": "root", "User": "mallory"}
    limited = dict.fromkeys(ASSOCIATION_COLUMNS, "") | {"Cluster": "lab", "Account": "vision", "User": "alice"}
    limited["GrpTRES"] = "gres/gpu=32"
    rows = [row for row in seen.associations if (row["Account"], row["User"]) != ("vision", "alice")]
    assert slurm_policy.account_differences(wanted, replace(seen, associations=(*rows, extra, limited))) == [
        "user mallory of account root is not in the site file",
        "user alice of account vision has a limit of its own, gres/gpu=32, that is not in the site file",
    ]


def test_limits_that_no_site_file_can_set_are_named_with_their_owner(wanted: Design):
    seen = accounting()
    rows = [dict(row) for row in seen.associations]
    account = next(row for row in rows if row["Account"] == "vision" and not row["User"])
    user = next(row for row in rows if row["Account"] == "vision" and row["User"] == "alice")
    account["MaxJobs"], user["MaxWall"] = "4", "01:00:00"
    assert sorted(slurm_policy.account_differences(wanted, replace(seen, associations=tuple(rows)))) == [
        "account vision has the limit MaxJobs 4, and no site file has such limits",
        "user alice of account vision has the limit MaxWall 01:00:00, and no site file has such limits",
    ]


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        ({"all": "up"}, []),
        ({"all": "drain"}, ["partition all is drain and starts no jobs"]),
        ({}, ["partition all is missing"]),
        ({"all": "up", "debug": "up"}, ["partition debug is not in the configuration of the playbooks"]),
    ],
)
def test_a_partition_that_starts_no_jobs_or_that_nobody_planned_is_named(seen: dict[str, str], found: list[str]):
    assert slurm_policy.partition_differences(seen) == found


def test_the_partition_is_the_one_that_the_playbooks_write():
    text = (repo_root() / "playbooks/roles/slurm_config/templates/slurm.conf.j2").read_text()
    assert re.findall(r"^PartitionName=(\S+)", text, re.MULTILINE) == [slurm_policy.PARTITION]
