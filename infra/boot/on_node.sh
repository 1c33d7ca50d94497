# What a node runs, and what its drives hold: image, UUID, `seed done` or `seed SECONDS` while cloud-init runs, so long after the
# start, then `SERIAL SHA256` of each drive that $WANTED names. Read only.
# A drive is known by its first 2 MiB and its last one, as deploy.sh knows it.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

printf '%s\n' "$(cat /etc/bringup-image 2>/dev/null)"
printf '%s\n' "$(as_root cat /sys/class/dmi/id/product_uuid)"
# cloud-init writes result.json when its last stage ends; `enabled` is there where it runs at this start.
if [ -e /run/cloud-init/enabled ] && [ ! -e /run/cloud-init/result.json ]; then
    printf 'seed %s\n' "$(cut -d . -f 1 /proc/uptime)"
else
    echo 'seed done'
fi
for block in /sys/block/*; do
    drive=${block##*/}
    case $drive in loop* | ram* | md* | sr* | fd* | dm-*) continue ;; esac
    [ "$(cat "$block/hidden" 2>/dev/null)" = 1 ] && continue # a path of an NVMe drive, with its serial number and no node
    serial=
    for file in "$block/serial" "$block/device/serial"; do
        [ -z "$serial" ] && [ -r "$file" ] && serial=$(tr -d ' \0\n' <"$file")
    done
    [ -z "$serial" ] && [ -r "$block/device/vpd_pg80" ] && serial=$(tail -c +5 "$block/device/vpd_pg80" | tr -d ' \0\n')
    [ -n "$serial" ] || continue
    case " $WANTED " in *" $serial "*) ;; *) continue ;; esac
    blocks=$(cat "$block/size")
    printf '%s %s\n' "$serial" "$({
        as_root dd "if=/dev/$drive" bs=1M count=2 2>/dev/null
        as_root dd "if=/dev/$drive" bs=512 skip=$((blocks - 2048)) count=2048 2>/dev/null
    } | sha256sum | cut -c 1-64)"
done
