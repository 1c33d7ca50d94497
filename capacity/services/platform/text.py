"""The platform's objects as a file for kubectl, in an order in which they can be applied."""

import yaml

from capacity.model import Plan
from capacity.services.platform.design import design

HEAD = """\
# Platform of site {site}, plan {plan}. Written by Bringup; edit the site file.
#   kubectl apply --server-side -f platform.yaml
# Needs Kueue 0.15.0. A node that has not registered yet is created by its labels; its kubelet takes it over.
"""


def manifests(plan: Plan) -> str:
    """All objects as documents of one YAML file."""
    head = HEAD.format(site=plan.site.name, plan=plan.hash[:16])
    documents = [one.manifest for one in design(plan).objects]
    return head + yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True)
