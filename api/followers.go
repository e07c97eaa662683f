package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/auth"
)

// maxFollowers is how many streams of events are open of a principal that does not act
// on everything. Each reads the log at every change of anyone.
const maxFollowers = 100

// followerRetry is when one that is refused may try again.
const followerRetry = 10 * time.Second

// followers counts the streams of events that are open. The zero value has none.
type followers struct {
	mu   sync.Mutex
	open map[string]int // by principal
}

// begin counts a stream until end is called, or refuses it.
func (f *followers) begin(ctx context.Context) (end func(), refused *Problem) {
	p := auth.From(ctx)
	if scopeOf(ctx) == nil || p == nil {
		return func() {}, nil
	}
	// The tokens that one key makes for its tenants are those of several.
	tenant, _ := p.Tenant()
	who := p.Actor + "\x00" + tenant
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[who] >= maxFollowers {
		refused = newProblem(ctx, TooManyRequests, fmt.Sprintf("%d streams of events are open with this credential", maxFollowers))
		refused.retry = followerRetry
		return nil, refused
	}
	if f.open == nil {
		f.open = map[string]int{}
	}
	f.open[who]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.open[who]--; f.open[who] == 0 {
			delete(f.open, who)
		}
	}, nil
}
