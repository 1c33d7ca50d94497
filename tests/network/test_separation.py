"""Which networks may reach which, and the filters that follow from it on each system."""

import ipaddress
import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from network import render, roce, separation
from network.nos.cumulus import startup
from network.nos.frr import nftables
from network.nos.sonic import config_db
from network.separation import Rule
from network.wiring import ipv6
from tests.network import dual_stack
from tests.network.nos.test_eos import plan_with
from tests.plans import plan_of


@pytest.fixture(scope="module")
def leaf():
    return roce.structured_configs(plan_of("b200-256-roce"))["rol001"]


@pytest.fixture(scope="module")
def arista():
    return roce.structured_configs(plan_with())["rol001"]


@pytest.fixture(scope="module")
def table():
    return render.render_filter(plan_of("lab"), "leaf01")


def test_a_router_of_both_families_reads_back_as_the_matrix_and_takes_neighbour_discovery():
    plan = dual_stack.lab()
    said = nftables.read(render.render_filter(plan, "leaf01"))
    assert said.permits == set(separation.permits(plan.site, "inband"))
    own = {"fd00:16::/64", "fd00:18::/64"}
    assert {(r.source, r.destination) for r in said.permits if r.version == 6} == {(a, b) for a in own for b in own}
    assert {f"ip6 saddr {one} ip6 daddr ff02::/16 meta l4proto ipv6-icmp accept" for one in own} <= set(said.own)


def test_a_rule_of_icmpv6_is_written_and_read():
    rule = Rule("fd00:16::/64", "fd00:18::/64", "icmp", None)
    text = f"table inet bringup {{\n\tchain forward {{\n\t\t{nftables._matched(rule)} accept\n\t}}\n}}\n"
    assert nftables.read(text).permits == {rule}


@pytest.mark.parametrize(("site", "networks"), [("lab", 3), ("h100-1000-ib", 3), ("b200-256-roce", 4)])
def test_the_matrix_has_each_ordered_pair_and_denies_all_between_two_networks(site, networks):
    matrix = separation.matrix(plan_of(site).site)
    assert len(matrix[["source", "destination"]].drop_duplicates()) == networks**2
    between = matrix[matrix["source"] != matrix["destination"]]
    assert set(between["verdict"]) == {"denied"}
    within = matrix[matrix["source"] == matrix["destination"]]
    assert set(within["destination"]) == set(within.loc[within["verdict"] == "allowed", "source"])


def test_the_matrix_says_who_enforces_a_row():
    rows = separation.matrix(plan_of("b200-256-roce").site)
    matrix = dict(zip(zip(rows["source"], rows["destination"], strict=True), rows["enforced_by"], strict=True))
    assert matrix["inband", "management"] == "in-band switches"
    assert matrix["inband", "compute"] == "in-band switches, compute leaves"
    assert matrix["management", "provisioning"] == separation.NOT_ROUTED
    assert matrix["management", "management"] == "nothing: one segment"


@pytest.mark.parametrize("site", ["lab", "h100-1000-ib", "b200-256-roce"])
def test_each_planned_address_is_in_one_network(site):
    plan = plan_of(site)
    assert separation.outside(plan.site, plan.addresses) == []
    strange = plan.addresses.iloc[[0]].assign(address="192.0.2.1/24")
    assert len(separation.outside(plan.site, strange)) == 1


def test_a_compute_leaf_lets_rocev2_and_ping_through():
    site = plan_of("b200-256-roce").site
    found = separation.permits(site, "compute")
    rails, loopbacks = str(site.addressing.rails), str(site.addressing.compute_loopbacks)
    assert {(rule.protocol, rule.port) for rule in found} == {("udp", 4791), ("icmp", None)}
    assert {(rule.source, rule.destination) for rule in found} == {
        (one, other) for one in (rails, loopbacks) for other in (rails, loopbacks)
    }


def test_a_compute_leaf_of_both_families_lets_neighbour_discovery_through_beside_rocev2_and_ping():
    plan = dual_stack.plan()
    found = [rule for rule in separation.at_ports(plan.site, "compute") if rule.version == 6]
    own = {"fd00:76::/48", "fd00:78::/64"}
    pairs = {(one, other) for one in own for other in own}
    assert {(r.source, r.destination) for r in found if r.protocol == "udp"} == pairs
    assert {(r.source, r.destination) for r in found if r.protocol == "icmp"} == pairs | {
        ("::/0", "ff02::/16"),  # a solicitation goes to a group, from ::, a link-local or the planned address
        ("::/0", "fe80::/10"),
        *(("fe80::/10", one) for one in own),  # an answer may come from the link-local address
    }
    assert {r.port for r in found if r.protocol == "udp"} == {4791}
    v4 = [rule for rule in separation.at_ports(plan.site, "compute") if rule.version == 4]
    assert tuple(v4) == separation.permits(plan_of("b200-256-roce").site, "compute")


