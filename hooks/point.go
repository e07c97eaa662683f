package hooks

// Point is a point in the lifecycle of a container or a claim.
type Point string

// The points.
const (
	PostCreate Point = "post_create"
	PostClaim  Point = "post_claim"
	PreRelease Point = "pre_release"
	PreDestroy Point = "pre_destroy"
)

// PointRule describes a point. It is the same for every workload.
type PointRule struct {
	Point Point
	// Aborts reports whether a failed point ends its flow. Otherwise the flow
	// continues and the failure is a warning.
	Aborts bool
	// Doc describes when the hooks run and what a failure does. The schema and
	// the documentation use it.
	Doc string
}

// points lists all points in the order of a container's lifecycle.
var points = []PointRule{
	{PostCreate, true, "After a container is created, started and healthy, before it becomes idle. If it fails, the container is destroyed and another is created, with backoff."},
	{PostClaim, true, "After a claimed container has the tenant's files and is healthy, before the claim request is answered. If it fails, the claim fails and the container is destroyed."},
	{PreRelease, false, "During a release, before the state is read from the container. If it fails, the rest of the point is skipped, the release continues and its response has a warning."},
	{PreDestroy, false, "Before a container is stopped and removed. If it fails, the container is still destroyed."},
}

// Points returns all points in the order of a container's lifecycle.
func Points() []PointRule { return append([]PointRule(nil), points...) }

// IsValid reports whether p is a point.
func (p Point) IsValid() bool {
	for _, r := range points {
		if r.Point == p {
			return true
		}
	}
	return false
}
