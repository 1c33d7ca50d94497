#!/bin/bash
# PID 1 of a switch, started by switch.py in namespaces of its own: real FRR daemons, sshd, lldpd and snmpd at their usual paths.
# In: NAME, ROLE (spine, leaf or oob), MGMT (address/length), PORTS, OPERATOR, PUBLIC_KEY, SSH_KEY_EXCHANGE,
# FLASH (folder that outlives a power cycle: frr/, home/, ssh/, snmp/, uplinks.sh), LAB_HOME (hidden from the switch), OS_RELEASE,
# DESCRIPTION (for LLDP), SIMULATED_BY (login banner). All else it writes lands on tmpfs inside
# its own mount namespace: killing this one process leaves nothing behind.
set -eu
FLASH_AT=/run/flash
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p /run/.upper /run/.work /run/sshd /run/lldpd $FLASH_AT
mount --bind "$FLASH" $FLASH_AT
# The host's files are read-only to the switch, whoever is logged in: all that it writes lands on mounts of its own.
mapfile -t MOUNTED < <(cut -d' ' -f5 /proc/self/mountinfo)
for folder in "${MOUNTED[@]}"; do
  printf -v folder '%b' "$folder"                                        # mountinfo writes a blank as \040
  case "$folder" in /run | /run/* | /proc | /proc/* | /sys | /sys/* | /dev | /dev/*) ;;
    *) mount -o remount,bind,ro "$folder" || [ ! -e "$folder" ] ;;       # or hidden by a mount above it
  esac
done
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/.upper,workdir=/run/.work /etc
for folder in /tmp /var/tmp /var/log /home "$LAB_HOME"; do mount -t tmpfs tmpfs "$folder"; done
if [ -d /var/lib/frr ]; then mount -t tmpfs tmpfs /var/lib/frr; chown frr:frr /var/lib/frr; fi   # FRR 10 and later
chmod 1777 /tmp /var/tmp
mount -t sysfs -o ro sysfs /sys
# Of the host's devices only those that have no state.
mkdir /run/.dev
mount -t tmpfs -o mode=0755 tmpfs /run/.dev
touch /run/.dev/{null,zero,full,random,urandom,tty}
for device in null zero full random urandom tty; do mount --bind /dev/$device /run/.dev/$device; done
mkdir /run/.dev/pts /run/.dev/shm; chmod 1777 /run/.dev/shm
ln -s pts/ptmx /run/.dev/ptmx; ln -s /proc/self/fd /run/.dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${stream%:*} /run/.dev/${stream#*:}; done
mount --move /run/.dev /dev
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts /dev/pts

hostname "$NAME"; echo "$NAME" >/etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$NAME" >/etc/hosts       # or lldpd calls itself localhost
rm -f /etc/os-release; printf '%s' "$OS_RELEASE" >/etc/os-release
echo "$SIMULATED_BY" >/etc/issue.net

cd /proc/sys/net
for file in ipv6/conf/*/accept_dad ipv4/conf/*/rp_filter; do echo 0 >$file; done
for file in ipv4/conf/*/ignore_routes_with_linkdown; do echo 1 >$file; done   # or a dead next hop stays in use
if [ "$ROLE" = oob ]; then
  echo 0 >ipv4/ip_forward; echo 0 >ipv6/conf/all/forwarding
else
  echo 1 >ipv4/ip_forward; echo 1 >ipv6/conf/all/forwarding
  # One kernel has one ECMP seed: without one per switch, a leaf repeats its host's choice and half the links stay idle.
  echo 1 >ipv4/fib_multipath_hash_policy
  if [ -e ipv4/fib_multipath_hash_seed ]; then cksum <<<"$NAME" | cut -d' ' -f1 >ipv4/fib_multipath_hash_seed; fi
fi
cd /
# As systemd-nspawn does for the nodes: what is left of /proc/sys and these files belong to the host's kernel.
mount --bind /proc/sys /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,ro /proc/sys
for file in sysrq-trigger irq bus; do
  if [ -e /proc/$file ]; then mount --bind /proc/$file /proc/$file; mount -o remount,bind,ro /proc/$file; fi
done

# The operator's account: FRR's groups for vtysh and frr-reload.py, adm because Debian's lldpcli is open to it only.
echo "$OPERATOR:x:2000:2000::/home/$OPERATOR:/bin/bash" >>/etc/passwd
echo "$OPERATOR:*:19000:0:99999:7:::" >>/etc/shadow                       # '*', not '!': sshd refuses a locked account
sed -i -E "/^(frr|frrvty|adm):/{s/:\$/:$OPERATOR/;/$OPERATOR\$/!s/\$/,$OPERATOR/}" /etc/group
echo "$OPERATOR:x:2000:" >>/etc/group
mkdir -p $FLASH_AT/home $FLASH_AT/frr /home/$OPERATOR
mount --bind $FLASH_AT/home /home/$OPERATOR; chown 2000:2000 /home/$OPERATOR; chmod 750 /home/$OPERATOR

