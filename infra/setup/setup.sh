#!/usr/bin/env bash
# Set-up of a clone: `make setup`. Installs what is missing, in the order in which the steps need each other, and
# does nothing in under two seconds when all is there. Debian 12 and Ubuntu 24.04; other systems get the steps that
# need no apt. Environment: BRINGUP_CACHE (default /var/cache/bringup for root) holds what all clones share.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

UV_VERSION=0.13.9
readonly UV_VERSION
readonly STEPS=(packages uv environment bytecode pulumi nodes slurm avd)
readonly STAMP=.venv/.bytecode-stamp
readonly DAEMONS=(frr lldpd prometheus snmpd ssh)   # units that the packages bring
POLICY=/usr/sbin/policy-rc.d       # Debian Policy 9.3.3.1: whether packages may start their daemons

declare -A TITLE=(
    [packages]="System packages (apt)"
    [uv]="uv $UV_VERSION into .tools/uv"
    [environment]="Python environment .venv, as pinned in uv.lock"
    [bytecode]="Bytecode of the Python environment"
    [pulumi]="Pulumi CLI into .tools/pulumi"
    [nodes]="Node root file system and package mirror of the lab"
    [slurm]="The newest Debian's slurmctld, unpacked into the cache"
    [avd]="Arista's pyavd into .tools/avd, an environment of its own"
)
declare -A WHY=(
    [packages]="the lab's switches and nodes are made of them"
    [uv]="installs exactly what uv.lock pins"
    [environment]="the suite's libraries, about 3 GB to download, most of it PyTorch"
    [bytecode]="the lab's nodes mount the environment read-only and could not write it themselves"
    [pulumi]="official release, or built from Go modules where that cannot be downloaded"
    [nodes]="so that 'bringup lab up' needs no network"
    [slurm]="a test starts it with the slurm.conf of every shipped site; 130 MB"
    [avd]="a test holds the configurations of EOS against it; it needs an older python-dateutil than the suite"
)
declare -A MINUTES=([packages]=2 [uv]=1 [environment]=6 [bytecode]=2 [pulumi]=7 [nodes]=3 [slurm]=1 [avd]=1)
declare -A REMEDY=(
    [packages]="Look at the apt output above; 'apt-get update' must work. Then run make setup again."
    [uv]="pip could not install uv==$UV_VERSION. Check that pip reaches its index (PIP_INDEX_URL, proxies, certificates)."
    [environment]="Check that https://files.pythonhosted.org can be reached and that 12 GB of disk are free; run make setup again."
    [bytecode]="Delete .venv and run make setup again."
    [pulumi]="Install the Pulumi CLI yourself (https://www.pulumi.com/docs/install/) so that it is on PATH, or let GOPROXY be reached."
    [nodes]="debootstrap and apt-get must reach the archive in /etc/apt/sources.list*. Then run make setup again."
    [slurm]="http://deb.debian.org/debian must be reached, directly or through apt's proxy."
    [avd]="Delete .tools/avd and run make setup again."
)

is_root() { [ "$(id -u)" -eq 0 ]; }
has_apt() { command -v apt-get >/dev/null; }
wanted_packages() { sed 's/#.*//' infra/setup/packages.txt | xargs; }

missing_packages() {
    local name installed
    # shellcheck disable=SC2046  # a list of words is meant
    installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' $(wanted_packages) 2>/dev/null || true)"
    for name in $(wanted_packages); do
        [[ "$installed" == *" installed=$name "* ]] || echo "$name"
    done
}

# --- Steps. needs_X: is there something to do? do_X: do it. ---------------------------------------------------------

needs_packages() { has_apt && [ -n "$(missing_packages)" ]; }

