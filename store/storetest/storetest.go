// Package storetest is the contract of storage as a test suite, which every
// database that Hostler supports must pass. It tests what pool.Containers,
// pool.Workloads, pool.EventLog, claim.Store and hooks.Recorder specify, and
// what the read methods of package store promise.
package storetest

import (
	"context"
	"testing"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/publish"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/wait"
)

// Store has all methods that the suite tests.
type Store interface {
	pool.Containers
	pool.Workloads
	pool.Breakers
	pool.EventLog
	pool.Outputs
	claim.Store
	hooks.Recorder
	RunRefused(ctx context.Context, r hooks.Run) error // of gates
	delivery.Outbox
	publish.Store
	delivery.Records
	memory.Store
	HeldClaims
	wait.Store
	access.UseStore
	credential.Store
	Quotas
	Reader
	Admin
}

// Reader has the methods that read for users and followers.
type Reader interface {
	Events(ctx context.Context, f activity.Filter, after int64, limit int) (activity.Page, error)
	NewestEvents(ctx context.Context, f activity.Filter, limit int) (activity.Page, error)
	Changed() <-chan struct{}
	Runs(ctx context.Context, f hooks.RunFilter) ([]hooks.Run, error)
	Run(ctx context.Context, id string) ([]hooks.Run, error)
	MemoryUsage(ctx context.Context) (map[memory.Level]memory.Usage, error)
	Measure(ctx context.Context, q store.MeasureQuery) (store.Measures, error)
	LastSeq(ctx context.Context) (int64, error)
}

