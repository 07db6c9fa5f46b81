// Package work is what becomes of the work in a sandbox: its workspace is made, looked through for
// what host tools would execute, reviewed, applied, kept in snapshots and removed without a loss.
// It starts and stops nothing.
package work

import (
	"context"

	"forage/internal/audit"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
)

// Keeper looks after the workspaces of one user's sandboxes.
type Keeper struct {
	Host     *plan.Host
	Notify   func(note string)              // is told what the user should know
	Progress func(what string) (end func()) // is told what begins that may take long
	// Locked runs f with the record of a sandbox that no other process is changing.
	Locked func(ctx context.Context, name string, f func(store.Record) error) error
	// Record puts on a running sandbox's record what is about to happen; when it fails, it must not.
	Record func(ctx context.Context, name string, event audit.Event) error
}
