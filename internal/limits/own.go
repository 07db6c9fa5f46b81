package limits

import (
	"fmt"

	"forage"
)

// ownPrefix begins the names of supervisors' scopes: not prefix, which marks
// the groups that gc removes.
const ownPrefix = "firefly-supervisor-"

// OwnScope puts the process pid, the supervisor of the sandbox called name, in a
// scope of the caller's systemd manager, so that it no longer belongs to the
// login session that it was started from. It says whether it did: false, with no
// error, where systemd is not the init or has no manager for the caller.
func OwnScope(env Environment, name string, pid int) (bool, error) {
	d := detection{env: env}
	if !d.booted() {
		return false, nil
	}
	m, err := env.Manager(managerSocket(env))
	if err != nil {
		return false, nil // no manager: a session of its own is all there is
	}
	defer m.Close()
	if _, err := m.StartScope(ownPrefix+name+scopeSuffix, pid, forage.Limits{}); err != nil {
		return false, fmt.Errorf("asking systemd for the supervisor's scope: %w", err)
	}
	return true, nil
}
