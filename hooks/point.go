package hooks

// Point is a moment in the life of a container or a claim.
type Point string

// The points.
const (
	PostCreate Point = "post_create"
	PostClaim  Point = "post_claim"
	PreRelease Point = "pre_release"
	PreDestroy Point = "pre_destroy"
)

// PointRule is what holds at a point, whatever the workload.
type PointRule struct {
	Point Point
	// Aborts says that a failed point ends the flow it is part of. Where it
	// does not, the flow goes on and the failure is a warning.
	Aborts bool
	// Doc says when it runs and what failure does, for the schema and the docs.
	Doc string
}

// points is the closed list, in the order of a container's life.
var points = []PointRule{
	{PostCreate, true, "After a container is created, started and healthy, before it waits in the pool. When it fails, the container is destroyed and another is made, with backoff."},
	{PostClaim, true, "After a claimed container holds the tenant's files and is healthy, before the claim is answered. When it fails, the claim fails and the container is destroyed."},
	{PreRelease, false, "While a claim is being released, before anything is taken from the container. When it fails, the rest of the point is skipped, the release goes on and its answer carries a warning."},
	{PreDestroy, false, "Before a container is stopped and removed. When it fails, the container is destroyed all the same."},
}

// Points returns the table of all points, in the order of a container's life.
func Points() []PointRule { return append([]PointRule(nil), points...) }

// IsValid says whether p is a point.
func (p Point) IsValid() bool {
	for _, r := range points {
		if r.Point == p {
			return true
		}
	}
	return false
}
