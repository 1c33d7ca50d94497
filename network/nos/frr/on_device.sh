# The switch's side of a push: `sh -c THIS-FILE bringup-push VERB [ARGUMENT...]`, run there by driver.py.
#
# State in $HOME/.bringup:  new.conf   the configuration to apply          prev.conf  the one to fall back to
#   armed.ID   a push applied new.conf, did not confirm it yet, and its timer runs. Whoever renames this file decides,
#              and one rename wins: the timer to expired.ID, the operator to confirmed or undone.
#   timer      process id of that timer
# A push that dies anywhere leaves either nothing or armed.ID: then the timer restores prev.conf, and a next push
# (`takeover`) need not wait for it. All that changes or compares FRR's configuration holds push.lock, and so does an
# frr-reload whose push has died meanwhile.
set -u
umask 077
reload=/usr/lib/frr/frr-reload.py
mkdir -p "$HOME/.bringup" && cd "$HOME/.bringup" || exit 90
exec 9>push.lock

lock() { flock -w 30 9 || { echo "another push holds the lock" >&2; exit 91; }; }

# Messages go to a file first: with a pipe, a connection that closes would stop the reload half way.
load() {
    "$reload" --reload "$1" >reload.out 2>&1; rc=$?
    [ $rc = 0 ] || tail -n 5 reload.out >&2
    return $rc
}

# Log apart from the difference: an empty one after an ERROR is not "no change".
difference() {
    "$reload" --test "$1" 2>"$1.err"; rc=$?
    if [ $rc = 0 ] && grep -qE 'ERROR|Traceback' "$1.err"; then rc=93; fi
    [ $rc = 0 ] || tail -n 5 "$1.err" >&2
    rm -f "$1.err"
    return $rc
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
        printf 'port %s %s %s\n' "${port##*/}" "$(cat "$port/operstate")" "$(cat "$port/mtu")"
    done
    ;;
running)    vtysh -c 'show running-config no-header' ;;
saved)      cat /etc/frr/frr.conf ;;
bgp)        vtysh -c 'show bgp summary json' ;;
takeover)   # deal with what an earlier push left; what it would have fallen back to stays the fallback
    await_timer
    lock
    rm -f base.conf
    disarmed=undone
    if disarm; then stop_timer; cp prev.conf base.conf; echo taken; fi
    ;;
stage)      # the new configuration comes on standard input; prints its checksum
    cat >new.part && mv new.part new.conf && sha256sum <new.conf | cut -d' ' -f1
    ;;
check)      vtysh -C -f new.conf 2>&1 ;;
diff)       # FILE
    lock
    difference "$1"
    ;;
compare)    # the difference to a configuration on standard input; a push in progress keeps its own new.conf
    cat >"compare.$$"
    lock
    difference "compare.$$"; rc=$?
    rm -f "compare.$$"
    exit $rc
    ;;
apply)      # ID SECONDS: apply new.conf; without `confirm` within SECONDS the device goes back by itself
    lock
    if [ -s base.conf ]; then mv base.conf prev.part
    else vtysh -c 'show running-config no-header' >prev.part && [ -s prev.part ] || exit 94; fi
    mv prev.part prev.conf
    rm -f confirmed undone expired.*
    touch "armed.$1"
    setsid sh -c 'sleep "$1"; mv "armed.$2" "expired.$2" && flock -w 60 push.lock "$3" --reload prev.conf' \
        bringup-timer "$2" "$1" "$reload" </dev/null >/dev/null 2>&1 9>&- &
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
    vtysh -w >save.out 2>&1 || true     # complains about file ownership without root; the caller reads back
    ;;
save)       lock; rm -f base.conf; vtysh -w >save.out 2>&1 || true ;;
rollback)
    lock
    disarmed=undone
    if disarm; then load prev.conf; rc=$?; stop_timer; exit $rc; fi
    if [ -s base.conf ]; then load base.conf && rm -f base.conf; exit; fi
    flock -u 9
    await_timer
    ;;
shut)       # PORT SECONDS: take a port down; the switch takes it up again by itself after SECONDS, whatever ends this program
    setsid sh -c 'sleep "$1"; ip link set dev "$2" up' bringup-port "$2" "$1" </dev/null >/dev/null 2>&1 9>&- &
    ip link set dev "$1" down
    ;;
open)       ip link set dev "$1" up ;;  # PORT
*)          echo "unknown verb $verb" >&2; exit 96 ;;
esac
