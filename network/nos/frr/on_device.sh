# The switch's side of a push: `sh -c THIS-FILE bringup-push VERB [ARGUMENT...]`, run there by driver.py.
#
# State in $HOME/.bringup:  new.conf   the configuration to apply          prev.conf  the one to fall back to
#   FILE.nft   the filter of FILE, empty if it has none
#   armed.ID   a push applied new.conf, did not confirm it yet, and its timer runs. Whoever renames this file decides,
#              and one rename wins: the timer to expired.ID, the operator to confirmed or undone.
#   timer      process id of that timer
#   answer     checksum of what frr-reload was asked about last, and what it said
# A push that dies anywhere leaves either nothing or armed.ID: then the timer restores prev.conf, and a next push
# (`takeover`) need not wait for it. All that changes or compares FRR's configuration holds push.lock, and so does an
# frr-reload whose push has died meanwhile.
set -u
umask 077
reload=/usr/lib/frr/frr-reload.py
saved_filter=/etc/frr/filter.nft        # the switch's boot loads it (include in /etc/nftables.conf)
PATH=$PATH:/usr/sbin:/sbin              # a login without root has no nft in its path
mkdir -p "$HOME/.bringup" && cd "$HOME/.bringup" || exit 90
exec 9>push.lock

lock() { flock -w 30 9 || { echo "another push holds the lock" >&2; exit 91; }; }

# The table that is there; nothing where there is none. A table that may not be read is no missing one.
filter_now() {
    command -v nft >/dev/null || return 0
    table=$(nft --stateless list table inet bringup 2>&1) && printf '%s\n' "$table" && return 0
    case "$table" in *"No such file"*) return 0 ;; esac
    echo "nft: $table" >&2; return 97
}

# FILE: put its filter in the place of the one that is there, at once. For the timer too, which runs it as a script.
put_filter='[ -e "$1.nft" ] || exit 0
command -v nft >/dev/null || { [ ! -s "$1.nft" ] && exit 0; echo "nft is not installed" >&2; exit 97; }
{ echo "add table inet bringup; delete table inet bringup"; cat "$1.nft"; } | nft -f - || exit 97'

# FILE: the filter that it begins with goes to FILE.nft.
split() {
    : >"$1.nft"
    awk -v nft="$1.nft" '
        NR == 1 && $0 == "table inet bringup {" { inside = 1 }
        inside { print >nft; if ($0 == "}") inside = 0; next }
        { print }' "$1" >"$1.part" && mv "$1.part" "$1"
}

save() {
    vtysh -w >save.out 2>&1 || true     # complains about file ownership without root; the caller reads back
    filter_now >filter.part || exit 97
    if [ -s filter.part ]; then cat filter.part >"$saved_filter"; else rm -f "$saved_filter"; fi
}

# Messages go to a file first: with a pipe, a connection that closes would stop the reload half way.
load() {
    sh -c "$put_filter" put-filter "$1" || return 97
    "$reload" --reload "$1" >reload.out 2>&1; rc=$?
    [ $rc = 0 ] || tail -n 5 reload.out >&2
    return $rc
}

# What frr-reload says depends on what runs and on the file: while both are what they were, its last answer holds. It starts Python and
# vtysh several times, and most comparisons are of a switch that nobody has changed.
# Log apart from the difference: an empty one after an ERROR is not "no change".
difference() {
    running=$(vtysh -c 'show running-config no-header' 2>/dev/null)
    asked=$(printf '%s\n' "$running" | cat - "$1" | sha256sum)
    if [ -z "$running" ] || [ "$asked" != "$(head -n 1 answer 2>/dev/null)" ]; then
        { echo "$asked"; "$reload" --test "$1" 2>"$1.err"; } >answer.part; rc=$?
        if [ $rc = 0 ] && grep -qE 'ERROR|Traceback' "$1.err"; then rc=93; fi
        [ $rc = 0 ] || tail -n 5 "$1.err" >&2
        rm -f "$1.err"
        [ $rc = 0 ] || return $rc
        mv answer.part answer
    fi
    tail -n +2 answer
    echo "# bringup: filter"; filter_now || return 97
    echo "# bringup: filter"; [ ! -e "$1.nft" ] || cat "$1.nft"
}

timer_alive() { pid=$(cat timer 2>/dev/null) && grep -q bringup-timer "/proc/$pid/cmdline" 2>/dev/null; }

stop_timer() { if timer_alive; then kill -- "-$pid"; fi; rm -f timer; }

# A timer that has won the rename is restoring prev.conf: let it finish.
await_timer() {
    for _ in $(seq 60); do
        set -- expired.*
        [ -e "$1" ] && timer_alive || return 0
        sleep 0.5
    done
    echo "the rollback timer does not end" >&2; exit 92
}

