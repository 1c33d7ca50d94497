#!/bin/sh
# Init of the initramfs that writes an image: fetch the plan of this MAC, find the planned drives by serial number, refuse what is
# not planned, write, read back, seed, reboot. Every state is told to the boot server and on the console, as `bringup: STATE TEXT`.
#
# Kernel arguments: bringup.plan=URL of the plan, bringup.mac=MAC of the boot port; or bringup.medium=ID of the CD that holds plans,
# seeds and image (infra/boot/iso.py), where the network is not used. The plan is a list of assignments
# (capacity/services/boot/scripts.py): DEVICE ROLE VERSION SERIALS CONSENTS IMAGES LAYOUT SEED REPORT, and FILE SHA256 SIZE of
# each part of the image: ROOT ESP BIOS MBR. IMAGES, LAYOUT and SEED are URLs, or paths on the CD. LUKS, RECOVERY and PCRS, and the
# part BOOT, are there where the root is to be encrypted: UUID of the LUKS2 volume, the site's public key (RSA, DER in base64) that the
# recovery key is sealed to, and the PCRs that the TPM asks for ('' for none). The keys are made here, and leave this server sealed only.
#
# A drive is written only if it is empty, if a consent names its serial number and its content, or if the mark on it says that this
# server was being written when the power went. The mark lies at 32 KiB, between the partition table and the first partition.
set -u
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
export DM_DISABLE_UDEV=1    # nobody answers for udev here
MARK_BLOCK=64       # of 512 bytes
HEAD_MIB=2          # what a drive's content is known by: its first 2 MiB and its last one
FETCH_LIMIT_S=1800  # for one file of the image; less than the time budget of the state `image`
SEAL_LIMIT_S=300    # for each use of the TPM or of the site's key, some seconds here; not confirmed
TRIES=20            # for a CD, and then for ports, to appear, a second each; not confirmed

say() {         # on all consoles of the kernel; /dev/console is the last one only
    for console in $(cat /sys/class/tty/console/active 2>/dev/null || echo console); do
        { echo "bringup: $*" >"/dev/$console"; } 2>/dev/null
    done
}

report() {
    say "$*"
    [ -n "${REPORT:-}" ] && timeout 15 wget -q -O /dev/null --post-data "$*" "$REPORT" 2>/dev/null
    return 0
}

# A safe stop: nothing more is written, and the power goes off. The same command starts again.
stop() {
    report "$@"
    sync
    sleep 2
    poweroff -f
    while :; do sleep 60; done
}

argument() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

drive_serial() {
    for file in "$1/serial" "$1/device/serial"; do
        [ -r "$file" ] && { tr -d ' \0\n' <"$file"; return; }
    done
    [ -r "$1/device/vpd_pg80" ] && tail -c +5 "$1/device/vpd_pg80" | tr -d ' \0\n'
}

drives() {      # NAME SERIAL of each. Hidden devices are paths of an NVMe drive (nvme0c0n1); they have its serial number and no node
    for block in /sys/block/*; do
        case ${block##*/} in loop* | ram* | md* | sr* | fd* | dm-*) continue ;; esac
        [ "$(cat "$block/hidden" 2>/dev/null)" = 1 ] && continue
        echo "${block##*/} $(drive_serial "$block")"
    done
}

part() { case $1 in *[0-9]) echo "/dev/${1}p$2" ;; *) echo "/dev/$1$2" ;; esac; }

mark() { dd if="/dev/$1" bs=512 skip=$MARK_BLOCK count=1 2>/dev/null | tr -d '\0' | head -n 1; }

set_mark() {    # DRIVE TEXT
    printf '%-511s\n' "$2" | dd of="/dev/$1" bs=512 seek=$MARK_BLOCK count=1 conv=notrunc,fsync 2>/dev/null
}

content() {     # SHA-256 of what a drive's content is known by, or `empty`
    blocks=$(cat "/sys/block/$1/size")
    {
        dd if="/dev/$1" bs=1M count=$HEAD_MIB 2>/dev/null
        dd if="/dev/$1" bs=512 skip=$((blocks - 2048)) count=2048 2>/dev/null
    } >/tmp/content
    if [ "$(tr -d '\0' </tmp/content | head -c 1 | wc -c)" = 0 ]; then echo empty; else sha256sum /tmp/content | cut -c 1-64; fi
}

