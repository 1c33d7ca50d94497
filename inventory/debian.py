"""Versions of Debian packages. Programs that run on nodes carry a copy of `upstream`; a test keeps them equal."""


def upstream(version: str) -> str:
    """'1:9.2p1-2+deb12u7' -> '9.2p1': [epoch:]upstream[-revision], the last hyphen parts the revision (policy 5.6.12)."""
    rest = version.split(":", 1)[-1]
    return rest.rpartition("-")[0] or rest
