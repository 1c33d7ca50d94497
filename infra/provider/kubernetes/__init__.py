"""Provider `kubernetes` below the types of `pulumi_kubernetes`, for machines that cannot download Pulumi's own plugin.

It takes objects of any kind that the cluster serves, custom resources, and labels of nodes that the cluster made (`NodePatch`). It
applies on the server's side, so that fields of others stay as they are, and waits for workloads to roll out. Not here: content of
Secrets, imports, Helm, generated names. docs/decisions/0382-a-kubernetes-provider-of-our-own.md says why it exists and when it is
used.
"""