hash_of() {     # FILE SIZE [SKIP]: SHA-256 of SIZE bytes of a device, from SKIP sectors on, read from the device itself
    tail_bytes=$(($2 % 1048576))
    {
        dd if="$1" bs=1M count=$(($2 / 1048576)) skip="$((${3:-0} * 512))" iflag=skip_bytes 2>/dev/null
        [ $tail_bytes = 0 ] || dd if="$1" bs=$tail_bytes count=1 skip="$((${3:-0} * 512 + $2 - tail_bytes))" iflag=skip_bytes 2>/dev/null
    } | sha256sum | cut -c 1-64
}

open() {        # PATH or URL to standard output, within SECONDS
    case $1 in
        /*) timeout "$2" cat "$1" ;;
        *) timeout "$2" wget -q -O - "$1" ;;
    esac
}

fetch() {       # FILE of the image to standard output, decompressed
    case $1 in
        *.zst) open "$IMAGES/$1" "$FETCH_LIMIT_S" | zstd -dcq ;;
        *) open "$IMAGES/$1" "$FETCH_LIMIT_S" ;;
    esac
}

port_of() {     # name of the port with this MAC
    for address in /sys/class/net/*/address; do
        [ "$(cat "$address")" = "$1" ] && { basename "$(dirname "$address")"; return; }
    done
    return 1
}

mount_medium() {    # the CD with this ID, on /medium; its drive in CD
    for block in /sys/block/sr*; do
        CD=/dev/${block##*/}
        mount -t iso9660 -o ro "$CD" /medium 2>/dev/null || continue
        [ "$(cat /medium/bringup-id 2>/dev/null)" = "$1" ] && return 0
        umount /medium
    done
    return 1
}

plan_on_medium() {  # path of the plan of the first port that has one
    for address in /sys/class/net/*/address; do
        plan=/medium/plan/$(tr : - <"$address").env
        [ -r "$plan" ] && { echo "$plan"; return; }
    done
    return 1
}

restart() {     # without the CD: firmware that tries CDs before drives would start it again, without end
    if [ -n "$MEDIUM" ]; then
        { umount /medium && timeout 30 eject "$CD"; } || say "the CD stays in: eject it by the BMC if it is started again"
    fi
    sync
    reboot -f
}

parts() {       # partition NUMBER of each drive of FOUND
    for pair in $FOUND; do part "${pair##*=}" "$1"; done
}

make_array() {  # NUMBER NAME MEMBER...: a mirror, where there are two members; the device to write to is then in ARRAY
    ARRAY=/dev/md$1 name=$2
    shift 2
    [ $# -gt 1 ] || { ARRAY=$1; return; }
    mdadm --zero-superblock "$@" 2>/dev/null
    mdadm --create "$ARRAY" --run --level=1 --raid-devices=$# --metadata=1.2 --bitmap=internal --homehost=any --name="$name" "$@" >/tmp/said 2>&1 || stop disk-failed "mirror: $(tail -n 1 /tmp/said)"
    echo frozen >"/sys/block/${ARRAY##*/}/md/sync_action" 2>/dev/null     # what is written goes to both; the rest is copied later
}

