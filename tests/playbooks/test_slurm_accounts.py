"""What slurmdbd has and what the site file wants in, the sacctmgr commands between them out."""

import subprocess

import pytest

from capacity.services.slurm import design
from inventory.catalog import load_catalog
from tests.plans import plan_of
from tests.playbooks.support import load

module = load("library/bringup_slurm_accounts.py")

# As slurmdbd 22.05.8 of a lab answered after the role's first run.
QOS = """\
normal|0||00:00:00||||
experimentation|1||00:00:05|DenyOnLimit|02:00:00||gres/gpu=16
training|2|experimentation|00:00:05|DenyOnLimit|1-00:00:00||
inference|3|experimentation,training|00:01:00|DenyOnLimit|||
"""
ASSOCIATIONS = """\
root|||1|normal||
root|root||1|normal||
commissioning||root|1|experimentation,inference,training|experimentation|
commissioning|bringup-a||1|experimentation,inference,training|experimentation|
commissioning|bringup-b||1|experimentation,inference,training|experimentation|
research||root|80|experimentation,inference,training|experimentation|
research|alice||1|experimentation,inference,training|experimentation|
research|bob||1|experimentation,inference,training|experimentation|
vision||research|1|experimentation,training|experimentation|gres/gpu=16
vision|alice||1|experimentation,training|experimentation|
services||root|20|inference|inference|
services|serving||1|inference|inference|
"""
FRESH_QOS = "normal|0||00:00:00||||\n"
FRESH_ASSOCIATIONS = "root|||1|normal||\nroot|root||1|normal||\n"


@pytest.fixture(scope="module")
def wanted():
    plain = design(plan_of("lab"), load_catalog()).plain()
    return plain["qos"], plain["accounts"]


def between(wanted, qos: str, associations: str) -> list[str]:
    seen = module.State(
        True, module.rows(qos, module.QOS_COLUMNS), module.rows(associations, module.ASSOCIATION_COLUMNS)
    )
    return [" ".join(command) for command in module.changes("lab", *wanted, seen)]


def test_a_database_as_wanted_is_left_alone(wanted):
    assert between(wanted, QOS, ASSOCIATIONS) == []


def test_an_empty_database_gets_classes_from_the_lowest_and_accounts_from_the_top(wanted):
    assert between(wanted, FRESH_QOS, FRESH_ASSOCIATIONS) == [
        "add qos Name=experimentation Priority=1 GraceTime=5 Flags=DenyOnLimit MaxWall=120 MaxTRESPU=gres/gpu=16",
        "add qos Name=training Priority=2 GraceTime=5 Preempt=experimentation Flags=DenyOnLimit MaxWall=1440",
        "add qos Name=inference Priority=3 GraceTime=60 Preempt=training,experimentation Flags=DenyOnLimit",
        (
            "add account Name=commissioning Cluster=lab Parent=root Fairshare=1 QOS=inference,training,experimentation "
            "DefaultQOS=experimentation"
        ),
        "add user Name=bringup-a,bringup-b Account=commissioning Cluster=lab",
        "add account Name=services Cluster=lab Parent=root Fairshare=20 QOS=inference DefaultQOS=inference",
        "add user Name=serving Account=services Cluster=lab",
        (
            "add account Name=research Cluster=lab Parent=root Fairshare=80 QOS=inference,training,experimentation "
            "DefaultQOS=experimentation"
        ),
        "add user Name=alice,bob Account=research Cluster=lab",
        (
            "add account Name=vision Cluster=lab Parent=research Fairshare=1 QOS=training,experimentation "
            "DefaultQOS=experimentation GrpTRES=gres/gpu=16"
        ),
        "add user Name=alice Account=vision Cluster=lab",
    ]