def test_each_planned_address_of_both_families_is_in_one_network():
    plan = dual_stack.plan()
    assert separation.outside(plan.site, ipv6.both(plan.site, plan.catalog, plan.addresses)) == []
    strange = plan.addresses.iloc[[0]].assign(address="2001:db8::1/64")
    assert len(separation.outside(plan.site, strange)) == 1


def test_an_infiniband_site_has_no_compute_network_to_filter():
    assert separation.permits(plan_of("h100-1000-ib").site, "compute") == ()


# -- what a filter does with a packet, worked by hand from each system's own text ---------------------------------------


def test_every_server_port_of_a_leaf_is_filtered_and_no_port_to_a_spine(leaf):
    wanted = {port.name for port in leaf.ports if port.far.startswith("gpu")}
    assert set(leaf.filtered) == wanted
    assert len(wanted) < len(leaf.ports)
    spine = roce.structured_configs(plan_of("b200-256-roce"))["ros001"]
    assert spine.filtered == ()
    assert "acl" not in yaml.safe_load(startup.render(spine))[1]["set"]
    assert "ACL_TABLE" not in json.loads(config_db.render(spine))


Change = Callable[[str], str]


def of_json(change: Callable[[Any], object]) -> Change:
    def changed(text: str) -> str:
        tables = json.loads(text)
        change(tables)
        return json.dumps(tables)

    return changed


def of_yaml(change: Callable[[Any], object]) -> Change:
    def changed(text: str) -> str:
        tree = yaml.safe_load(text)
        change(tree[1]["set"])
        return yaml.safe_dump(tree)

    return changed


def of_line(pattern: str, by: str) -> Change:
    def changed(text: str) -> str:
        made, count = re.subn(pattern, by, text, count=1, flags=re.MULTILINE)
        assert count == 1
        return made

    return changed


WRONG = [
    ("cumulus", of_yaml(lambda s: s["interface"]["swp1s0"].pop("acl")), "filtered: lacks swp1s0"),
    (
        "cumulus",
        of_yaml(lambda s: s["interface"]["swp1s0"]["acl"].pop("SEPARATION-CPU")),
        "filtered: lacks swp1s0",
    ),
    ("cumulus", of_yaml(lambda s: s["acl"]["SEPARATION"]["rule"].popitem()), "filtered: lacks"),
    (
        "cumulus",
        of_yaml(lambda s: s["acl"]["SEPARATION"]["rule"]["10"]["match"]["ip"].update({"source-ip": "0.0.0.0/0"})),
        "permits: has Rule(source='0.0.0.0/0'",
    ),
    ("sonic", of_json(lambda t: t["ACL_TABLE"]["SEPARATION"]["ports"].pop(0)), "filtered: lacks swp1s0"),
    ("sonic", of_json(lambda t: t["ACL_TABLE"]["SEPARATION"].update(stage="egress")), "filtered: lacks"),
    ("sonic", of_json(lambda t: t["ACL_RULE"].pop("SEPARATION|DENY")), "filtered: lacks"),
    ("sonic", of_json(lambda t: t["ACL_RULE"].pop("SEPARATION|PERMIT_1")), "permits: lacks Rule"),
    (
        "sonic",
        of_json(lambda t: t["ACL_RULE"]["SEPARATION|PERMIT_1"].update(L4_DST_PORT="22")),
        "port=22",
    ),
    ("eos", of_line(r"^   ip access-group SEPARATION in\n", ""), "filtered: lacks Ethernet1/1"),
    ("eos", of_line(r"^   \d+ deny ip any any\n", ""), "filtered: lacks"),
    ("eos", of_line(r"^   10 permit udp (.*) eq 4791$", r"   10 permit ip \1"), "protocol='any'"),
]


@pytest.mark.parametrize(("system", "change", "said"), WRONG)
def test_a_wrong_filter_of_a_compute_switch_is_told(leaf, arista, system, change, said):
    config, one = arista if system == "eos" else leaf, roce.SYSTEMS[system]
    right, wrong = one.render(config), change(one.render(config))
    wanted = config.model()
    fields = ("permits", "filtered")
    assert list(one.read(right).unlike(wanted, fields)) == []
    assert said in "; ".join(one.read(wrong).unlike(wanted, fields))


