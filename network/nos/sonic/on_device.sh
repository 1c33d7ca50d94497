# The switch's side of a push: `sh -c THIS-FILE bringup-push VERB [ARGUMENT...]`, run there by driver.py. Never run on a device.
#
# State in $HOME/.bringup:  new.json   the configuration to apply     name      checkpoint to fall back to, kept by the switch itself
#   armed.ID   a push applied new.json, did not confirm it yet, and its timer runs. Whoever renames this file decides,
#              and one rename wins: the timer to expired.ID, the operator to confirmed or undone.
#   timer      process id of that timer
# Commands of sonic-utilities: `config replace`, `config checkpoint`, `config rollback`, `config save`, `show runningconfiguration all`.
set -u
umask 077
mkdir -p "$HOME/.bringup" && cd "$HOME/.bringup" || exit 90
exec 9>push.lock

lock() { flock -w 30 9 || { echo "another push holds the lock" >&2; exit 91; }; }

# Messages go to a file first: with a pipe, a connection that closes would stop the command half way.
config_command() {
    sudo config "$@" >config.out 2>&1 </dev/null; rc=$?
    [ $rc = 0 ] || tail -n 5 config.out >&2
    return $rc
}

timer_alive() { pid=$(cat timer 2>/dev/null) && grep -q bringup-timer "/proc/$pid/cmdline" 2>/dev/null; }

stop_timer() { if timer_alive; then kill -- "-$pid"; fi; rm -f timer; }

# A timer that has won the rename is restoring the checkpoint: let it finish.
await_timer() {
    for _ in $(seq 600); do
        set -- expired.*
        [ -e "$1" ] && timer_alive || return 0
        sleep 0.5
    done
    echo "the rollback timer does not end" >&2; exit 92
}

verb=$1; shift
case $verb in
facts)      # MANAGEMENT_PORT: identity and state of the switch, one fact a line
    printf 'hostname %s\n' "$(hostname)"
    printf 'mgmt_mac %s\n' "$(cat "/sys/class/net/$1/address" 2>/dev/null)"
    printf 'version %s\n' "$(sed -n "s/^build_version: *'\{0,1\}\([^']*\)'\{0,1\} *\$/\1/p" /etc/sonic/sonic_version.yml)"
    for port in /sys/class/net/Ethernet* "/sys/class/net/$1"; do
        [ -e "$port" ] && printf 'port %s %s %s\n' "${port##*/}" "$(cat "$port/operstate")" "$(cat "$port/mtu")"
    done
    true
    ;;
running)    show runningconfiguration all ;;
saved)      sudo cat /etc/sonic/config_db.json ;;
bgp)        sudo vtysh -c 'show bgp summary json' ;;
database)   # NUMBER: commands for redis, one a line, on standard input; a line for each value
    redis-cli -n "$1"
    ;;
takeover)   # exit status 97: another push waits for its confirmation
    await_timer
    set -- armed.*
    if [ -e "$1" ]; then
        if timer_alive; then exit 97; fi
        mv "$1" undone      # its timer went with a restart of the switch, which booted what was saved
    fi
    ;;
stage)      # the new configuration comes on standard input; prints its checksum
    cat >new.part && mv new.part new.json && sha256sum <new.json | cut -d' ' -f1
    ;;
check)      lock; config_command replace --dry-run "$PWD/new.json" ;;
apply)      # ID SECONDS: apply new.json; without `confirm` within SECONDS the device goes back by itself
    lock
    rm -f confirmed undone expired.*
    [ ! -s name ] || config_command delete-checkpoint "$(cat name)"
    config_command checkpoint "bringup-$1" || exit 94
    echo "bringup-$1" >name
    touch "armed.$1"
    setsid sh -c 'sleep "$1"; mv "armed.$2" "expired.$2" && flock -w 600 push.lock sudo config rollback "bringup-$2"' \
        bringup-timer "$2" "$1" </dev/null >timer.out 2>&1 9>&- &
    echo $! >timer
    config_command replace "$PWD/new.json"
    ;;
confirm)    # ID: keep the configuration and save it for the next boot; 95 when the timer was faster
    lock
    mv "armed.$1" confirmed 2>/dev/null || exit 95
    stop_timer
    config_command save -y
    ;;
save)       lock; config_command save -y ;;
rollback)   # ID
    lock
    if mv "armed.$1" undone 2>/dev/null; then config_command rollback "$(cat name)"; rc=$?; stop_timer; exit $rc; fi
    flock -u 9
    await_timer
    ;;
*)          echo "unknown verb $verb" >&2; exit 96 ;;
esac
