"""Started by the engine through `bin/pulumi-resource-kubernetes`: serves the provider `kubernetes`."""

import importlib.metadata

from infra.provider.kubernetes.provider import Kubernetes
from infra.provider.kubernetes.unchanged import UnchangedServicer
from infra.provider.server import serve

if __name__ == "__main__":
    serve(Kubernetes, importlib.metadata.version("pulumi-kubernetes"), UnchangedServicer)
