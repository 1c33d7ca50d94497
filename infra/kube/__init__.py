"""How a Kubernetes API server is reached: the kubeconfig, and whether it answers in time."""
