"""The Pulumi program: stands a site up, layer by layer, from its plan.

Stack configuration (all optional):
    bringup:site     name of a shipped site or path of a site.yaml; the stack's name by default
    bringup:from     folder of an accepted state that the plan starts from, in place of the one beside the site file
    bringup:layers   layers to manage, such as ["power", "network"]; all by default
    bringup:kubeconfig  path of the cluster's kubeconfig, in place of the one that `bringup kubeconfig` fetched; without any the
                        platform layer is left out (scheduler.kind: kubernetes)

A plan with error findings that nobody has waived is refused, in preview and in up.
Stack outputs: plan_hash, findings, devices (management and node addresses), report (path of the plan's page).
"""

import os
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pulumi

from capacity.build import build
from capacity.model import Plan
from capacity.sizes import load_site
from infra import collector
from infra.boot.built import IMAGES
from infra.env import kubernetes_plugin
from infra.kube.access import ClusterError, connect, kubeconfig_of, version
from infra.kube.manifests import ManifestError
from infra.layers.addresses import management_addresses, node_addresses
from infra.layers.installed import Installations, servers_of, to_install
from infra.layers.network import Network
from infra.layers.nodes import Nodes
from infra.layers.power import Power
from infra.layers.subnet import Subnet
from inventory.catalog import CatalogError
from inventory.delivered.assets import AssetError, load_assets
from inventory.findings import without_untried
from inventory.paths import repo_root, var_dir
from inventory.site import Site, SiteError
from validation.evidence.store import IntegrityError

LAYERS = ("power", "network", "nodes", "installations", "subnet", "platform")

MESSAGE_SHOWN = 32
"""Exit status by which Pulumi's language host knows that the user has seen the reason."""


class ProgramError(Exception):
    """The program cannot go on; the text is for the user."""


def program() -> None:
    """Declare every resource of the stack's site."""
    config = pulumi.Config("bringup")
    reference = site_reference(config.get("site") or pulumi.get_stack())
    layers = chosen(config.get_object("layers"))
    start = config.get("from")
    site = load_site(reference, repo_root() / start if start else None)
    assets, catalog = load_assets(site), site.catalog
    plan = build(site, catalog=catalog, assets=assets)
    refuse(plan, datetime.now(UTC))
    kubeconfig = cluster_of(site, config.get("kubeconfig"), config.get_object("layers"))

    power = Power(plan, assets, reference) if "power" in layers else None
    outlets = power.racks if power else {}
    if "network" in layers:
        Network(plan, assets, reference, outlets)
    by_us = "installations" in layers and site.provisioning.installed_by == "pulumi"
    images = to_install(plan, assets, reference, var_dir(site.name) / IMAGES) if by_us else {}
    nodes = Nodes(plan, catalog, assets, reference, outlets, servers_of(images)) if "nodes" in layers else None
    if by_us:
        Installations(images, nodes.racks if nodes else {})
    if "subnet" in layers:
        Subnet(plan, assets, reference, nodes.racks if nodes else {})
    if kubeconfig:
        from infra.layers.platform import Platform  # 0.8 s, which no other site pays

        pulumi.log.info(f"platform: provider is {kubernetes_plugin(os.environ)}")
        try:
            Platform(plan, kubeconfig)
        except ManifestError as error:
            raise ProgramError(f"platform: {error}") from None

    pulumi.export("plan_hash", plan.hash)
    pulumi.export(
        "findings", [f"{f.severity}: {f.id} {f.subject}: {f.message}" for f in map(without_untried, plan.findings)]
    )
    pulumi.export("devices", devices(plan))
    pulumi.export("report", str(report(site)))


def site_reference(given: str) -> str:
    """A site's name as it is, a path absolute: relative ones count from the clone's root, where `pulumi` is called."""
    return str(repo_root() / given) if "/" in given else given


def chosen(layers: Any) -> tuple[str, ...]:
    """The layers to manage, in order; all when the stack does not say. Raises ProgramError for an unknown one."""
    if layers is None:
        return LAYERS
    unknown = sorted(set(layers) - set(LAYERS))
    if unknown:
        raise ProgramError(f"bringup:layers: no layer {', '.join(unknown)}; there are {', '.join(LAYERS)}")
    return tuple(layer for layer in LAYERS if layer in layers)


def cluster_of(site: Site, kubeconfig: str | None, layers: Any) -> str:
    """Path of the kubeconfig of the platform layer, whose API server answers and has the pinned version; '' without that layer.

    Raises ProgramError where the stack names the layer and it cannot be declared.
    """
    named = layers is not None and "platform" in layers
    if layers is not None and not named:
        return ""
    if site.scheduler.kind != "kubernetes":
        if named:
            raise ProgramError(
                f"bringup:layers: platform is for sites of Kubernetes, and scheduler.kind of {site.name} is "
                f"{site.scheduler.kind}: delete platform"
            )
        return ""
    fetched = kubeconfig_of(site.name)
    if not kubeconfig and not fetched.exists():
        how = f"bringup kubeconfig {site.name}, or pulumi config set bringup:kubeconfig PATH"
        if named:
            raise ProgramError(f"bringup:layers names platform, and there is no kubeconfig: {how}")
        pulumi.log.info(f"platform: left out, since there is no kubeconfig. Once the cluster runs: {how}")
        return ""
    path = repo_root() / Path(kubeconfig).expanduser() if kubeconfig else fetched
    try:
        told = version(connect(path))
    except ClusterError as error:
        raise ProgramError(f"platform: {error}") from None
    pinned = site.versions["kubernetes"]
    if told.removeprefix("v").split(".")[:2] != pinned.removeprefix("v").split(".")[:2]:
        raise ProgramError(
            f"platform: the API server is {told}, versions.kubernetes pins {pinned}: correct the one that is wrong"
        )
    return str(path)


def refuse(plan: Plan, now: datetime) -> None:
    """Raise ProgramError, naming every error finding of the plan that no standing waiver covers.

    An example site can never go live, so for it a waiver counts as in a rehearsal.
    """
    if not any(finding.severity == "error" for finding in plan.findings):
        return
    from validation.gate import counted_waivers
    from validation.waive import unwaived_errors

    waivers = counted_waivers(plan.site, None, now, rehearsal=plan.site.example)
    blocking = unwaived_errors(plan.findings, waivers, now)
    if blocking:
        raise ProgramError(
            "\n".join(
                [
                    f"the plan of {plan.site.name} has {len(blocking)} error finding(s); correct the site file or waive them:",
                    *(f"  {one.id} {one.subject}: {one.message}" for one in map(without_untried, blocking)),
                ]
            )
        )


def report(site: Site) -> Path:
    """Where `bringup plan` writes the page of this site's plan."""
    return var_dir(site.name) / "plan" / "report.html"


def devices(plan: Plan) -> dict[str, dict[str, str]]:
    """{device: {"management": address, "node": address}}, each where it has one."""
    management, node = management_addresses(plan), node_addresses(plan)
    return {
        name: {
            key: addresses[name] for key, addresses in (("management", management), ("node", node)) if name in addresses
        }
        for name in sorted(management.keys() | node.keys())
    }


if __name__ == "__main__":
    collector.seldom()
    try:
        program()
    except (ProgramError, SiteError, AssetError, CatalogError, IntegrityError) as error:
        pulumi.log.error(str(error))
        # What the SDK had begun is dropped on purpose; Python would report each coroutine.
        warnings.filterwarnings("ignore", message=r"coroutine .* was never awaited", category=RuntimeWarning)
        sys.exit(MESSAGE_SHOWN)
