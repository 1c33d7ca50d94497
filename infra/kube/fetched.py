"""The administrator's kubeconfig of a cluster on this machine, for `pulumi up` and kubectl.

    fetch(controller(plan), kubeconfig_of("site"))      # "v1.36.3"; ClusterError or DeviceError say what is wrong

It gives all rights on the cluster, so the file is the caller's alone (mode 0600), and it is in place only once its API server has
answered.
"""

import shlex
from pathlib import Path

from infra.kube.access import LARGEST, ClusterError, connect, version
from infra.kube.certificates import private
from network.drivers.ssh import SshHost
from validation.facts.kube import KUBECONFIG

READ = f'''set -- head -c {LARGEST + 1} {shlex.quote(KUBECONFIG)}
[ "$(id -u)" = 0 ] || set -- sudo -n "$@"
exec "$@"'''


def fetch(controller: SshHost, target: Path) -> str:
    """Copy the kubeconfig from the controller to `target`; the version that its API server says.

    Raises DeviceError where the controller does not answer, and ClusterError where it has none, or its API server does not answer.
    `target` stays as it was then.
    """
    found = controller.run(READ, check=False)
    if found.status != 0:
        raise ClusterError(
            f"{controller.name}: {KUBECONFIG} cannot be read: {' '.join(found.err.split())[:200]}. "
            "The role kubernetes_control_plane writes it: ansible-playbook playbooks/site.yml"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    private(new, found.out.encode())
    try:
        told = version(connect(new))
    except ClusterError as error:
        raise ClusterError(str(error).replace(str(new), f"{controller.name}:{KUBECONFIG}")) from None
    else:
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return told
