package sandbox

import (
	"context"
	"fmt"
	"time"

	"forage"
)

// askTimeout bounds how long a supervisor may take to say how it is, the time that it gives its
// guest included.
const askTimeout = 20 * time.Second

// answerLimit bounds how long it may take for what it is to do, the time that it gives its guest
// included.
var answerLimit = 3 * time.Minute

// asking is ctx for a question to the supervisor of a sandbox. One that was stopped never answers.
func asking(ctx context.Context, name string, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, forage.WithHint(
		fmt.Errorf("the supervisor of %s has not answered within %v", name, limit), "`forage-ctl stop "+name+"` ends it, and the sandbox with it"))
}
