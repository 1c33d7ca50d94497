"""The Pulumi CLI that fits the pinned SDK: found on PATH, downloaded, or built from Go modules.

`python -m infra.toolchain` makes it available; `infra.env` puts it on PATH.
"""
