#!/bin/sh
# Uplink tracking of an in-band leaf: while no port to another switch has a route, the ports to servers are down, so that servers
# send by their other leaf. Their routes are static: of a leaf they see only whether its port has light.
#
# Runs as root on the switch (uplinks.service). Ports are those of the saved configuration: an uplink has a BGP neighbour, a port to a
# server has a /31. A port that somebody else took down stays as it is. For driver.py lie in STATE: `pid`, and in `held` the ports
# that are down for want of an uplink, one a line.
set -u
CONFIG=${UPLINKS_CONFIG:-/etc/frr/frr.conf}
ROUTES=${UPLINKS_ROUTES:-/proc/net/route}       # a route by several ports stands there with the first of them
PORTS=${UPLINKS_PORTS:-/sys/class/net}
IPV6=${UPLINKS_IPV6:-/proc/sys/net/ipv6/conf}   # keep_addr_on_down 0: a port that goes down loses its addresses (FRR issue 16344)
STATE=${UPLINKS_STATE:-/run/bringup-uplinks}
MANAGEMENT_PORT=${UPLINKS_MANAGEMENT_PORT:-eth0}
DOWN_AFTER=5        # looks in a row, one a second: one look at a file that is being written decides nothing
UP_AFTER=2

# First `lost` or `kept`, then the ports to servers.
look() {
    awk -v management="$MANAGEMENT_PORT" '
        FILENAME == ARGV[1] && $1 == "interface" { port = $2 }
        FILENAME == ARGV[1] && $1 == "exit" { port = "" }
        FILENAME == ARGV[1] && $1 == "ip" && $2 == "address" && $3 ~ /\/31$/ && port ~ /^[A-Za-z0-9_.-]+$/ && port != management {
            servers = servers " " port
        }
        FILENAME == ARGV[1] && $1 == "neighbor" && $3 == "interface" { uplinks[$2]; lost = 1 }
        FILENAME == ARGV[2] && $1 in uplinks { route = 1 }
        END { print (lost && !route ? "lost" : "kept") servers }' "$CONFIG" "$ROUTES" 2>/dev/null
}

is_up() { flags=$(cat "$PORTS/$1/flags" 2>/dev/null) && [ $((flags & 1)) = 1 ]; }      # IFF_UP

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

umask 022
mkdir -p "$STATE"
touch "$STATE/held"
echo $$ >"$STATE/pid"
trap 'raise; rm -f "$STATE/pid"; exit 0' TERM INT
lost=0 kept=0
while :; do
    # shellcheck disable=SC2046  # words
    set -- $(look)
    if [ "${1:-kept}" = lost ]; then
        kept=0 lost=$((lost + 1))
        shift
        [ "$lost" -lt $DOWN_AFTER ] || lower "$@"
    else
        lost=0 kept=$((kept + 1))
        [ "$kept" -lt $UP_AFTER ] || raise
    fi
    sleep 1
done
