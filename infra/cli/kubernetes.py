"""kubeconfig: the administrator's credentials of a site's cluster on this machine."""

import argparse
from typing import Any

from infra.cli.common import OK, UsageError, add_site, add_verb, planned, standard_console


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    text = "copy the administrator's kubeconfig from a controller to this machine, for pulumi up and kubectl"
    kubeconfig = add_verb(verbs, "kubeconfig", run_kubeconfig, text)
    add_site(kubeconfig)
    kubeconfig.add_argument(
        "--controller", metavar="NAME", default="", help="whose API server is asked from then on (default: the first)"
    )


def run_kubeconfig(arguments: argparse.Namespace) -> int:
    from infra.kube.access import kubeconfig_of
    from infra.kube.fetched import fetch
    from validation.facts.kube import controller, controllers_of

    plan = planned(arguments.site)
    if plan.site.scheduler.kind != "kubernetes":
        raise UsageError(
            f"{plan.site.name} has no cluster: its scheduler.kind is {plan.site.scheduler.kind}, not kubernetes"
        )
    known = controllers_of(plan)
    if arguments.controller not in ("", *known):
        raise UsageError(f"{plan.site.name} has no controller {arguments.controller}; controllers: {', '.join(known)}")
    target = kubeconfig_of(plan.site.name)
    told = fetch(controller(plan, arguments.controller), target)
    said = f"{target}: Kubernetes {told.removeprefix('v')} answers. It gives all rights on the cluster: keep it to yourself"
    standard_console().print(said, markup=False, highlight=False, soft_wrap=True)
    return OK