assemble() {    # NUMBER MEMBER...: the mirror that was stopped; its device is then in ARRAY
    ARRAY=/dev/md$1
    shift
    [ $# -gt 1 ] || { ARRAY=$1; return; }
    mdadm --assemble --run "$ARRAY" "$@" >/dev/null 2>&1 || stop disk-failed "the mirror cannot be assembled"
}

stop_array() { [ "$MEMBERS" = 1 ] || mdadm --stop "$1" >/dev/null 2>&1; }

offset() { mdadm --examine "$1" | sed -n 's/ *Data Offset : \([0-9]*\) sectors/\1/p'; }

skipped() { if [ "$MEMBERS" = 1 ]; then echo 0; else offset "$1"; fi; }     # sectors of a member before its data

write_to() {    # DEVICE WHAT FILE
    set -o pipefail
    fetch "$3" | dd of="$1" bs=4M iflag=fullblock conv=fsync 2>/tmp/said || stop image-broken "$2: $(tail -n 1 /tmp/said)"
    set +o pipefail
}

# Read back from each drive, not from the mirror and not from memory: that is what READER does, given member and size.
verify() {      # WHAT READER SHA256 SIZE MEMBER...
    what=$1 reader=$2 planned=$3 size=$4
    shift 4
    sync
    echo 3 >/proc/sys/vm/drop_caches
    for member in "$@"; do "$reader" "$member" "$size" >"/tmp/hash-${member##*/}" & done
    wait
    for member in "$@"; do
        is=$(cat "/tmp/hash-${member##*/}")
        [ "$is" = "$planned" ] || stop image-altered "$what on $member reads $is, planned $planned"
    done
}

plain() { hash_of "$1" "$2" "$(skipped "$1")"; }

# A LUKS2 volume is opened on each member alone, read only, at the place and in the size that it has in the mirror.
decrypted() {
    name=${1##*/}
    echo "0 $SECTORS linear $1 $(skipped "$1")" | dmsetup create --readonly "member-$name" &&
        keyed open --readonly "/dev/mapper/member-$name" "plain-$name" &&
        hash_of "/dev/mapper/plain-$name" "$2"
    cryptsetup close "plain-$name"
    dmsetup remove "member-$name"
} 2>/dev/null

last_words() { tail -n 3 /tmp/said | tr '\n' ' '; }

has_tpm() { [ "$(cat /sys/class/tpm/tpm0/tpm_version_major 2>/dev/null)" = 2 ] && [ -c /dev/tpmrm0 ]; }

keyed() { printf %s "$KEY" | cryptsetup --key-file - "$@"; }    # cryptsetup with the recovery key, which is in no file

# The key has 256 bits of chance, so a slow derivation would add nothing (cryptsetup(8), --pbkdf-force-iterations has 1,000 at least).
encrypt() {     # DEVICE
    mkdir -p /run/cryptsetup    # for its locks
    KEY=$(head -c 64 /dev/urandom | sha256sum | cut -c 1-64)
    keyed luksFormat --batch-mode --type luks2 --uuid "$LUKS" --cipher aes-xts-plain64 --key-size 512 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$1" >/tmp/said 2>&1 || stop disk-failed "LUKS2: $(last_words)"
    keyed open "$1" root >/tmp/said 2>&1 || stop disk-failed "LUKS2: $(last_words)"
    SECTORS=$(blockdev --getsz "$1")
}

# By the programs of the written system on /mnt: the recovery key (slot 0) for the holder of the site's key, and a second one (slot 1)
# that this server's TPM alone gives back. Both lie in the header of the volume, as tokens. Folders of their own in memory, so that
# nothing that passes through a file stays.
seal() {        # DEVICE
    [ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd   # for bash, which clevis is written in
    for folder in dev proc sys; do mount -o bind "/$folder" "/mnt/$folder"; done
    for folder in run tmp; do mount -t tmpfs -o mode=0700 tmpfs "/mnt/$folder"; done
    echo "$RECOVERY" | base64 -d >/mnt/run/recovery.der
    sealed=$(printf %s "$KEY" | timeout "$SEAL_LIMIT_S" chroot /mnt openssl pkeyutl -encrypt -pubin -keyform DER -inkey /run/recovery.der -pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256 2>/tmp/said | base64 | tr -d '\n')
    [ -n "$sealed" ] || stop not-sealed "recovery key: $(last_words)"
    echo "{\"type\":\"bringup-recovery\",\"keyslots\":[\"0\"],\"rsa_oaep_sha256\":\"$sealed\"}" | cryptsetup token import --token-id 0 "$1" >/tmp/said 2>&1 || stop not-sealed "recovery key: $(last_words)"
    policy='{}'
    [ -z "$PCRS" ] || policy="{\"pcr_bank\":\"sha256\",\"pcr_ids\":\"$PCRS\"}"
    printf %s "$KEY" | timeout "$SEAL_LIMIT_S" chroot /mnt clevis luks bind -y -s 1 -k - -d "$1" tpm2 "$policy" >/tmp/said 2>&1 || stop not-sealed "TPM: $(last_words)"
    # shellcheck disable=SC2016  # that shell expands it
    timeout "$SEAL_LIMIT_S" chroot /mnt sh -c 'clevis luks pass -d "$1" -s 1 | cryptsetup open --test-passphrase --key-file - "$1"' sh "$1" >/tmp/said 2>&1 || stop not-sealed "the TPM does not give the key back: $(last_words)"
    for folder in tmp run sys proc dev; do umount "/mnt/$folder"; done
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /tmp /mnt /medium
# shellcheck disable=SC2046  # a list of words is meant
for module in $(cat /etc/modules.list); do modprobe -q "$module"; done
mdev -s 2>/dev/null

MEDIUM=$(argument bringup.medium)
MAC=$(argument bringup.mac)
tries=0
if [ -n "$MEDIUM" ]; then
    until mount_medium "$MEDIUM"; do
        tries=$((tries + 1))
        [ $tries -lt $TRIES ] || stop no-medium "no CD has the ID $MEDIUM"
        sleep 1
        mdev -s 2>/dev/null
    done
    tries=0
    until PLAN=$(plan_on_medium); do
        tries=$((tries + 1))
        [ $tries -lt $TRIES ] || stop no-plan "the CD has no plan for a port of this server: $(cat /sys/class/net/*/address | tr '\n' ' ')"
        sleep 1
    done
else
    until PORT=$(port_of "$MAC"); do
        tries=$((tries + 1))
        [ $tries -lt $TRIES ] || stop no-port "no network port has the MAC $MAC"
        sleep 1
    done
    ip link set "$PORT" up
    udhcpc -i "$PORT" -s /etc/udhcpc.script -t 10 -T 3 -n -q >/dev/null || stop no-lease "$PORT gets no address"
    PLAN=$(argument bringup.plan)
fi
open "$PLAN" 30 >/tmp/plan || stop no-plan "$PLAN cannot be fetched"
# shellcheck disable=SC1091  # it exists only on the server
. /tmp/plan
report started "image $ROLE $VERSION"
LUKS=${LUKS:-}
[ -z "$LUKS" ] || has_tpm || stop no-tpm "no TPM 2.0"

FOUND=
for serial in $SERIALS; do
    drive=$(drives | while read -r name has; do [ "$has" = "$serial" ] && echo "$name"; done)
    [ -n "$drive" ] || stop wrong-disk "no drive with serial number $serial; there are: $(drives | tr '\n' ';')"
    [ "$(echo "$drive" | wc -l)" = 1 ] || stop ambiguous-disk "serial number $serial is that of $(echo "$drive" | tr '\n' ' ')"
    [ $(($(cat "/sys/block/$drive/size") / 2048)) -ge "$DRIVE_MIB" ] || stop disk-too-small "$serial has $(($(cat "/sys/block/$drive/size") / 2048)) MiB, needed $DRIVE_MIB"
    FOUND="$FOUND $serial=$drive"
done

DONE= FREE= FOREIGN=
for pair in $FOUND; do
    serial=${pair%%=*} drive=${pair##*=}
    is=$(mark "$drive") has=$(content "$drive")
    case " $CONSENTS " in *" $serial=$has "*) has=empty is= ;; esac
    case $is in
        "bringup writing $DEVICE $serial "*) FREE="$FREE $serial" ;;
        "bringup written $DEVICE $serial $VERSION "*) DONE="$DONE $serial=$has" ;;
        *) if [ "$has" = empty ]; then FREE="$FREE $serial"; else FOREIGN="$FOREIGN, drive $serial holds $has"; fi ;;
    esac
done
[ -z "$FOREIGN" ] || stop foreign-content "${FOREIGN#, }"
if [ -n "$DONE" ] && [ -n "$FREE" ]; then
    stop half-new "$DONE holds this system,$FREE does not: rebuild the mirror from the running system"
fi
# shellcheck disable=SC2086  # a list of words is meant
set -- $FOUND
MEMBERS=$#
if [ -z "$FREE" ]; then
    report already-written "image $ROLE $VERSION on$DONE"    # what a consent to write it once more names
    restart
fi

report writing "image $ROLE $VERSION to$FOUND"
open "$LAYOUT" 30 >/tmp/layout || stop no-plan "$LAYOUT cannot be fetched"
mkdir -p /tmp/nocloud
for file in meta-data user-data network-config; do  # now: a server without a seed must keep what is on its drives
    open "$SEED/$file" 30 >"/tmp/nocloud/$file" || stop no-seed "$SEED/$file cannot be fetched"
done
NONCE=$(cat /proc/sys/kernel/random/uuid)
mdadm --stop --scan >/dev/null 2>&1
for pair in $FOUND; do
    serial=${pair%%=*} drive=${pair##*=}
    set_mark "$drive" "bringup writing $DEVICE $serial $VERSION $NONCE"
    dd if=/dev/zero of="/dev/$drive" bs=440 count=1 conv=notrunc,fsync 2>/dev/null
    sfdisk -q --wipe always --wipe-partitions always "/dev/$drive" </tmp/layout >/tmp/said 2>&1 || stop disk-failed "$serial: $(tail -n 1 /tmp/said)"
    set_mark "$drive" "bringup writing $DEVICE $serial $VERSION $NONCE"
    blockdev --rereadpt "/dev/$drive" 2>/dev/null
    mdev -s 2>/dev/null
done
# shellcheck disable=SC2046,SC2086  # lists of words are meant
if [ -n "$LUKS" ]; then
    BOOTS=$(parts 3) ROOTS=$(parts 4)
    make_array 1 boot $BOOTS
    write_to "$ARRAY" boot "$BOOT_FILE"
    stop_array "$ARRAY"
    make_array 0 root $ROOTS
    encrypt "$ARRAY"
    write_to /dev/mapper/root root "$ROOT_FILE"
    cryptsetup close root
    report verifying "image $ROLE $VERSION"
    stop_array "$ARRAY"
    verify boot plain "$BOOT_SHA256" "$BOOT_SIZE" $BOOTS
    verify root decrypted "$ROOT_SHA256" "$ROOT_SIZE" $ROOTS
    assemble 1 $BOOTS
    BOOT=$ARRAY
    assemble 0 $ROOTS
    keyed open "$ARRAY" root || stop disk-failed "the LUKS2 volume cannot be opened"
    ROOT=/dev/mapper/root
else
    ROOTS=$(parts 3)
    make_array 0 root $ROOTS
    write_to "$ARRAY" root "$ROOT_FILE"
    report verifying "image $ROLE $VERSION"
    stop_array "$ARRAY"
    verify root plain "$ROOT_SHA256" "$ROOT_SIZE" $ROOTS
    assemble 0 $ROOTS
    ROOT=$ARRAY
fi

e2fsck -fp "$ROOT" >/dev/null 2>&1
resize2fs "$ROOT" >/dev/null 2>&1 || stop disk-failed "the root file system cannot be grown"
mount -t ext4 "$ROOT" /mnt || stop disk-failed "the root file system cannot be mounted"
mkdir -p /mnt/var/lib/cloud/seed
cp -r /tmp/nocloud /mnt/var/lib/cloud/seed || stop disk-failed "the seed cannot be written"
echo "$ROLE $VERSION $ROOT_SHA256" >/mnt/etc/bringup-image
if [ -n "$LUKS" ]; then
    seal "$ARRAY"
    e2fsck -fp "$BOOT" >/dev/null 2>&1
    resize2fs "$BOOT" >/dev/null 2>&1 || stop disk-failed "the file system of /boot cannot be grown"
    stop_array "$BOOT"
fi
umount /mnt
[ -z "$LUKS" ] || cryptsetup close root 2>/tmp/said || stop disk-failed "LUKS2 cannot be closed: $(last_words)"
stop_array "$ARRAY"

for pair in $FOUND; do
    serial=${pair%%=*} drive=${pair##*=}
    for what in "1 $BIOS_FILE $BIOS_SHA256 $BIOS_SIZE" "2 $ESP_FILE $ESP_SHA256 $ESP_SIZE"; do
        # shellcheck disable=SC2086
        set -- $what
        set -o pipefail
        fetch "$2" | dd of="$(part "$drive" "$1")" bs=1M iflag=fullblock conv=notrunc,fsync 2>/tmp/said || stop image-broken "$2: $(tail -n 1 /tmp/said)"
        set +o pipefail
        echo 3 >/proc/sys/vm/drop_caches
        is=$(hash_of "$(part "$drive" "$1")" "$4")
        [ "$is" = "$3" ] || stop image-altered "$2 on $serial reads $is, planned $3"
    done
    fetch "$MBR_FILE" | dd of="/dev/$drive" bs="$MBR_SIZE" count=1 iflag=fullblock conv=notrunc,fsync 2>/dev/null
    is=$(dd if="/dev/$drive" bs="$MBR_SIZE" count=1 2>/dev/null | sha256sum | cut -c 1-64)
    [ "$is" = "$MBR_SHA256" ] || stop image-altered "$MBR_FILE on $serial reads $is, planned $MBR_SHA256"
done
for pair in $FOUND; do
    set_mark "${pair##*=}" "bringup written $DEVICE ${pair%%=*} $VERSION $NONCE"
done
sync
report written "$ROOT_SHA256 read back from $SERIALS"
restart
