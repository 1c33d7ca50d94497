# Start Debian's installer from its unpacked initrd, in namespaces of mounts, processes and host name that the caller made:
#   start_installer.sh ROOT ARGUMENTS-OF-THE-KERNEL
# What its init does with hardware is left out, and it gets no device, clock, module or setting of this machine. Arguments of the
# form name=value are its environment, as a kernel hands them to init (Linux, Documentation/admin-guide/kernel-parameters.rst).
set -eu
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
printf '%s\n' "$*" >cmdline
mount -t proc proc proc
mount --bind cmdline proc/cmdline
for place in proc/sys proc/sysrq-trigger; do
    [ -e "$place" ] || continue  # a kernel without CONFIG_MAGIC_SYSRQ
    mount --bind "$place" "$place"
    mount -o remount,bind,ro "$place"
done
for setting in proc/sys/net proc/sys/kernel/hostname; do  # of its own namespaces; its DHCP client sets the host name
    mount --bind "$setting" "$setting"
    mount -o remount,bind,rw "$setting"
done
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs run
mkdir run/lock
mount -t tmpfs tmpfs dev
for node in null zero random urandom; do
    touch "dev/$node"
    mount --bind "/dev/$node" "dev/$node"
done
ln -s /proc/self/fd dev/fd
arguments=
for argument; do
    case $argument in *=*) arguments="$arguments $argument" ;; esac
done
# shellcheck disable=SC2086
exec setpriv --bounding-set=-mknod,-sys_rawio,-sys_module,-sys_time,-sys_boot \
    env -i PATH=/sbin:/bin:/usr/sbin:/usr/bin HOME=/ TERM=dumb $arguments "$(command -v chroot)" . /bin/sh -c '
    syslogd -O /var/log/syslog
    for name in S20templates S30initrd-preseed S32env-preseed S60auto-install; do
        script=/lib/debian-installer-startup.d/$name
        if [ -x "$script" ]; then "$script"; else . "$script"; fi
    done
    debconf -o d-i /usr/bin/main-menu
    echo "The installer ended with exit status $?"
'
