# Runs a command beside a real systemd user manager in namespaces of its own, on
# a cgroup v2 tree. Started by unshare, as root; $1 is an empty folder for XDG_RUNTIME_DIR.
set -e
export XDG_RUNTIME_DIR=$1 HOME=$1
shift
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cg=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
mkdir "$cg/manager" "$cg/test"
echo $$ >"$cg/test/cgroup.procs"
mount -t tmpfs run /run
mkdir -p /run/systemd/system # systemd asks for it: sd_booted(3)
(
	echo 0 >"$cg/manager/cgroup.procs"
	exec /lib/systemd/systemd --user --log-target=null
) &
# The manager starts the bus itself. Without the name on it, a call would try to
# activate the manager.
export DBUS_SESSION_BUS_ADDRESS=unix:path=$XDG_RUNTIME_DIR/bus
for _ in $(seq 600); do
	if [ -S "$XDG_RUNTIME_DIR/bus" ] && busctl --user call org.freedesktop.DBus / org.freedesktop.DBus \
		NameHasOwner s org.freedesktop.systemd1 2>/dev/null | grep -q true; then
		break
	fi
	sleep 0.1
done
"$@"
