"""A node that notes what it is told to run, in place of one that is reached over SSH."""

from network.drivers.ssh import Completed


class Host:
    """A controller with the shared storage. `said`: what its files hold, as `cat` shows them."""

    name = "ctl01"

    def __init__(self, said: str = "") -> None:
        self.said, self.ran = said, list[str]()

    def run(self, command: str, check: bool = True) -> Completed:
        self.ran.append(command)
        return Completed(0, self.said if command.startswith("cat ") else "", "", 0.1)
