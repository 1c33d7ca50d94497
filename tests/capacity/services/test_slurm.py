"""The Slurm design of a plan: nodes, topology, priority classes, accounts."""

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.services.slurm import CHECK_ACCOUNT, CHECK_USERS, Design, design, gpu_type
from inventory.catalog import load_catalog
from inventory.site import parse_site
from tests.full_sites import full_text
from tests.plans import plan_of


def designed(site: str, *changes: tuple[str, str]) -> tuple[Plan, Design]:
    text = full_text(site)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    plan = build(parse_site(text))
    return plan, design(plan, load_catalog())


@pytest.fixture(scope="module")
def big() -> tuple[Plan, Design]:
    plan = plan_of("h100-1000-ib")
    return plan, design(plan, load_catalog())


def test_every_gpu_server_is_a_node_of_its_models_size(big):
    plan, slurm = big
    assert [node.name for node in slurm.nodes] == plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    assert {(node.cpus, node.memory_mib, node.gpus) for node in slurm.nodes} == {(112, 2048 * 1024, 8)}


def test_users_ask_for_the_gpu_by_its_short_name():
    catalog = load_catalog()
    assert {gpu_type(catalog.gpu(slug)) for slug in ("nvidia-h100-sxm5-80gb", "nvidia-h100-pcie-80gb")} == {"h100"}


def test_leaves_of_the_topology_are_the_plans_units(big):
    plan, slurm = big
    *units, top = slurm.switches
    assert [len(unit.nodes) for unit in units] == [32] * 31 + [8]
    assert top.switches == tuple(unit.name for unit in units)
    unit_of = plan.devices.set_index("name")["unit"]
    assert all(unit_of[list(unit.nodes)].nunique() == 1 for unit in units)
    assert sorted(name for unit in units for name in unit.nodes) == [node.name for node in slurm.nodes]


def test_a_fabric_of_one_unit_is_one_switch():
    _, slurm = designed("lab")
    assert [(switch.name, len(switch.nodes)) for switch in slurm.switches] == [("unit001", 4)]


def test_a_class_preempts_all_lower_ones_and_no_other():
    _, slurm = designed("lab")
    assert [(q.name, q.priority, q.preempts) for q in slurm.qos] == [
        ("inference", 3, ("training", "experimentation")),
        ("training", 2, ("experimentation",)),
        ("experimentation", 1, ()),
    ]


def test_limits_are_the_sites_and_grace_without_one_is_the_time_of_a_checkpoint():
    _, slurm = designed("lab", ("training: {grace_s: 5, max_hours: 24}", "training: {max_hours: 1.5, max_gpus: 24}"))
    training = next(q for q in slurm.qos if q.name == "training")
    assert (training.grace_s, training.max_wall_min, training.max_gpus, training.max_gpus_per_user) == (
        60,
        90,
        24,
        None,
    )


def test_accounts_come_after_their_parents_and_inherit_their_classes(big):
    _, slurm = big
    names = [account.name for account in slurm.accounts]
    assert all(
        account.parent == "root" or names.index(account.parent) < names.index(account.name)
        for account in slurm.accounts
    )
    of = {account.name: account for account in slurm.accounts}
    assert of["product"].qos == ("inference",)
    assert of["language"].qos == of["research"].qos == ("training", "experimentation")


def test_children_listed_before_their_parents_still_come_after_them():
    _, slurm = designed("lab", ("accounts:\n", "accounts:\n    - {name: first, parent: research}\n"))
    names = [account.name for account in slurm.accounts]
    assert names.index("research") < names.index("first")


def test_the_checks_have_an_account_with_two_users_on_every_site(big):
    _, slurm = big
    account = slurm.accounts[0]
    assert (account.name, account.users, account.qos) == (CHECK_ACCOUNT, tuple(CHECK_USERS), tuple(big[0].site.tiers))
    assert len(CHECK_USERS) == 2


def test_the_plain_form_is_lists_and_numbers(big):
    plain = big[1].plain()
    assert plain["qos"][0]["preempts"] == ["training", "experimentation"]
    assert plain["switches"][0]["nodes"][:2] == ["gpu0001", "gpu0002"]