# Undo what is armed: 0 when there was something and this call won the rename.
disarm() { set -- armed.*; [ -e "$1" ] && mv "$1" "$disarmed" 2>/dev/null; }

verb=$1; shift
case $verb in
facts)      # MANAGEMENT_PORT: identity and state of the switch, one fact a line
    printf 'hostname %s\n' "$(hostname)"
    printf 'mgmt_mac %s\n' "$(cat "/sys/class/net/$1/address" 2>/dev/null)"
    printf 'version %s\n' "$(vtysh -c 'show version' | sed -n 's/^FRRouting \([^ ]*\).*/\1/p')"
    for port in /sys/class/net/*; do
        read -r state <"$port/operstate" && read -r mtu <"$port/mtu" &&
            printf 'port %s %s %s\n' "${port##*/}" "$state" "$mtu"
    done
    tracker=/run/bringup-uplinks
    if pid=$(cat $tracker/pid 2>/dev/null) && grep -q uplinks.sh "/proc/$pid/cmdline" 2>/dev/null; then
        printf 'tracks_uplinks yes\n'
        sed 's/^/held /' $tracker/held
    fi
    ;;
running)    filter_now || exit; vtysh -c 'show running-config no-header' ;;
saved)      [ ! -e "$saved_filter" ] || cat "$saved_filter"; cat /etc/frr/frr.conf ;;
bgp)        vtysh -c 'show bgp summary json' ;;
takeover)   # deal with what an earlier push left; what it would have fallen back to stays the fallback
    await_timer
    lock
    rm -f base.conf base.conf.nft
    disarmed=undone
    if disarm; then stop_timer; cp prev.conf.nft base.conf.nft; cp prev.conf base.conf; echo taken; fi
    ;;
stage)      # the new configuration comes on standard input; prints its checksum
    cat >new.part && sha256sum <new.part | cut -d' ' -f1 && split new.part && mv new.part.nft new.conf.nft && mv new.part new.conf
    ;;
check)
    [ ! -s new.conf.nft ] || nft -c -f new.conf.nft 2>&1 || exit 97
    vtysh -C -f new.conf 2>&1
    ;;
diff)       # FILE
    lock
    difference "$1"
    ;;
compare)    # the difference to a configuration on standard input; a push in progress keeps its own new.conf
    cat >"compare.$$" && split "compare.$$"
    lock
    difference "compare.$$"; rc=$?
    rm -f "compare.$$" "compare.$$.nft"
    exit $rc
    ;;
apply)      # ID SECONDS: apply new.conf; without `confirm` within SECONDS the device goes back by itself
    lock
    if [ -s base.conf ]; then mv base.conf prev.part; mv base.conf.nft prev.part.nft
    else
        vtysh -c 'show running-config no-header' >prev.part && [ -s prev.part ] || exit 94
        filter_now >prev.part.nft || exit 97
    fi
    mv prev.part.nft prev.conf.nft && mv prev.part prev.conf
    rm -f confirmed undone expired.*
    touch "armed.$1"
    setsid sh -c 'sleep "$1"; mv "armed.$2" "expired.$2" && flock -w 60 push.lock sh -c "$4" put-filter prev.conf
        [ ! -e "expired.$2" ] || flock -w 60 push.lock "$3" --reload prev.conf' \
        bringup-timer "$2" "$1" "$reload" "$put_filter" </dev/null >/dev/null 2>&1 9>&- &
    echo $! >timer
    load new.conf
    ;;
again)      # ID: a second pass, only while the timer still watches; 95 when it has fired
    lock
    [ -e "armed.$1" ] || exit 95
    load new.conf
    ;;
confirm)    # ID: keep the configuration and save it for the next boot; 95 when the timer was faster
    lock
    mv "armed.$1" confirmed 2>/dev/null || exit 95
    stop_timer
    save
    ;;
save)       lock; rm -f base.conf base.conf.nft; save ;;
rollback)
    lock
    disarmed=undone
    if disarm; then load prev.conf; rc=$?; stop_timer; exit $rc; fi
    if [ -s base.conf ]; then load base.conf && rm -f base.conf base.conf.nft; exit; fi
    flock -u 9
    await_timer
    ;;
shut)       # PORT SECONDS: take a port down; the switch takes it up again by itself after SECONDS, whatever ends this program
    keeps=/proc/sys/net/ipv6/conf/$1/keep_addr_on_down     # 0: Linux flushes the port's IPv6 addresses
    [ ! -e "$keeps" ] || echo 1 >"$keeps"
    setsid sh -c 'sleep "$1"; ip link set dev "$2" up' bringup-port "$2" "$1" </dev/null >/dev/null 2>&1 9>&- &
    ip link set dev "$1" down
    ;;
open)       ip link set dev "$1" up ;;  # PORT
*)          echo "unknown verb $verb" >&2; exit 96 ;;
esac
