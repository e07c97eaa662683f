package hooks

import "time"

// Point is a point in the lifecycle of a container or a claim.
type Point string

// The points.
const (
	PreStart   Point = "pre_start"
	PostStart  Point = "post_start"
	PostCreate Point = "post_create"
	PostClaim  Point = "post_claim"
	// The points of waits. They are fired while the claim is active, once for each
	// round of a wait.
	WaitStart   Point = "wait_start"
	WaitSignal  Point = "wait_signal"
	WaitTimeout Point = "wait_timeout"
	PreRelease  Point = "pre_release"
	PreDestroy  Point = "pre_destroy"
)

// PointRule describes a point. It is the same for every workload. The runner,
// the recovery and the workload file behave as the rule says: a point is added
// as a row here and a call of Runner.Fire in its flow.
type PointRule struct {
	Point Point
	// Aborts reports whether a failed point fails its flow, which is then undone.
	// Such a point is canceled with its flow. Otherwise the flow continues and the
	// failure is a warning. The hooks are then not canceled either: they would be
	// killed, and never run again.
	Aborts bool
	// NotStarted reports whether the main process has not been started when the
	// point is fired. Only actions of the server are permitted then.
	NotStarted bool
	// MayBeStopped reports whether the main process may have exited when the point
	// is fired. Its commands are then skipped. While the engine is unavailable the
	// point is not fired.
	MayBeStopped bool
	// AwaitsOthers reports whether a hook of another point may still run in the
	// container when the point is fired. The point waits for it.
	AwaitsOthers bool
	// OfWait reports whether the point is one of a wait. It is fired only while the
	// claim is active, for several waits at once, and more than once in a claim. It
	// is canceled with its wait, by the release of the claim.
	OfWait bool
	// DefaultOnError is the on_error of a hook that has none; empty: Fail.
	DefaultOnError OnError
	// ResumedIn is the state of a record in which a server resumes the point after
	// the server that fired it has terminated. In every other state, and if it is
	// the zero Place, the running hook is recorded as Unknown.
	ResumedIn Place
	// Phase is the phase of the container at the point, for ${PHASE}.
	Phase string
	// Timeouts are those of one attempt of a hook of the point.
	DefaultTimeout, MaxTimeout time.Duration
	// Doc describes when the hooks run and what a failure does. The schema and
	// the documentation use it.
	Doc string
}

// Place is a state of a record.
type Place struct {
	Record Record
	State  string // as in the record
}

// Record is a kind of record that points belong to.
type Record string

// The records.
const (
	OfClaim     Record = "claim"
	OfContainer Record = "container"
)

// points lists all points in the order of a container's lifecycle.
var points = []PointRule{
	{
		Point: PreStart, Aborts: true, NotStarted: true,
		Phase:          "provisioning",
		DefaultTimeout: DefaultRequestTimeout, MaxTimeout: MaxRequestTimeout,
		Doc: "After a container is created, before it is started. Requests and builtins only. If it fails, the container is destroyed and another is created, with backoff.",
	},
	{
		Point: PostStart, Aborts: true, ResumedIn: Place{OfClaim, "pending"},
		Phase:          "starting",
		DefaultTimeout: DefaultTimeout, MaxTimeout: MaxRequestTimeout,
		Doc: "After the main process is started, before it is healthy: when a container is created, and when a claim restarts the process. If it fails, the container is destroyed, and a claim fails.",
	},
	{
		Point: PostCreate, Aborts: true, // a container in creation is discarded
		Phase:          "running",
		DefaultTimeout: DefaultTimeout, MaxTimeout: MaxTimeout,
		Doc: "After a container is created, started and healthy, before it becomes idle. If it fails, the container is destroyed and another is created, with backoff.",
	},
	{
		Point: PostClaim, Aborts: true, ResumedIn: Place{OfClaim, "pending"},
		Phase:          "running",
		DefaultTimeout: DefaultTimeout, MaxTimeout: MaxTimeout,
		Doc: "After a claimed container has the tenant's files and is healthy, before the claim request is answered. If it fails, the claim fails and the container is destroyed.",
	},
	{
		Point: WaitStart, OfWait: true, ResumedIn: Place{OfClaim, "active"}, DefaultOnError: Continue,
		Phase:          "running",
		DefaultTimeout: DefaultWaitTimeout, MaxTimeout: MaxRequestTimeout,
		Doc: "When a tenant's program begins to wait, before the clock of the wait starts. If it fails, the wait continues.",
	},
	{
		Point: WaitSignal, OfWait: true, ResumedIn: Place{OfClaim, "active"}, DefaultOnError: Continue,
		Phase:          "running",
		DefaultTimeout: DefaultWaitTimeout, MaxTimeout: MaxRequestTimeout,
		Doc: "After the signal for a wait, before the program that waits gets it. If it fails, the program gets the signal.",
	},
	{
		Point: WaitTimeout, OfWait: true, ResumedIn: Place{OfClaim, "active"}, DefaultOnError: Continue,
		Phase:          "running",
		DefaultTimeout: DefaultWaitTimeout, MaxTimeout: MaxRequestTimeout,
		Doc: "After the deadline of a wait. The output of its last hook may decide what becomes of the wait. If it fails, the wait's on_timeout decides.",
	},
	{
		Point: PreRelease, MayBeStopped: true, ResumedIn: Place{OfClaim, "releasing"},
		Phase:          "running",
		DefaultTimeout: DefaultTimeout, MaxTimeout: MaxTimeout,
		Doc: "During a release, before the state is read from the container. If it fails, the rest of the point is skipped, the release continues and its response has a warning.",
	},
	{
		Point: PreDestroy, MayBeStopped: true, AwaitsOthers: true, ResumedIn: Place{OfContainer, "destroying"},
		Phase:          "stopping",
		DefaultTimeout: DefaultTimeout, MaxTimeout: MaxTimeout,
		Doc: "Before a container is stopped and removed. If it fails, the container is still destroyed.",
	},
}

// Points returns all points in the order of a container's lifecycle.
func Points() []PointRule { return append([]PointRule(nil), points...) }

// Rule returns the rule of p, or the zero PointRule if p is not a point.
func (p Point) Rule() PointRule {
	for _, r := range points {
		if r.Point == p {
			return r
		}
	}
	return PointRule{}
}

// IsValid reports whether p is a point.
func (p Point) IsValid() bool { return p != "" && p.Rule().Point == p }
