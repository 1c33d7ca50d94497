#!/usr/bin/env bash
# Prove that a fresh machine needs nothing but make and git: build a minimal root, clone the committed state of this
# repository into it, and run make targets there, with no cache of this machine in reach.
#
#   infra/setup/prove-clean.sh [--suite bookworm|noble] [--keep] [TARGET ...]      (default: setup)
#
# Needs root, debootstrap and 25 GB under $TMPDIR (default /var/tmp). What this machine needs to reach package
# registries (resolver, proxies, own certificate authorities, index settings) is passed on; nothing else is. Processes
# inside live in a PID namespace of their own and end with it. The network is this machine's, so no lab may be up.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

suite=bookworm keep=false targets=()
while [ $# -gt 0 ]; do
    case $1 in
        --suite) suite=$2 && shift ;;
        --keep) keep=true ;;
        -*) sed -n '2,9p' "$0" >&2 && exit 2 ;;
        *) targets+=("$1") ;;
    esac
    shift
done
[ ${#targets[@]} -gt 0 ] || targets=(setup)
[ "$(id -u)" -eq 0 ] || { echo "A root file system can only be built as root." >&2; exit 2; }

case $suite in
    bookworm)
        mirror=http://deb.debian.org/debian components=main
        sources="deb $mirror $suite $components
deb $mirror $suite-updates $components
deb http://deb.debian.org/debian-security $suite-security $components"
        ;;
    noble)
        mirror=http://archive.ubuntu.com/ubuntu components=main,universe
        sources="deb $mirror $suite main universe
deb $mirror $suite-updates main universe
deb $mirror $suite-security main universe"
        ;;
    *) echo "Known suites: bookworm, noble." >&2 && exit 2 ;;
esac

root=$(mktemp -d "${TMPDIR:-/var/tmp}/bringup-clean.XXXXXX")
chmod 755 "$root"   # it becomes /, which daemons must be able to pass after they have dropped root
finish() {
    if $keep; then echo "Kept: $root"; else rm -rf --one-file-system "$root"; fi
}
trap finish EXIT

echo "== $suite root in $root"
options=(--variant=minbase --components="$components" --include=make,git,ca-certificates)
if [ "$suite" = noble ] && [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]; then
    options+=(--keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg)
fi
# Both suites have the merged /usr that the script of the older releases sets up, if debootstrap knows no newer one.
script=/usr/share/debootstrap/scripts/$suite
[ -e "$script" ] || script=/usr/share/debootstrap/scripts/gutsy
debootstrap "${options[@]}" "$suite" "$root" "$mirror" "$script" >"$root.log" 2>&1 ||
    { tail -n 20 "$root.log" >&2 && exit 1; }
rm "$root.log"

# What this machine needs to reach registries.
echo "$sources" >"$root/etc/apt/sources.list"
apt-config dump | grep -E '^Acquire::(.*[Pp]roxy|Check-Valid-Until|Check-Date)' >"$root/etc/apt/apt.conf.d/90network" || true
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(uname -n)" >"$root/etc/hosts"   # an installed system has one
for path in /etc/pip.conf /etc/uv/uv.toml; do
    if [ -e $path ]; then install -D -m 644 $path "$root$path"; fi
done
if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
    install -D -m 644 -t "$root/usr/local/share/ca-certificates" /usr/local/share/ca-certificates/*.crt
fi
chroot "$root" update-ca-certificates >/dev/null 2>&1
environment=(HOME=/root "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" LANG=C.UTF-8 CI=true)
while IFS= read -r variable; do environment+=("$variable"); done < <(
    env | grep -iE '^(https?_proxy|no_proxy|all_proxy|PIP_|UV_|GOPROXY|GOSUMDB|GONOSUMDB|GOPRIVATE|SSL_CERT_|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO)'
)
git clone --quiet --no-hardlinks . "$root/root/bringup"
echo "== commit $(git -C "$root/root/bringup" rev-parse --short HEAD)"

# shellcheck disable=SC2016  # expanded inside
inside='
    set -e
    mount --bind "$0" "$0"
    cd "$0"
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    mount -t tmpfs -o mode=755 run run
    mkdir -p .host
    pivot_root . .host
    cd /root/bringup
    umount -l /.host
    rmdir /.host
    exec "$@"'
run_inside() {
    unshare --mount --pid --uts --ipc --fork --kill-child --propagation private \
        bash -c "$inside" "$root" env -i "${environment[@]}" "$@" </dev/null
}

# One session for all targets, so that the lab that a demo leaves up is taken down before the namespaces end.
# shellcheck disable=SC2016  # expanded inside
session='
    set -e
    tidy() { if [ -d /var/lib/bringup/labs/lab ]; then .venv/bin/bringup lab down; fi; }
    trap tidy EXIT
    for target in "$@"; do
        began=$SECONDS
        echo "== make $target"
        make "$target"
        echo "== make $target: exit 0 after $((SECONDS - began)) s"
    done
    began=$(date +%s%N)
    make setup
    echo "== make setup again: $((($(date +%s%N) - began) / 1000000)) ms"
    eval "$(.venv/bin/bringup env)"
    pulumi version
    bringup --help >/dev/null
    echo "== commands run"'
run_inside bash -c "$session" prove "${targets[@]}"
