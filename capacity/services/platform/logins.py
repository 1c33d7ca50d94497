"""Who a user of Kubernetes is that logs in at the site's issuer, as the API server is told.

Names come without a prefix, as `users` of accounts has them; so they may not be names that programs of the cluster have. Groups
have one: a group that somebody calls system:masters at the issuer is none here. Format:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#using-authentication-configuration
"""

from typing import Any

from inventory.site.sections.logins import Login
from inventory.site.sections.software import minor_of

GROUPS = "login:"
"""Before each group of the issuer."""
LOGIN_NAME = "^[a-z_][-a-z0-9_]{0,31}$"
"""As in scheduler.accounts[...].users: without a colon."""
RESERVED = "^(kube-|bringup-|front-proxy-|etcd$)"
"""Names without a colon that certificates of the cluster carry (capacity/services/cluster.py)."""
V1_FROM = 34
"""Minor version of Kubernetes 1 that serves apiserver.config.k8s.io/v1 with this kind; v1beta1 is older (k8s.io/apiserver)."""


def authentication(login: Login, kubernetes: str) -> dict[str, Any]:
    """The AuthenticationConfiguration, without the certificate of the issuer's authority. kubernetes: the pinned version."""
    issuer = {"url": login.issuer, "audiences": [login.audience]}
    rules = [
        {
            "expression": f"user.username.matches('{LOGIN_NAME}') && !user.username.matches('{RESERVED}')",
            "message": "not a login name that users of accounts may have",
        }
    ]
    mappings = {
        "username": {"claim": login.user_claim, "prefix": ""},
        "groups": {"claim": login.groups_claim, "prefix": GROUPS},
    }
    return {
        "apiVersion": f"apiserver.config.k8s.io/{'v1' if minor_of(kubernetes) >= V1_FROM else 'v1beta1'}",
        "kind": "AuthenticationConfiguration",
        "jwt": [{"issuer": issuer, "claimMappings": mappings, "userValidationRules": rules}],
    }
