"""kubeconfig: credentials of a site's cluster on this machine, the administrator's or a member's."""

import argparse
from typing import Any

from infra.cli.common import OK, UsageError, add_site, add_verb, planned, standard_console
from inventory.site import Site

MOST_DAYS = 365
"""No certificate that the cluster signs lasts longer (cluster-signing-duration)."""


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    text = "copy the administrator's kubeconfig from a controller to this machine, for pulumi up and kubectl; or make a member's"
    kubeconfig = add_verb(verbs, "kubeconfig", run_kubeconfig, text)
    add_site(kubeconfig)
    kubeconfig.add_argument(
        "--controller", metavar="NAME", default="", help="whose API server is asked from then on (default: the first)"
    )
    kubeconfig.add_argument(
        "--user", default="", help="make one for this user of an account, to be handed to its owner"
    )
    kubeconfig.add_argument("--days", type=int, default=90, help="how long it lasts (default: 90)")


def run_kubeconfig(arguments: argparse.Namespace) -> int:
    from infra.kube.access import kubeconfig_of
    from infra.kube.fetched import fetch
    from validation.facts.kube import controller, controllers_of

    plan = planned(arguments.site)
    if plan.site.scheduler.kind != "kubernetes":
        raise UsageError(
            f"{plan.site.name} has no cluster: its scheduler.kind is {plan.site.scheduler.kind}, not kubernetes"
        )
    if arguments.user:
        return member(plan.site, arguments.user, arguments.days)
    known = controllers_of(plan)
    if arguments.controller not in ("", *known):
        raise UsageError(f"{plan.site.name} has no controller {arguments.controller}; controllers: {', '.join(known)}")
    target = kubeconfig_of(plan.site.name)
    told = fetch(controller(plan, arguments.controller), target)
    said = f"{target}: Kubernetes {told.removeprefix('v')} answers. It gives all rights on the cluster: keep it to yourself"
    standard_console().print(said, markup=False, highlight=False, soft_wrap=True)
    return OK


def member(site: Site, user: str, days: int) -> int:
    """A kubeconfig of a member beside the administrator's, with whose rights it is made."""
    from infra.kube.access import ClusterError, connect, kubeconfig_of
    from infra.kube.certificates import private
    from infra.kube.members import kubeconfig, signed

    users = sorted({name for account in site.scheduler.accounts for name in account.users})
    if user not in users:
        raise UsageError(
            f"{site.name} has no user {user}: scheduler.accounts[...].users has {', '.join(users) or 'none'}"
        )
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"--days {days}: 1 to {MOST_DAYS}")
    own = kubeconfig_of(site.name)
    if not own.exists():
        raise ClusterError(f"{own} is missing, with whose rights it is made: bringup kubeconfig {site.name}")
    made = signed(connect(own), user, days)
    target = own.with_name(f"kubeconfig-{user}")
    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    private(new, kubeconfig(own.read_text(encoding="utf-8"), made).encode())
    new.replace(target)
    said = (
        f"{target}: {user} until {made.ends}. It holds the user's key: hand it to that user alone, then delete it here"
    )
    standard_console().print(said, markup=False, highlight=False, soft_wrap=True)
    return OK