@pytest.mark.parametrize(
    ("old", "new", "command"),
    [
        ("|02:00:00|", "||", "modify qos where Name=experimentation set MaxWall=120"),
        ("gres/gpu=16\ntraining", "\ntraining", "modify qos where Name=experimentation set MaxTRESPU=gres/gpu=16"),
        ("training|2|experimentation|", "training|2||", "modify qos where Name=training set Preempt=experimentation"),
        ("00:01:00", "00:00:00", "modify qos where Name=inference set GraceTime=60"),
        ("inference|3|", "inference|0|", "modify qos where Name=inference set Priority=3"),
        ("|DenyOnLimit|||", "||||", "modify qos where Name=inference set Flags=DenyOnLimit"),
        ("|DenyOnLimit|||", "|DenyOnLimit|||gres/gpu=4", "modify qos where Name=inference set MaxTRESPU=gres/gpu=-1"),
        (
            "|1-00:00:00||",
            "|2-00:00:00|gres/gpu=8|",
            "modify qos where Name=training set MaxWall=1440 GrpTRES=gres/gpu=-1",
        ),
    ],
)
def test_a_class_that_drifted_is_set_back_and_nothing_else(wanted, old: str, new: str, command: str):
    assert old in QOS
    assert between(wanted, QOS.replace(old, new), ASSOCIATIONS) == [command]


@pytest.mark.parametrize(
    ("old", "new", "command"),
    [
        ("research||root|80|", "research||root|50|", "modify account where Name=research Cluster=lab set Fairshare=80"),
        ("vision||research|", "vision||root|", "modify account where Name=vision Cluster=lab set Parent=research"),
        (
            "|inference|inference|\nservices|serving",
            "|inference,training|inference|\nservices|serving",
            "modify account where Name=services Cluster=lab set QOS=inference",
        ),
        ("|gres/gpu=16\n", "|\n", "modify account where Name=vision Cluster=lab set GrpTRES=gres/gpu=16"),
        (
            "research|bob||1|experimentation,inference,training|experimentation|\n",
            "",
            "add user Name=bob Account=research Cluster=lab",
        ),
    ],
)
def test_an_account_that_drifted_is_set_back_and_nothing_else(wanted, old: str, new: str, command: str):
    assert old in ASSOCIATIONS
    assert between(wanted, QOS, ASSOCIATIONS.replace(old, new)) == [command]


def test_accounts_and_users_that_the_site_does_not_have_stay(wanted):
    more = ASSOCIATIONS + "guests||root|1|training|training|\nguests|eve||1|training|training|\n"
    assert between(wanted, QOS, more) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [("", None), ("02:00:00", 120), ("1-00:00:00", 1440), ("14-00:30:00", 20190), ("UNLIMITED", None)],
)
def test_run_times_are_minutes(text: str, value: int | None):
    assert module.minutes(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("", None), ("gres/gpu=16", 16), ("cpu=4,gres/gpu=8,node=1", 8), ("gres/gpu:h100=8", None)]
)
def test_limits_on_gpus_are_read_from_lists_of_resources(text: str, value: int | None):
    assert module.gpus(text) == value


def test_a_refusal_of_sacctmgr_names_the_command_and_what_it_said(monkeypatch):
    refusal = subprocess.CompletedProcess([], 1, stdout="", stderr="sacctmgr: error: no TRES known by type gres/gpu")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: refusal)
    with pytest.raises(module.AccountingError, match="sacctmgr add qos Name=x: .* no TRES known by type gres/gpu"):
        module.sacctmgr("add", "qos", "Name=x")


def test_a_slurmdbd_that_hangs_is_an_error_within_the_budget(monkeypatch):
    def hang(argv, **_):
        raise subprocess.TimeoutExpired(argv, 30)

    monkeypatch.setattr(module.subprocess, "run", hang)
    with pytest.raises(module.AccountingError, match="took over 30 s; see `journalctl -u slurmdbd`"):
        module.sacctmgr("show", "qos")


def test_a_cluster_that_slurmctld_has_not_registered_is_named(monkeypatch):
    monkeypatch.setattr(module, "sacctmgr", lambda *_: "")
    with pytest.raises(module.AccountingError, match="slurmctld has not registered cluster lab and its GPUs"):
        module.read_when_it_answers("lab", 0)
