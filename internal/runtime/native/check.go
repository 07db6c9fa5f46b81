package native

import (
	"context"

	"forage/internal/runtime"
)

// Check tries what the runtime relies on.
func (r *Runtime) Check(ctx context.Context) []runtime.Finding {
	return nil
}
