// Package netns makes the inside of a sandbox's network namespace: a namespace
// that has nothing but lo, in which every destination is routed to lo, TCP is
// redirected to one listening socket of ours, DNS to another, and everything else
// is refused at once. It needs CAP_NET_ADMIN over the namespace and no root.
//
// It makes sockets and hands them out; it neither serves them nor decides
// anything. None of it keeps the agent in: the namespace has no way out at all.
// The redirection is what makes programs work that know of no proxy.
//
// Use: the guest, still privileged in its fresh namespace, calls Setup and sends
// Network.Report (JSON) with Network.Files() beside it; the host passes both to
// FromFiles. A child in a throw-away namespace calls Probe to see what this
// kernel can do.
package netns

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Ports of our sockets on 127.0.0.1 and ::1.
const (
	TransparentPort = 61080 // where redirected TCP arrives
	ProxyPort       = 18080 // explicit proxy
	DNSPort         = 53
)

// Report says what Setup reached.
type Report struct {
	// Redirected: all TCP and all DNS reaches our sockets, whatever its destination.
	// Otherwise there is no route but to loopback, and the explicit proxy and
	// the resolver on 127.0.0.1 are all that remains.
	Redirected bool `json:"redirected"`
	// IPv6: there is ::1, and our sockets are there too. Otherwise IPv6 is
	// unreachable altogether.
	IPv6 bool `json:"ipv6"`
	// Notes say what could not be set up and why, for people.
	Notes []string `json:"notes,omitempty"`
}

// Network is a namespace that was set up.
type Network struct {
	Report  Report
	sockets []*os.File
}

// Files are the listening sockets, in the order that FromFiles expects: for
// each of transparent (only if Redirected), proxy, DNS over TCP and DNS over UDP,
// the one on 127.0.0.1 and (only if IPv6) the one on ::1. The caller closes them.
func (n Network) Files() []*os.File { return n.sockets }

// Close closes the sockets.
func (n Network) Close() {
	for _, f := range n.sockets {
		f.Close()
	}
}

// Setup sets up the calling process's network namespace, which must be a
// fresh one. It is all or nothing but for what Report says.
func Setup() (Network, error) {
	return setup(steps{hasLoopback6, loadAnyRules, addLocalRoute})
}

// loadAnyRules loads the rules into what the kernel has.
func loadAnyRules() error {
	err := loadRules(TransparentPort)
	if err == nil {
		return nil
	}
	if legacy := loadLegacyRules(TransparentPort, hasLoopback6()); legacy != nil {
		return fmt.Errorf("%w; %w", err, legacy)
	}
	return nil
}

// steps are what a kernel may lack.
type steps struct {
	ipv6  func() bool             // whether ::1 can be used
	rules func() error            // loads the table
	route func(family byte) error // makes every address of a family local
}

func setup(do steps) (Network, error) {
	var n Network
	report := &n.Report
	report.Notes = applySysctls(earlySysctls)
	if err := loopbackUp(); err != nil {
		return n, fmt.Errorf("setting up the network namespace: %w", err)
	}
	report.IPv6 = do.ipv6()
	if !report.IPv6 {
		report.Notes = append(report.Notes, "IPv6 is not available in network namespaces: IPv4 only")
	}
	do.redirect(report)
	sockets, err := listen(*report)
	if err != nil {
		return n, fmt.Errorf("setting up the network namespace: %w", err)
	}
	n.sockets = sockets
	return n, nil
}

// redirect loads the rules and then adds the routes that lead to them. Without
// rules there are no routes: a destination is then unreachable, rather than
// answered by whatever the agent itself serves.
func (do steps) redirect(report *Report) {
	note := func(format string, err error) { report.Notes = append(report.Notes, fmt.Sprintf(format, err)) }
	if err := do.rules(); err != nil {
		note("no transparent redirection, the explicit proxy alone remains: nftables: %v", err)
		return
	}
	if err := do.route(unix.AF_INET); err != nil {
		note("no transparent redirection, the explicit proxy alone remains: IPv4 route: %v", err)
		return
	}
	report.Redirected = true
	report.Notes = append(report.Notes, applySysctls(conntrackSysctls)...)
	if !report.IPv6 {
		return
	}
	if err := do.route(unix.AF_INET6); err != nil {
		report.IPv6 = false
		note("IPv4 only: IPv6 route: %v", err)
	}
}

// sysctl is one file below /proc/sys/net and what it shall hold.
type sysctl struct {
	path, value string
}

// earlySysctls are set before lo is up. Defaults may be inherited from the
// host's namespace (net.core.devconf_inherit_init_net), so IPv6 is turned on
// explicitly.
var earlySysctls = []sysctl{
	{"ipv6/conf/all/disable_ipv6", "0"},
	{"ipv6/conf/lo/disable_ipv6", "0"},
	// One synthetic address is one destination: 14,000 connections to it
	// in a minute used up the default range. tcp_tw_reuse's default, 2, covers
	// loopback addresses only.
	{"ipv4/tcp_tw_reuse", "1"},
	{"ipv4/ip_local_port_range", "1024 65535"},
	{"ipv4/ip_unprivileged_port_start", "0"}, // a server inside may take port 80
	{"core/somaxconn", "65535"},
}

// conntrackSysctls exist once rules have been loaded. A connection that has
// ended is remembered for 120 seconds by default, which at a few thousand
// connections a second would fill the table.
var conntrackSysctls = []sysctl{
	{"netfilter/nf_conntrack_tcp_timeout_time_wait", "10"},
}

// Sysctls are those that Setup writes and this kernel has, by name: for a container whose /proc/sys
// is read-only.
func Sysctls() map[string]string {
	list := make(map[string]string)
	for _, s := range slices.Concat(earlySysctls, conntrackSysctls) {
		if _, err := os.Stat("/proc/sys/net/" + s.path); err == nil {
			list["net."+strings.ReplaceAll(s.path, "/", ".")] = s.value
		}
	}
	return list
}

// applySysctls writes each and returns what could not be. The files belong to
// the namespace of the process that opens them, so they are opened by path.
func applySysctls(list []sysctl) []string {
	var notes []string
	for _, s := range list {
		if err := writeSysctl("/proc/sys/net/"+s.path, s.value); err != nil {
			if os.IsNotExist(err) {
				continue // no IPv6, or a kernel without this knob
			}
			notes = append(notes, fmt.Sprintf("net/%s stays as it is: %v", s.path, err))
		}
	}
	return notes
}

func writeSysctl(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}
