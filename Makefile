# Everything starts here: `make demo` and `make test` set up what they need themselves.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup setup-platform setup-controllers demo demo-metal demo-platform test test-fast test-platform soak lint format bench equality equality-record mutants prove-clean

PYTHON := .venv/bin/python
unexport PYTHONDONTWRITEBYTECODE # programs start in half the time with their bytecode kept

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: ## Install what is missing: packages, Python environment, Pulumi CLI, node images (idempotent)
	@infra/setup/setup.sh

setup-platform: setup ## Kubernetes from its Go modules into the cache: 12 minutes of processor time, 5 GB while it builds, once
	@$(PYTHON) -m infra.setup.platform

setup-controllers: setup-platform ## Kueue, JobSet, kwok, CoreDNS, NVIDIA's plugin and toolkit from Go modules: 18 minutes more, 4 GB while they build, once
	@$(PYTHON) -m infra.setup.controllers

demo: setup ## Set-up, then the main job on the lab, then the verdict; the lab stays up
	@$(PYTHON) -m infra.proven run demo $(PYTHON) -m infra.demo

demo-metal: setup ## Two empty virtual machines become accepted Slurm nodes, with faults on the way (its own packages)
	@infra/setup/metal.sh
	@$(PYTHON) -m infra.proven run demo-metal $(PYTHON) -m infra.metal

demo-platform: setup-controllers ## The lab's site with Kubernetes: cluster, platform by Pulumi, both twice, checks, rehearsal of the gate
	@$(PYTHON) -m infra.proven run demo-platform $(PYTHON) -m infra.demo --platform

test: setup lint ## Set-up, linters, types, layer contract, and every test that this machine can run
	@$(PYTHON) -m tests.halves

test-fast: ## The tests that need neither the lab nor a GPU
	@$(PYTHON) -m pytest tests -n auto -m "not lab and not gpu and not platform"

test-platform: setup-platform ## The tests that start a Kubernetes control plane, which `make test` leaves out
	@$(PYTHON) -m pytest tests -m platform

soak: setup ## The long tests (marker soak) with a seed of the day; SOAK_SEED=YYYYMMDD repeats one
	@infra/setup/metal.sh
	-@infra/setup/installer.sh var/soak/installer
	@$(PYTHON) -m infra.proven run soak $(PYTHON) -m tests.soak

lint: ## Linters, types and the layer contract
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check --quiet . || { echo "Some files are not formatted: make format"; exit 1; }
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo

format: ## Format the Python code
	@.venv/bin/ruff format .

bench: setup ## Timings of the main commands (never asserted)
	@$(PYTHON) -m infra.proven run bench $(SHELL) -ec "$(PYTHON) -m infra.bench; $(PYTHON) -m bench.plan --largest; \
	  $(PYTHON) -m bench.evidence; $(PYTHON) -m bench.evidence --batch 1024; $(PYTHON) -m bench.switches; $(PYTHON) -m bench.links; \
	  $(PYTHON) -m bench.infiniband; $(PYTHON) -m bench.inventory; $(PYTHON) -m bench.bmcs; $(PYTHON) -m bench.metal; \
	  $(PYTHON) -m bench.kubernetes"

equality: ## What changed in plans, files and findings of 214 sites and all recorded faults since the baseline
	@$(PYTHON) -m tests.equality $(if $(TREE),--tree $(TREE)) $(if $(EVERY),--every $(EVERY))

equality-record: ## Write that baseline anew, from this tree or from TREE=DIR (a checkout of the commit to compare with)
	@$(PYTHON) -m tests.equality --record $(if $(TREE),--tree $(TREE))

mutants: ## 40 seeded mutants of moved modules, before the moves and here: what is killed where (hours; resumes)
	@$(PYTHON) -m tests.equality.mutants --count 40 --seed 11

prove-clean: ## Prove the set-up in a fresh Debian 12 root without caches (needs root; takes half an hour)
	@infra/setup/prove-clean.sh
