"""What ring, hierarchy and NVLink allow a collective, by the figures of nccl-tests and of RC-038."""

from typing import Any

import pytest

from network.expected import ALGORITHMS, OPERATIONS, ceiling, factor

H100: dict[str, Any] = {"gpus": 8, "nic_gb_s": 50.0, "nvlink_gb_s": 450.0}
NO_NVLINK = {**H100, "nvlink_gb_s": 0.0}


@pytest.mark.parametrize("domains", [2, 4, 125, 1000])
def test_a_ring_over_servers_is_bound_by_all_nics_of_a_server(domains):
    assert ceiling("all_reduce", domains=domains, **NO_NVLINK)["ring"].busbw_gb_s == 400.0  # RC-038


def test_two_servers_are_bound_by_nvlink_where_the_nics_would_allow_750():
    assert ceiling("all_reduce", domains=2, **NO_NVLINK)["hierarchical"].busbw_gb_s == pytest.approx(750.0)
    found = ceiling("all_reduce", domains=2, **H100)["hierarchical"]
    assert found.busbw_gb_s == pytest.approx(480.0)
    assert found.bound_by == "NVLink"


@pytest.mark.parametrize(
    ("domains", "expected", "bound"), [(4, 480.0, "NVLink"), (8, 450.0, "NICs"), (1000, 400.35, "NICs")]
)
def test_a_hierarchy_nears_the_nics_with_more_servers(domains, expected, bound):
    found = ceiling("all_reduce", domains=domains, **H100)["hierarchical"]
    assert found.busbw_gb_s == pytest.approx(expected, rel=0.003)
    assert found.bound_by == bound


def test_one_server_is_bound_by_nvlink_alone():
    for operation in OPERATIONS:
        found = ceiling(operation, domains=1, **H100)
        assert {one.bound_by for one in found.values()} == {"NVLink"}
    assert ceiling("all_gather", domains=1, **H100)["ring"].busbw_gb_s == 450.0


def test_send_and_receive_by_rails_show_one_nic_and_all_to_all_one_gpus_share():
    assert ceiling("send_recv", domains=2, **H100)["ring"].busbw_gb_s == 50.0
    assert ceiling("all_to_all", domains=125, **H100)["ring"].busbw_gb_s == pytest.approx(50.35, rel=0.001)


def test_two_dead_nics_of_eight_stay_hidden_in_a_hierarchy_of_two_servers_and_show_in_a_ring():
    six = {**H100, "nic_gb_s": 50.0 * 6 / 8}
    assert (
        ceiling("all_reduce", domains=2, **six)["hierarchical"]
        == ceiling("all_reduce", domains=2, **H100)["hierarchical"]
    )
    assert ceiling("all_reduce", domains=2, **six)["ring"].busbw_gb_s == 300.0


def test_no_algorithm_is_bound_below_what_a_ring_gets():
    for operation in OPERATIONS:
        for domains in (1, 2, 3, 32):
            found = ceiling(operation, domains=domains, **H100)
            assert set(found) == set(ALGORITHMS)
            assert found["hierarchical"].busbw_gb_s >= found["ring"].busbw_gb_s > 0


@pytest.mark.parametrize(
    ("operation", "ranks", "expected"),
    [
        ("all_reduce", 8, 1.75),
        ("all_reduce", 16, 1.875),
        ("all_reduce", 8000, 1.99975),
        ("all_gather", 8, 0.875),
        ("broadcast", 8, 1.0),
        ("send_recv", 2, 1.0),
        ("all_to_all", 4, 0.75),
        ("all_reduce", 1, 0.0),
    ],
)
def test_factors_are_those_of_nccl_tests(operation, ranks, expected):
    assert factor(operation, ranks) == expected


@pytest.mark.parametrize("wrong", [{"domains": 0}, {"domains": 2, "gpus": 0}, {"domains": 2, "nic_gb_s": 0.0}])
def test_a_cluster_without_parts_is_refused(wrong):
    with pytest.raises(ValueError, match="no cluster"):
        ceiling("all_reduce", **{**H100, **wrong})
