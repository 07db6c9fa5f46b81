package work

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/workspace"
)

// slow is a provider that imports for as long as it may.
type slow struct{ workspace.Provider }

func (slow) Update(ctx context.Context, _ forage.Workspace) (workspace.Update, error) {
	<-ctx.Done()
	return workspace.Update{}, context.Cause(ctx)
}

// A look does not wait for a long import, and says that it is under way.
func TestALongImportHoldsNothingUp(t *testing.T) {
	err := broughtWithin(t.Context(), time.Millisecond, slow{}, forage.Workspace{})
	if err == nil || !strings.Contains(err.Error(), "still being brought") {
		t.Errorf("it says %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := broughtWithin(ctx, time.Hour, slow{}, forage.Workspace{}); !errors.Is(err, context.Canceled) {
		t.Errorf("one who gave up is told %v", err)
	}
}