do_packages() {
    local missing had=() unit
    missing=$(missing_packages | xargs)
    if ! is_root; then
        echo "  Not root, so these stay missing: $missing"
        echo "  Planning, rendering, the gate and Pulumi previews work without them; the lab does not. For the lab:"
        echo "    sudo apt-get install $missing"
        return 0
    fi
    apt_update
    # Packages of daemons start and enable them. This machine is no router and asked for no login service, so they are
    # kept from starting and are disabled, unless they were here before.
    for unit in "${DAEMONS[@]}"; do
        if unit_file_exists "$unit"; then had+=("$unit"); fi
    done
    if [ ! -e "$POLICY" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$POLICY"
        chmod 755 "$POLICY"
        trap 'rm -f "$POLICY"' EXIT
    fi
    echo "  installing: $missing"
    # shellcheck disable=SC2086  # a list of words is meant
    quietly apt-get install -y --no-install-recommends -o Dpkg::Use-Pty=0 $missing
    for unit in "${DAEMONS[@]}"; do
        if [[ " ${had[*]} " != *" $unit "* ]] && unit_file_exists "$unit"; then
            quietly systemctl disable "$unit.service"
        fi
    done
}

unit_file_exists() { [ -e "/lib/systemd/system/$1.service" ] || [ -e "/etc/systemd/system/$1.service" ]; }

apt_update() { quietly apt-get -o Acquire::Retries=3 update; }

needs_uv() { [ "$(.tools/uv/bin/uv --version 2>/dev/null | cut -d' ' -f2)" != "$UV_VERSION" ]; }

do_uv() {
    local python
    python=$(suitable_python) || {
        echo "  no Python 3.11 or newer found (Debian 12 and Ubuntu 24.04 have one in the package python3)" >&2
        return 1
    }
    rm -rf .tools/uv
    "$python" -m venv .tools/uv || {
        echo "  Python's venv module is missing: sudo apt-get install python3-venv" >&2
        return 1
    }
    quietly .tools/uv/bin/pip install --disable-pip-version-check "uv==$UV_VERSION"
}

# The system's own Python comes first: the nodes of the lab run the environment with theirs, at the same path.
suitable_python() {
    local python
    for python in /usr/bin/python3 "$(command -v python3)"; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$python"
            return 0
        fi
    done
    return 1
}

# --inexact: what a person added to the environment stays.
uv_sync() { UV_SYSTEM_CERTS=true .tools/uv/bin/uv sync --frozen --inexact --python "$(suitable_python)" --extra lab "$@"; }

# uv compares the lock file with what is installed, in 0.1 s. Our own package is left out: a checkout changes its date.
needs_environment() { ! uv_sync --check --no-install-project >/dev/null 2>&1 || [ ! -x .venv/bin/bringup ]; }

do_environment() {
    if [ -t 2 ]; then uv_sync; else quietly uv_sync; fi # its progress bars are for terminals
}

needs_bytecode() { ! cmp -s uv.lock $STAMP; }

do_bytecode() {
    # Status 1 is normal: some packages carry files for other versions of Python, which nothing imports here.
    .venv/bin/python -m compileall -qq -j 0 .venv/lib || [ $? -eq 1 ]
    cp uv.lock $STAMP
}

needs_pulumi() { ! .venv/bin/python -m infra.toolchain --check; }

do_pulumi() { .venv/bin/python -m infra.toolchain; }

needs_nodes() { is_root && has_apt && ! .venv/bin/python -m infra.setup.nodes --check; }

do_nodes() {
    apt_update
    .venv/bin/python -m infra.setup.nodes
}

needs_slurm() { is_root && has_apt && ! .venv/bin/python -m infra.setup.newest_slurm --check; }

# Only a test needs it: a machine that cannot reach the archive is set up all the same.
do_slurm() { .venv/bin/python -m infra.setup.newest_slurm || echo "  Without it the test of the newest slurmctld is skipped."; }

needs_avd() { ! cmp -s infra/setup/avd.txt .tools/avd/installed.txt; }

make_avd() {
    export UV_SYSTEM_CERTS=true
    .tools/uv/bin/uv venv --clear --python .venv/bin/python .tools/avd
    .tools/uv/bin/uv pip install --python .tools/avd/bin/python -r infra/setup/avd.txt
    cp infra/setup/avd.txt .tools/avd/installed.txt
}

# Only tests need it: a machine that cannot reach the index is set up all the same.
do_avd() { quietly make_avd || echo "  Without it the tests against pyavd are skipped."; }

# --- Frame ----------------------------------------------------------------------------------------------------------

# Run a command or function; show its output only when it fails.
quietly() {
    local log status=0
    log=$(mktemp)
    DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ $status -ne 0 ]; then
        echo "  $* failed with status $status:" >&2
        tail -n 25 "$log" | sed 's/^/    /' >&2
    fi
    rm -f "$log"
    return $status
}

# Steps after the first pending one may depend on it, so they can only be checked when their tools are there.
pending_steps() {
    local step
    for step in "${STEPS[@]}"; do
        case $step in
            pulumi | nodes | slurm | avd) [ -x .venv/bin/python ] || { echo "$step"; continue; } ;;
        esac
        if "needs_$step" 2>/dev/null; then echo "$step"; fi
    done
}

main() {
    local pending step minutes=0 number=0 began
    mapfile -t pending < <(pending_steps)
    if [ ${#pending[@]} -eq 0 ]; then
        echo "Set-up: everything is in place."
        return 0
    fi
    for step in "${pending[@]}"; do minutes=$((minutes + MINUTES[$step])); done
    echo "Set-up will do ${#pending[@]} step(s), up to about $minutes minutes on two cores; caches shorten it:"
    for step in "${pending[@]}"; do echo "  - ${TITLE[$step]}: ${WHY[$step]}"; done
    for step in "${pending[@]}"; do
        number=$((number + 1))
        began=$SECONDS
        echo "[$number/${#pending[@]}] ${TITLE[$step]}"
        # Each step in its own shell, with errexit: in a condition bash would ignore it.
        set +e
        (
            set -e
            "do_$step"
        )
        local status=$?
        set -e
        if [ $status -ne 0 ]; then
            echo "Set-up stopped at: ${TITLE[$step]}." >&2
            echo "What to do: ${REMEDY[$step]}" >&2
            return 1
        fi
        echo "  done in $((SECONDS - began)) s"
    done
    if has_apt && [ -n "$(missing_packages)" ]; then
        echo "Set-up: done, without the system packages named above."
        return 0
    fi
    echo "Set-up: everything is in place. Next: source .venv/bin/activate && eval \"\$(bringup env)\""
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then main; fi