@pytest.mark.parametrize(
    ("system", "change"),
    [
        ("cumulus", of_yaml(lambda s: s["acl"]["SEPARATION"]["rule"]["10"].update(action={"deny": {}}))),
        ("sonic", of_json(lambda t: t["ACL_RULE"]["SEPARATION|PERMIT_1"].update(PACKET_ACTION="DROP"))),
        ("sonic", of_json(lambda t: t["ACL_RULE"]["SEPARATION|PERMIT_1"].update(TCP_FLAGS="0x02/0x02"))),
        ("eos", of_line(r"^   10 permit udp", "   10 deny udp")),
    ],
)
def test_a_rule_of_another_kind_is_refused(leaf, arista, system, change):
    config, one = arista if system == "eos" else leaf, roce.SYSTEMS[system]
    with pytest.raises(ValueError, match="none of this suite|of this suite"):
        one.read(change(one.render(config)))


# -- nftables of the in-band switches -------------------------------------------------------------------------------------


def test_a_table_reads_back_as_the_matrix_and_drops_all_else(table):
    site = plan_of("lab").site
    said = nftables.read(table)
    assert said.permits == set(separation.permits(site, "inband"))
    assert said.drops == {"input", "forward"}
    assert said.closed == {"eth0"}
    prefixes = [ipaddress.ip_network(prefix) for rule in said.permits for prefix in (rule.source, rule.destination)]
    assert not any(prefix.overlaps(site.addressing.oob) for prefix in prefixes)


def test_only_ports_to_switches_take_bgp_and_bfd(table):
    own = nftables.read(table).own
    assert {line.split('"')[1] for line in own if "179" in line or "3784" in line} == {"swp1", "swp2"}
    assert 'iifname "eth0" accept' in own
    assert not any("dport 22" in line or "161" in line for line in own)


def test_protocols_and_ports_of_a_rule_are_written_and_read():
    config = render.structured_config(plan_of("lab"), "leaf01")
    rules = (
        Rule("10.0.0.0/8", "10.1.0.0/16", "any", None),
        Rule("10.0.0.0/8", "10.1.0.0/16", "icmp", None),
        Rule("10.0.0.0/8", "10.1.0.0/16", "tcp", 2049),
    )
    text = nftables.render({**config, "permits": rules})
    assert "\t\tip saddr 10.0.0.0/8 ip daddr 10.1.0.0/16 tcp dport 2049 accept\n" in text
    assert nftables.read(text).permits == set(rules)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("forward priority filter; policy drop", "forward priority filter; policy accept"),
        ("input priority filter; policy drop", "input priority filter; policy accept"),
        ("ip saddr 172.16.0.0/20 ip daddr 172.18.0.0/16 accept", "ip saddr 0.0.0.0/0 ip daddr 172.18.0.0/16 accept"),
        (
            "ip saddr 172.16.0.0/20 ip daddr 172.18.0.0/16 accept",
            "ip saddr 172.16.0.0/20 ip daddr 172.18.0.0/16 tcp dport 22 accept",
        ),
    ],
)
def test_a_wrong_table_differs_from_the_matrix_by_that_line(table, right, wrong):
    assert right in table
    assert nftables.read(table.replace(right, wrong)) != nftables.read(table)
    assert nftables.difference(table, table.replace(right, wrong)).count("\n") == 1


def test_a_port_that_is_closed_behind_a_permit_is_refused(table):
    line = '\t\toifname "eth0" drop\n'
    with pytest.raises(ValueError, match="is no line of this filter"):
        nftables.read(table.replace(line, "").replace("\t}\n}", f"{line}\t}}\n}}"))


def test_a_line_of_somebody_else_is_named(table):
    with pytest.raises(ValueError, match="'counter accept' is no line of this filter"):
        nftables.read(table.replace("\t}\n}", "\t\tcounter accept\n\t}\n}"))


def test_order_is_a_difference(table):
    lines = table.splitlines(keepends=True)
    last = [number for number, line in enumerate(lines) if line.endswith("accept\n")][-1]
    lines[last - 1], lines[last] = lines[last], lines[last - 1]
    assert nftables.difference(table, "".join(lines)) == "- table inet bringup: another order of lines"
    assert nftables.difference(table, table) == ""


@pytest.mark.needs("nft", "root")
@pytest.mark.parametrize(
    "wrong", ["", "policy refuse", "ip saddr 172.16.0.0/40", "tcp dport 70000", "ip protocol icmpv8"]
)
def test_nft_takes_the_table_shows_it_the_same_and_refuses_a_wrong_value(table, tmp_path, wrong):
    right = {
        "policy": "policy drop",
        "ip saddr": "ip saddr 172.16.0.0/20",
        "tcp": "tcp dport 179",
        "ip protocol": "ip protocol icmp",
    }
    text = table
    for begin, there in right.items():
        if wrong.startswith(begin):
            assert there in table
            text = table.replace(there, wrong, 1)
    (tmp_path / "table.nft").write_text(text)
    script = f"nft -f {tmp_path / 'table.nft'} && nft --stateless list table inet bringup"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode == 0) == (wrong == ""), done.stderr
    if not wrong:
        assert done.stdout == table
