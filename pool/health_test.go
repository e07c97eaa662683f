package pool

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/workload"
)

// rest is what of storage is not asked for.
type rest = Containers

// one is storage with one container in it, or without an answer.
type one struct {
	rest
	c   Container
	err error
}

func (o one) Container(context.Context, string) (Container, error) { return o.c, o.err }

// A container that was destroyed before it was watched is not checked for ever;
// one that storage cannot tell of is.
func TestCheckerForgets(t *testing.T) {
	tests := map[string]struct {
		state State
		err   error
		stays bool
	}{
		"idle":       {Idle, nil, true},
		"claimed":    {Claimed, nil, true},
		"destroying": {Destroying, nil, false},
		"destroyed":  {Gone, nil, false},
		"unknown":    {"", ErrNoContainer, false},
		"no answer":  {"", errors.New("disk full"), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rt := fake.New()
			rt.Break("exec", runtime.ErrUnavailable)
			c := NewChecker(rt, one{c: Container{ID: "c", State: tt.state}, err: tt.err}, nil, slog.New(slog.DiscardHandler))
			c.Watch("c", &workload.Workload{Healthcheck: &workload.Healthcheck{Interval: time.Hour}}, time.Time{})
			due, _ := c.due(time.Now())
			require.Equal(t, []string{"c"}, due)
			c.recheck(t.Context(), "c")
			require.Equal(t, tt.stays, len(c.watched) == 1)
		})
	}
}
