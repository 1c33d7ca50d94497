#!/bin/bash
# Uplink tracking of an in-band leaf: while no port to another switch has a route, the ports to servers are down, so that servers
# send by their other leaf. Their routes are static: of a leaf they see only whether its port has light.
#
# Runs as root on the switch (uplinks.service). Ports are those of the saved configuration: an uplink has a BGP neighbour, a port to a
# server has a /31. A port that somebody else took down stays as it is. For driver.py lie in STATE: `pid`, and in `held` the ports
# that are down for want of an uplink, one a line. A look starts no program: it takes place each second on every leaf.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0"     # the service file of an earlier version starts it by sh
set -u
CONFIG=${UPLINKS_CONFIG:-/etc/frr/frr.conf}
ROUTES=${UPLINKS_ROUTES:-/proc/net/route}       # a route by several ports stands there with the first of them
PORTS=${UPLINKS_PORTS:-/sys/class/net}
IPV6=${UPLINKS_IPV6:-/proc/sys/net/ipv6/conf}   # keep_addr_on_down 0: a port that goes down loses its addresses (FRR issue 16344)
STATE=${UPLINKS_STATE:-/run/bringup-uplinks}
MANAGEMENT_PORT=${UPLINKS_MANAGEMENT_PORT:-eth0}
PAUSE=${UPLINKS_PAUSE:-pause}
DOWN_AFTER=5        # looks in a row, one a second: one look at a file that is being written decides nothing
UP_AFTER=2

declare -A uplinks=()
servers=() lines=() saved=

# Uplinks and ports to servers of the saved configuration, parsed again only where its text is another.
configured() {
    mapfile -t lines 2>/dev/null <"$CONFIG" || return
    [[ ${lines[*]} != "$saved" ]] || return 0
    saved=${lines[*]} uplinks=() servers=()
    local line words port=
    for line in "${lines[@]}"; do
        read -ra words <<<"$line"
        case "${words[*]:0:2}" in
            "interface "*)  port=${words[1]} ;;
            exit)           port= ;;
            "ip address")   if [[ ${words[2]-} == */31 && $port != "$MANAGEMENT_PORT" ]] && is_name "$port"; then servers+=("$port"); fi ;;
            "neighbor "*)   if [[ ${words[2]-} == interface ]] && is_name "${words[1]}"; then uplinks[${words[1]}]=1; fi ;;
        esac
    done
}

is_name() { [[ $1 =~ ^[A-Za-z0-9_.-]+$ ]]; }

# Whether there are uplinks and none has a route. What cannot be read is not lost.
is_lost() {
    configured && (( ${#uplinks[@]} )) && mapfile -t lines 2>/dev/null <"$ROUTES" || return
    local line port
    for line in "${lines[@]}"; do
        port=${line%%[[:space:]]*}
        [[ -z $port || -z ${uplinks[$port]-} ]] || return
    done
}

is_up() { read -r flags 2>/dev/null <"$PORTS/$1/flags" && [[ $flags =~ ^0x[0-9a-f]+$ ]] && (( flags & 1 )); }     # IFF_UP

lower() {
    for port; do
        is_up "$port" || continue
        grep -qx "$port" "$STATE/held" || echo "$port" >>"$STATE/held"
        echo "no uplink has a route: $port down"
        [ ! -e "$IPV6/$port/keep_addr_on_down" ] || echo 1 >"$IPV6/$port/keep_addr_on_down"
        ip link set dev "$port" down
    done
}

raise() {
    [ -s "$STATE/held" ] || return
    while read -r port; do
        echo "$port up"
        ip link set dev "$port" up
    done <"$STATE/held"
    : >"$STATE/held"
}

# Nobody writes to this pipe: the shell itself waits, where `sleep` would be a program each second.
pause() { read -r -t "$1" -u "$never"; }

umask 022
mkdir -p "$STATE"
touch "$STATE/held"
rm -f "$STATE/never" && mkfifo -m 600 "$STATE/never" && exec {never}<>"$STATE/never"
echo $$ >"$STATE/pid"
trap 'raise; rm -f "$STATE/pid"; exit 0' TERM INT
lost=0 kept=0
while :; do
    if is_lost; then
        kept=0 lost=$((lost + 1))
        [ "$lost" -lt $DOWN_AFTER ] || lower "${servers[@]}"
    else
        lost=0 kept=$((kept + 1))
        [ "$kept" -lt $UP_AFTER ] || raise
    fi
    $PAUSE 1
done
