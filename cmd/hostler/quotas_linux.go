package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/store"
)

// quotaFlag is the flag of the default limits of a level.
func quotaFlag(level quota.Level) string { return "quota-" + string(level) }

// quotaFlags defines the flags of the default limits.
func (c *serveConfig) quotaFlags(f *pflag.FlagSet) {
	c.quotas = map[quota.Level]*string{}
	for _, row := range []struct {
		level quota.Level
		usage string
	}{
		{quota.Tenant, "limits of each tenant, such as claims=10,claims-per-minute=60,state=10GiB,requests-per-second=50; what is not named is unlimited"},
		{quota.Key, "limits of each key or other credential, in the same form; operators' requests have none"},
		{quota.Workload, "limits of each workload, in the same form, without requests-per-second"},
	} {
		c.quotas[row.level] = f.String(quotaFlag(row.level), "", row.usage)
	}
}

// quotaDefaults returns the default limits.
func (c *serveConfig) quotaDefaults() (quota.Defaults, error) {
	defaults := quota.Defaults{}
	for _, level := range quota.Levels() {
		text := c.quotas[level]
		if text == nil {
			continue
		}
		l, err := quota.ParseLimits(*text)
		if err == nil {
			err = quota.Scope{Level: level}.Check(l)
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", quotaFlag(level), err)
		}
		defaults[level] = l
	}
	return defaults, nil
}

// newQuotaCounter returns the counter of refusals.
func newQuotaCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hostler_quota_refusals_total", Help: "Claims and requests that a quota has refused.",
	}, []string{"level", "quota"})
}

// countRefusal counts a refusal by a quota.
func (m *metrics) countRefusal(e *quota.ExceededError) {
	m.refusals.WithLabelValues(string(e.Level), string(e.Kind)).Inc()
}

// isRefusal reports whether an error is a refusal by a quota, and counts it.
func (m *metrics) isRefusal(err error) bool {
	exceeded, ok := errors.AsType[*quota.ExceededError](err)
	if ok {
		m.countRefusal(exceeded)
	}
	return ok
}

// sizedState records that state is restored, and its size: no claim does.
type sizedState struct {
	*claim.Service
	db  *store.DB
	log *slog.Logger
}

// Restore implements api.State.
func (s sizedState) Restore(ctx context.Context, workload, tenant, id string) (snapshot.Snapshot, error) {
	restored, err := s.Service.Restore(ctx, workload, tenant, id)
	if err != nil {
		return restored, err
	}
	// It is restored: the next claim corrects what could not be recorded.
	data := activity.SnapshotRestoredData{Bytes: restored.StoredBytes(), From: id, Snapshot: restored.ID}
	err = s.db.SetStateSize(context.WithoutCancel(ctx), workload, tenant, data.Bytes, activity.Event{
		Type: activity.SnapshotRestored, Workload: workload, Tenant: tenant, Message: "snapshot " + id + " restored", Data: activity.Data(data),
	})
	if err != nil && !errors.Is(err, store.ErrClosed) {
		s.log.Warn("size of a restored state not recorded", "workload", workload, "tenant", tenant, "error", err)
	}
	return restored, nil
}