// Admin has the methods about the database itself.
type Admin interface {
	Meta(ctx context.Context, key string) (string, error)
	MetaOr(ctx context.Context, key, fresh string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
	FollowedFiles(ctx context.Context) (pool.FollowedFiles, error)
	UpdateFollowedFiles(ctx context.Context, set func(*pool.FollowedFiles) []activity.Event) error
	SetProtocols(p runtime.Protocols)
	Prune(ctx context.Context, r store.Retention) (store.Pruned, error)
	PrunePublished(ctx context.Context, r store.PublishedRetention) (int64, error)
	PruneUses(ctx context.Context, perClaim int) (int64, error)
	Advance(ctx context.Context, name string, limit int, handle func(store.Tx, []activity.Event) error) (bool, error)
	Cursors(ctx context.Context) ([]activity.Cursor, error)
	Close() error
}

// Run runs the suite; open returns an empty store, which Run closes.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s Store)
	}{
		{"container is added and moved", containerTransitions},
		{"change of state that no flow has is refused", illegalTransitions},
		{"record of the followed directory", followedFiles},
		{"container events take what they leave out from before the change", containerEvents},
		{"pool is full at its bound", poolFull},
		{"container for a pending claim", containerForClaim},
		{"containers are listed by filter", containerLists},
		{"containers are counted", containerCounts},
		{"an impossible change changes nothing", containerConstraints},
		{"reserve makes a claim and takes a container", reserveLinksRecords},
		{"reserve prefers", reservePrefers},
		{"reserve passes over what is not healthy", reserveHealthy},
		{"reserve takes what the server speaks to", reserveProtocols},
		{"what a newer server made is left alone", newerProtocolUnchanged},
		{"active claims are held", heldClaims},
		{"reserve again returns the same claim", reserveAgain},
		{"reserve returns the tenant's live claim", reserveOneLiveClaim},
		{"reserve keeps a claim that waits", reserveWaits},
		{"live claims have a quota", quotaOfLiveClaims},
		{"claims a minute have a quota", quotaOfRate},
		{"a key has a quota", quotaOfKey},
		{"state has a quota", quotaOfState},
		{"an override wins over a default", quotaOverrides},
		{"claim and container move together", claimTransitions},
		{"claim keeps what the flow adds", claimRoundTrip},
		{"claim replaces its container", claimReplacesContainer},
		{"claims are listed by filter", claimLists},
		{"fence grows with each flow", fenceGrows},
		{"time of the last wipe is recorded", wipedAt},
		{"workload is put, read and removed", workloads},
		{"container of no workload is refused", containerOfNoWorkload},
		{"container of no revision is refused", containerOfNoRevision},
		{"revision stays while in use", revisions},
		{"file stays while in use", files},
		{"a replaced file is kept", replacedFiles},
		{"failures of pools", breakers},
		{"measures", measures},
		{"measures of what is late", lateMeasures},
		{"run has one start and one end", runLife},
		{"refusal is one record that has ended", runRefused},
		{"end of a run and start of the next are one change", runFollowed},
		{"run event is complete", runEventData},
		{"run is skipped", runSkipped},
		{"outputs of runs", runOutputs},
		{"outputs of containers", containerOutputs},
		{"run ends with its claim", runEndsWithClaim},
		{"run ends with its container", runEndsWithContainer},
		{"no run starts after the end of its claim", runAfterEnd},
		{"retained containers do not count twice", retainedCounts},
		{"runs are listed by filter", runLists},
		{"events are filtered", eventFilters},
		{"events are paged", eventPages},
		{"event data must be JSON", eventData},
		{"follower misses nothing", followerSeesAllEvents},
		{"no wakeup is lost", noLostWakeup},
		{"many tenants claim concurrently", manyTenants},
		{"one tenant claims concurrently", oneTenantRace},
		{"max_size holds in a race", maxSizeInRace},
		{"no container is added while its workload is removed", removalRace},
		{"no container is added while its revision is removed", revisionRace},
		{"failing change does not affect others", isolation},
		{"change that fails halfway leaves nothing", isolationHalfway},
		{"panic is contained", panics},
		{"ended context changes nothing", endedContext},
		{"meta", meta},
		{"keys are added, revoked and pruned", credentialKeys},
		{"keys that have changed are read", credentialGenerations},
		{"the first credential is an operator's", credentialConditions},
		{"one of two first operators is added", credentialRace},
		{"last uses of keys are recorded", credentialUses},
		{"bindings are put and deleted", credentialBindings},
		{"meta is set once", metaOnce},
		{"retention truncates the log", pruneLog},
		{"retention keeps what is in use", pruneRecords},
		{"cursor passes events with what is written for them", cursors},
		{"retention keeps what a cursor has not passed", pruneKeepsUnpassed},
		{"event hook sees what comes after its file", eventHooks},
		{"deliveries are added with the cursor", fanOut},
		{"delivery and its attempts change together", deliveryLife},
		{"deliveries that change at once are independent", deliveriesAtOnce},
		{"a delivery ends once", deliveryEndsOnce},
		{"command of an event hook starts in no other claim", deliveryCommands},
		{"debounced events are delivered once", deliveryDebounce},
		{"full queues discard tenants' events", deliveryExcess},
		{"a tenant fills its own part of a queue", deliveryExcessOfTenant},
		{"event of a tenant's program is published", publishEvent},
		{"only the claim that holds the container publishes", publishStates},
		{"request that is sent again publishes nothing", publishOnce},
		{"limits of events hold for claim and tenant", publishLimits},
		{"activity is recorded with its event", publishActivity},
		{"repeated report of an activity changes nothing", publishActivityOnce},
		{"published events are removed from between others", prunePublished},
		{"retention keeps published events that are needed", prunePublishedKeeps},
		{"retention keeps what a repeated request has published", pruneKeepsRequests},
		{"retention of published events races the cursor", prunePublishedRaces},
		{"command has one start and one end", commandLife},
		{"every event has an actor", actorsOfEvents},
		{"what a claim has of its request", parametersOfClaims},
		{"filters by label", labels},
		{"command starts while its claim is active", commandStates},
		{"as many commands are open as may", commandBound},
		{"command ends with its claim", commandEndsWithClaim},
		{"a command ends once", commandEndsOnce},
		{"uses are recorded in their order", useOrder},
		{"retention keeps the newest uses of each kind", pruneUses},
		{"retention keeps what is to be delivered", pruneKeepsUndelivered},
		{"workload stays until its events are delivered", deliveriesKeepWorkload},
		{"levels of memory are apart", memoryLevels},
		{"one change of memory from a version succeeds", memoryVersions},
		{"no concurrent change of memory is lost", memoryRace},
		{"repeated request changes memory once", memoryRequests},
		{"repeated deletion changes memory once", memoryRequestsAtOnce},
		{"quota of memory holds", memoryQuota},
		{"keys of memory are listed", memoryLists},
		{"claim in use uses memory", memoryAccess},
		{"memory ends with its claim", memoryEndsWithClaim},
		{"memory ends during requests", memoryEndsInRace},
		{"memory ends with its workload", memoryEndsWithWorkload},
		{"memory of a removed workload", memoryOfRemovedWorkload},
		{"memory that is no longer shared", memoryUnshared},
		{"wait begins, once", waitBegins},
		{"request that joined a wait returns it after its end", waitIsJoined},
		{"refused request begins no wait and joins none", waitIsRefused},
		{"requests that join waits are limited", waitJoinLimits},
		{"requests that joined a wait end with it", waitJoinsEnd},
		{"requests join a wait that ends", func(t *testing.T, s Store) { JoinWaits(t, s) }},
		{"wait changes from the state that is expected", waitTransitions},
		{"signal is given to one wait", waitSignals},
		{"waits and signals end with their claim", waitsEndWithClaim},
		{"waits and signals of a claim are limited", waitLimits},
		{"limits of waits hold at once", waitLimitsAtOnce},
		{"signals are in the order of sending", waitSignalOrder},
		{"hook of a wait starts in no other claim", waitRuns},
		{"wait is recorded as it is", waitRoundTrip},
		{"retention keeps waits of live claims", pruneWaits},
		{"lists have what a scope includes", scopes},
		{"events of a container that is not wiped are its claim's", eventsOfUnwiped},
		{"output of a container that is not wiped is its last tenant's", outputOfUnwiped},
		{"close finishes queued changes", closeFinishesQueued},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() { _ = s.Close() }) // one test closes it itself
			c.test(t, s)
		})
	}
}
