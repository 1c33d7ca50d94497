"""What `make setup` runs: `setup.sh` up to the Python environment, then the modules here and `infra.toolchain`."""
