"""What a Kubernetes cluster is to know of a plan: namespaces, quotas, rights, node labels, queues. Pure.

    for one in design(plan).objects: print(one.key, one.manifest)

The site's accounts and tiers are those of Slurm's design (capacity/services/slurm.py): one policy, two workload managers.
"""

from capacity.services.platform.design import Platform, design
from capacity.services.platform.objects import PlatformObject

__all__ = ["Platform", "PlatformObject", "design"]
