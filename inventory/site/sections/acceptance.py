"""Limits that checks judge by, who may attest, and what the validation may do."""

import functools
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from inventory.catalog import Catalog, read_yaml
from inventory.paths import repo_root
from inventory.site.messages import nearest
from inventory.site.rules import rule
from inventory.site.values import Section, Slug, Text, absent
from inventory.site.yaml_source import Problem

LIMITS_DOC = "Every limit that a check judges by; the known keys are in inventory/limits.yaml."


class Limit(Section):
    """One limit of a check. It is hashed before the run that it judges."""

    value: float = Field(description="The limit.")
    unit: Text = Field(description="Unit of the value; as inventory/limits.yaml says.")
    source: Text = Field(description="Where the number comes from: data sheet, standard, contract, baseline.")


class AttestRole(Section):
    """A role whose holders may sign attested steps."""

    title: Text = Field(description="What the role does.")
    licence: Text | None = Field(default=None, description="Licence that the law or the contract asks for.")
    second_signer: bool = Field(default=False, description="Whether safety items need a second signer of this role.")
    keys: tuple[Annotated[str, Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$")], ...] = Field(
        default=(),
        description="Fingerprints (ssh-keygen -lf) of the keys whose signatures count for this role at go-live.",
    )


class Attest(Section):
    """Who may attest."""

    roles: dict[Slug, AttestRole] = Field(min_length=1, description="Roles by name.")
    approval_days: float = Field(
        default=14,
        gt=0,
        le=366,
        description="Days after which the approvals of go-live (S195) lapse, and the first half of a freeze.",
    )


class Validation(Section):
    """How the checks run on this site, and what they may do to it."""

    workloads_on: Literal["gpu", "cpu"] = Field(
        default="gpu",
        description="Where burn-in, collectives and training compute. `gpu`: on every GPU of a node, one rank each, over NCCL; "
        "a job that finds no GPU fails. `cpu`: one rank a node over gloo; proves nothing about GPUs and never counts at "
        "go-live.",
    )
    fault_injection: bool = Field(
        default=False,
        description="Checks may cut a GPU server's power at its PDU outlets during a job (S187, S188), and give it back. With "
        "Kubernetes they may also stop a kubelet (P-10), and kill API server and etcd of one controller after the other, where "
        "there are several (P-08, P-09); P-12 needs programs besides.",
    )
    accepted_access: tuple[Text, ...] = Field(
        default=(),
        max_length=500,
        exclude_if=absent,
        description="Access and state of devices that no plan knows and the site accepts, in the words of the check that reports "
        "it: 'account alice', 'key SHA256:...', 'port tcp/9256', 'timer backup.timer', 'BMC account monitor'.",
    )
    challenges: bool = Field(
        default=False,
        description="Checks may switch off one outlet of a drained server with several supplies, see the supply lost at its BMC, "
        "and switch it on again: the challenge that proves a PDU. They may also shut one port of a switch, see the link lost at "
        "the drained server at its far end, and open the port again.",
    )


TIME_BUDGETS = {
    "bmc_timeout_s": "timeouts.bmc_s",
    "snmp_timeout_s": "timeouts.snmp_s",
    "ssh_timeout_s": "timeouts.ssh_s",
    "gpu_timeout_s": "timeouts.gpu_s",
    "ib_read_s": "timeouts.infiniband_s",
    "storage_timeout_s": "timeouts.storage_s",
    "allreduce_timeout_s": "timeouts.collectives_s",
    "training_timeout_s": "timeouts.training_s",
}
MOVED = {**TIME_BUDGETS, "burn_in_h": "limits.burn_in_required_h"}
"""Keys that stood in `limits` once, and where their values stand now."""


@functools.cache
def known_limits() -> dict[str, dict[str, Any]]:
    """The register of limits, inventory/limits.yaml: key -> unit, meaning, max."""
    register: dict[str, dict[str, Any]] = read_yaml(repo_root() / "inventory" / "limits.yaml")
    return register


@rule("limits")
def limits_are_known_and_in_their_unit(catalog: Catalog, limits: dict[str, Limit]) -> Iterator[Problem]:
    register = known_limits()
    for key, limit in limits.items():
        if key in MOVED:
            yield Problem(
                ("limits", key),
                "a key that has moved",
                key,
                MOVED[key],
                f"write {MOVED[key]}: {limit.value:g}" if key in TIME_BUDGETS else f"rename it to {MOVED[key]}",
                nearest=MOVED[key],
            )
            continue
        if key not in register:
            near = nearest(key, register)
            yield Problem(
                ("limits", key),
                "an unknown limit",
                key,
                "a key of inventory/limits.yaml",
                f"rename it to {near}" if near else "delete it, or add it to inventory/limits.yaml",
                nearest=near,
            )
            continue
        known = register[key]
        if limit.unit != known["unit"]:
            yield Problem(
                ("limits", key, "unit"),
                "another unit than checks use",
                limit.unit,
                known["unit"],
                f"write {known['unit']} and convert the value",
            )
        low = known.get("min", 0)
        if limit.value < low or limit.value > known.get("max", float("inf")):
            top = f" to {known['max']}" if "max" in known else " or more"
            yield Problem(
                ("limits", key, "value"),
                "an impossible value",
                f"{limit.value:g}",
                f"{low}{top} {known['unit']}",
                f"check the value: {known['meaning']}",
            )
