"""kubeconfig: credentials of a site's cluster on this machine, the administrator's or a member's."""

import argparse
from pathlib import Path
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
    kubeconfig.add_argument(
        "--login",
        action="store_true",
        help="make one for all who log in at the site's issuer (scheduler.login); it holds no key",
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
    if arguments.login:
        if arguments.user:
            raise UsageError("--login is for all users, --user for one: give one of them")
        return logging_in(plan.site)
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
    from infra.kube.access import connect
    from infra.kube.members import kubeconfig, signed

    users = sorted({name for account in site.scheduler.accounts for name in account.users})
    if user not in users:
        raise UsageError(
            f"{site.name} has no user {user}: scheduler.accounts[...].users has {', '.join(users) or 'none'}"
        )
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"--days {days}: 1 to {MOST_DAYS}")
    own = administrators(site)
    made = signed(connect(own), user, days)
    said = f"{user} until {made.ends}. It holds the user's key: hand it to that user alone, then delete it here"
    return leave(own.with_name(f"kubeconfig-{user}"), kubeconfig(own.read_text(encoding="utf-8"), made), said)


def logging_in(site: Site) -> int:
    """A kubeconfig for all who log in at the site's issuer."""
    from infra.kube.members import login_kubeconfig

    login = site.scheduler.login
    if login is None:
        raise UsageError(f"{site.name} has no scheduler.login: its users have certificates (--user NAME)")
    own = administrators(site)
    said = f"for all who log in at {login.issuer}. It holds no key, and needs kubectl's plugin oidc-login"
    text = login_kubeconfig(own.read_text(encoding="utf-8"), site.name, login)
    return leave(own.with_name("kubeconfig-login"), text, said)


def administrators(site: Site) -> Path:
    """The kubeconfig of the administrator on this machine; ClusterError without one."""
    from infra.kube.access import ClusterError, kubeconfig_of

    own = kubeconfig_of(site.name)
    if not own.exists():
        raise ClusterError(f"{own} is missing, which names the cluster: bringup kubeconfig {site.name}")
    return own


def leave(target: Path, text: str, said: str) -> int:
    """Write a kubeconfig that its owner alone may read, and say so."""
    from infra.kube.certificates import private

    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    private(new, text.encode())
    new.replace(target)
    standard_console().print(f"{target}: {said}", markup=False, highlight=False, soft_wrap=True)
    return OK
