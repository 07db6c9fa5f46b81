#!/bin/sh
# Installs what `make bench` compares with, outside the checkout: bubblewrap, runc,
# passt (pasta), slirp4netns and what sandbox-runtime needs, with the system's package
# manager (as root), and into a cache folder sandbox-runtime (npm) and the proxies that
# intercept TLS: mitmproxy (pip) and martian (go).
set -eu

if [ "$(id -u)" = 0 ]; then
	if command -v apt-get >/dev/null; then
		# npm may have come with a Node.js that the distribution's own conflicts with.
		command -v npm >/dev/null || node='nodejs npm'
		# shellcheck disable=SC2086
		apt-get install -y --no-install-recommends bubblewrap runc passt slirp4netns socat ripgrep git tmux python3-venv ${node:-} ||
			echo "peers.sh: not all packages could be installed" >&2
	elif command -v dnf >/dev/null; then
		dnf install -y bubblewrap runc passt slirp4netns socat ripgrep nodejs npm git tmux
	elif command -v pacman >/dev/null; then
		pacman -S --needed --noconfirm bubblewrap runc passt slirp4netns socat ripgrep nodejs npm git tmux
	else
		echo "peers.sh: install bubblewrap, runc, passt, slirp4netns, socat, ripgrep and npm by hand" >&2
	fi
	# udev gives this device to everybody; a machine without udev may not have.
	[ ! -e /dev/net/tun ] || chmod 0666 /dev/net/tun
	cache=${FORAGE_BENCH_PEERS:-/var/cache/forage-bench}
else
	echo "peers.sh: not root: the system's packages are left as they are" >&2
	cache=${FORAGE_BENCH_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/forage-bench}
fi

umask 022
mkdir -p "$cache"
npm install --no-fund --no-audit --prefix "$cache" @anthropic-ai/sandbox-runtime
# The system's Python, which everybody sees: another one may live in somebody's home.
/usr/bin/python3 -m venv --clear "$cache/mitmproxy" && "$cache/mitmproxy/bin/pip" install --quiet mitmproxy ||
	echo "peers.sh: mitmproxy could not be installed" >&2
GOBIN="$cache/bin" go install github.com/google/martian/v3/cmd/proxy@latest ||
	echo "peers.sh: martian could not be installed" >&2
chmod -R a+rX "$cache"
echo "peers.sh: what is not a package of the system is in $cache"
