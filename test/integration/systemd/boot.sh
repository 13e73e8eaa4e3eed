#!/bin/bash
# A host of its own, over the files of this one: systemd as process 1, the loopback network, nothing that stays.
#   unshare -m -p -f -u -i -n boot.sh FOLDER
# FOLDER holds the package and story.sh, and gets what that says (said.txt).
set -e
folder=$1
mount --make-rprivate /
base=$(mktemp -d)
mount -t tmpfs tmpfs "$base"
mkdir -p "$base"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/root"
root=$base/root
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
for place in run dev sys/fs/cgroup; do mount -t tmpfs -o mode=0755 tmpfs "$root/$place"; done
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root"/sys/fs/cgroup/systemd "$root"/dev/{pts,shm,mqueue,hugepages}
mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
for node in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
  read -r name major minor <<<"$node"
  mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done
ip link set lo up
# The C library asks for addresses only on hosts that have one besides 127.0.0.1.
ip address add 198.18.0.1/32 dev lo

mkdir -p "$root/mnt/story" "$root/oldroot"
mount --bind "$folder" "$root/mnt/story"
# Of this host's own services none is wanted.
rm -rf "$root"/etc/systemd/system/*.wants "$root"/lib/systemd/system/{sysinit,multi-user,sockets,timers,basic,local-fs}.target.wants
rm -f "$root/etc/resolv.conf" "$root/etc/machine-id" "$root/usr/sbin/policy-rc.d"
echo 'nameserver 127.0.0.9' >"$root/etc/resolv.conf"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
systemd-id128 new >"$root/etc/machine-id"
cat >"$root/etc/systemd/system/story.service" <<'UNIT'
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
TimeoutStartSec=infinity
WorkingDirectory=/mnt/story
ExecStart=/bin/bash /mnt/story/story.sh
StandardOutput=file:/mnt/story/said.txt
StandardError=file:/mnt/story/errors.txt
ExecStopPost=/bin/systemctl exit --force
UNIT
cat >"$root/etc/systemd/system/story.target" <<'UNIT'
[Unit]
Requires=basic.target
Wants=story.service systemd-journald.service
After=basic.target
UNIT
cd "$root"
pivot_root . oldroot
umount -l /oldroot
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=story.target --log-target=null --show-status=no
