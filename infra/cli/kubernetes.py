"""kubeconfig: the administrator's credentials of a site's cluster on this machine."""

import argparse
from typing import Any

from infra.cli.common import OK, UsageError, add_site, add_verb, planned, standard_console


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    text = "copy the administrator's kubeconfig from the first controller to this machine, for pulumi up and kubectl"
    add_site(add_verb(verbs, "kubeconfig", run_kubeconfig, text))


def run_kubeconfig(arguments: argparse.Namespace) -> int:
    from infra.kube.access import kubeconfig_of
    from infra.kube.fetched import fetch
    from validation.facts.kube import first_controller

    plan = planned(arguments.site)
    if plan.site.scheduler.kind != "kubernetes":
        raise UsageError(
            f"{plan.site.name} has no cluster: its scheduler.kind is {plan.site.scheduler.kind}, not kubernetes"
        )
    target = kubeconfig_of(plan.site.name)
    told = fetch(first_controller(plan), target)
    said = f"{target}: Kubernetes {told.removeprefix('v')} answers. It gives all rights on the cluster: keep it to yourself"
    standard_console().print(said, markup=False, highlight=False, soft_wrap=True)
    return OK