MGMT_INTERFACE=eth0
if [ "$ROLE" = oob ]; then MGMT_INTERFACE=oob; ip link set prov up; for w in ws-oob ws-prov; do ip link set $w up; done; fi
ip link set lo up
ip link set $MGMT_INTERFACE up
ip address replace "$MGMT" dev $MGMT_INTERFACE
for port in $PORTS; do if [ -e /sys/class/net/$port ]; then echo "link set $port up"; fi; done | ip -batch -

printf 'configure lldp portidsubtype ifname\nconfigure lldp tx-interval 1\nconfigure lldp tx-hold 3\nconfigure system description "%s"\n' \
  "$DESCRIPTION" >/etc/lldpd.conf
# Debian's unit restarts lldpd when it fails. Here always: after a crash of lldpd its monitor sometimes ends with status 0.
run_lldpd() {
  while :; do
    lldpd -d -I "$(tr ' ' , <<<"$PORTS")" || true
    echo "lldpd ended"
    sleep 0.1                                                            # RestartSec of systemd
  done
}
run_lldpd >/var/log/lldpd.log 2>&1 &
for _ in {1..300}; do if [ -S /run/lldpd.socket ]; then break; fi; sleep 0.1; done
[ -S /run/lldpd.socket ] || { echo "lldpd does not listen after 30 s:"; tail -5 /var/log/lldpd.log; exit 1; } >&2

if [ "$ROLE" != oob ]; then
  rm -rf /etc/frr; mkdir /etc/frr
  mount --bind $FLASH_AT/frr /etc/frr
  install -d -o frr -g frr -m 775 /run/frr /var/log/frr
  chown frr:frr /etc/frr; chmod 775 /etc/frr
  if [ ! -e /etc/frr/frr.conf ]; then                                   # factory state: a name, nothing else
    printf 'service integrated-vtysh-config\n' >/etc/frr/vtysh.conf
    printf 'frr defaults datacenter\nhostname %s\nservice integrated-vtysh-config\n' "$NAME" >/etc/frr/frr.conf
    chown frr:frr /etc/frr/*.conf; chmod 664 /etc/frr/*.conf
  fi
  # The operator may run nft, by a capability of the file and not as root. The namespace outlives a power cut, its filter must not;
  # what was saved holds before a port forwards.
  install -m 750 -g frrvty /usr/sbin/nft /run/nft; setcap cap_net_admin=ep /run/nft
  mount --bind /run/nft /usr/sbin/nft
  nft flush ruleset
  if [ -e /etc/frr/filter.nft ]; then nft -f /etc/frr/filter.nft; fi
  for daemon in mgmtd zebra bgpd bfdd staticd; do                         # mgmtd: FRR 9 and later
    if [ -x /usr/lib/frr/$daemon ]; then /usr/lib/frr/$daemon -d -F datacenter -A 127.0.0.1; fi
  done
  vtysh -b
  install $FLASH_AT/uplinks.sh /run/uplinks.sh
  /run/uplinks.sh >>/var/log/uplinks.log 2>&1 &
fi

rm -f /etc/ssh/ssh_host_*; rm -rf /etc/ssh/sshd_config.d
install -m 600 $FLASH_AT/ssh/ssh_host_ed25519_key /etc/ssh/ssh_host_ed25519_key
echo "$PUBLIC_KEY" >/etc/ssh/authorized_keys
printf '%s\n' "ListenAddress ${MGMT%/*}" 'HostKey /etc/ssh/ssh_host_ed25519_key' 'UsePAM no' 'UseDNS no' \
  "KexAlgorithms $SSH_KEY_EXCHANGE" \
  'PasswordAuthentication no' "AllowUsers $OPERATOR" 'AuthorizedKeysFile /etc/ssh/authorized_keys' 'Banner /etc/issue.net' \
  'PidFile /run/sshd.pid' 'MaxStartups 100:30:200' 'Subsystem sftp /usr/lib/openssh/sftp-server' >/etc/ssh/sshd_config

# Out of the management port only. IF-MIB tells the state and the counters of every port; the kernel is asked every 15 s.
install -d -m 700 /run/snmp /run/snmp/state
install -m 600 $FLASH_AT/snmp/snmpd.conf /run/snmp/snmpd.conf
SNMP_PERSISTENT_DIR=/run/snmp/state snmpd -C -c /run/snmp/snmpd.conf -Lf /var/log/snmpd.log -p /run/snmpd.pid -I -smux

umount $FLASH_AT
/usr/sbin/sshd
touch /run/ready
while :; do sleep 86400 & wait $!; done
