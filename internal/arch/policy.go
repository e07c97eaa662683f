package arch

// module is the import path of this repository.
const module = "github.com/hostler/hostler"

// layers is every package of ours and what it may import of ours. A path that
// ends in "/..." stands for the packages below it too, on both sides. A package
// that has no row may not exist.
var layers = []layer{
	// What the rest speaks of.
	{"activity", nil},
	{"auth", []string{"activity"}},
	{"auth/oidc", []string{"auth", "internal/regular", "internal/singleflight"}},
	{"auth/attempts", []string{"auth"}},
	{"auth/audit", []string{"activity"}},
	{"auth/credential", []string{"activity", "auth", "internal/regular"}},
	{"runtime", []string{"runtime/tree"}},
	{"quota", nil},
	{"internal/flow", nil},
	{"internal/rootcause", nil},
	{"internal/transition", []string{"activity"}},
	{"internal/backoff", nil},
	{"internal/singleflight", nil},
	{"internal/regular", nil},
	{"internal/jsonvalue", nil},
	{"internal/workqueue", []string{"internal/backoff"}},
	{"internal/dispatch", []string{"activity", "internal/flow"}},
	{"internal/arch", nil},
	{"membership", []string{"runtime", "runtime/tree", "internal/flow"}},

	// What runs containers. Backends know the contract and the shim.
	{"runtime/tree", nil},
	{"runtime/shim", []string{"runtime", "runtime/tree", "internal/backoff"}},
	{"runtime/shim/proctree", nil},
	{"runtime/shim/backend", []string{"runtime", "runtime/shim", "runtime/tree"}},
	{"runtime/docker", []string{"runtime", "runtime/shim", "runtime/shim/backend", "internal/backoff"}},
	{"runtime/process", []string{"runtime", "runtime/shim/..."}},
	{"runtime/kubernetes", []string{"runtime", "runtime/shim", "runtime/shim/backend"}},
	{"runtime/fake", []string{"runtime", "runtime/tree"}},
	{"runtime/runtimetest", []string{"internal/testenv", "runtime", "runtime/tree"}},
	{"runtime/runtimetest/box", nil},
	{"runtime/runtimetest/attacker", nil},
	{"runtime/runtimetest/attacktable", nil},

	// What Hostler does, each on top of the one before.
	{"hooks/variables", nil},
	{"hooks/lint", nil},
	{"hooks", []string{"activity", "runtime", "hooks/variables"}},
	{"hooks/runner", []string{"runtime", "hooks", "hooks/variables", "workload", "internal/flow", "internal/rootcause", "internal/backoff"}},
	{"hooks/request", []string{"hooks", "hooks/runner", "hooks/variables", "internal/regular"}},
	{"hooks/request/googleauth", []string{"hooks/request"}},
	{"hooks/builtin", []string{"hooks", "hooks/lint", "hooks/runner"}},
	{"hooks/dryrun", []string{"activity", "hooks", "hooks/request", "hooks/runner", "hooks/variables", "workload"}},
	{"workload", []string{"activity", "runtime", "hooks", "hooks/variables", "hooks/lint", "internal/regular"}},
	{"snapshot", []string{"runtime", "runtime/tree", "snapshot/pack", "snapshot/index", "snapshot/statekey", "workload", "internal/flow", "internal/regular"}},
	{"snapshot/statekey", []string{"internal/regular"}},
	{"snapshot/pack", nil},
	{"snapshot/index", []string{"runtime/tree", "snapshot/pack"}},
	{"snapshot/cloud", []string{"snapshot", "workload"}},
	{"pool", []string{"activity", "runtime", "hooks", "hooks/runner", "workload", "internal/flow", "internal/rootcause", "internal/transition", "internal/dispatch", "internal/backoff", "internal/workqueue"}},
	{"claim", []string{"activity", "quota", "runtime", "runtime/tree", "hooks", "hooks/runner", "workload", "snapshot", "pool", "internal/flow", "internal/rootcause", "internal/transition", "internal/singleflight", "internal/dispatch", "internal/backoff", "internal/workqueue"}},
	{"claim/seal", []string{"internal/regular", "workload"}},
	{"release", []string{"activity", "runtime", "hooks", "hooks/runner", "workload", "pool", "claim", "internal/flow", "internal/rootcause", "internal/singleflight", "internal/dispatch", "internal/backoff"}},
	{"release/schedule", []string{"activity", "runtime", "workload", "pool", "claim", "release", "internal/backoff", "internal/dispatch", "internal/workqueue"}},

	// What accepts connections. It knows how a credential ends.
	{"transport", []string{"auth", "internal/regular"}},

	// What tenants keep. It knows nothing of the rest.
	{"memory", []string{"internal/backoff", "internal/jsonvalue", "internal/workqueue"}},

	{"inside", []string{"activity", "runtime", "claim", "release", "internal/backoff", "internal/dispatch", "internal/flow"}},
	{"delivery", []string{"activity", "runtime", "hooks", "hooks/runner", "workload", "pool", "internal/backoff", "internal/dispatch", "internal/flow", "internal/workqueue"}},

	{"publish", []string{"activity", "claim", "internal/dispatch", "internal/jsonvalue"}},
	{"access", []string{"activity", "runtime", "workload", "pool", "claim", "internal/backoff", "internal/dispatch", "internal/workqueue"}},
	{"hooks/gate", []string{"access", "hooks", "hooks/builtin", "hooks/runner", "workload", "pool"}},
	{"wait", []string{"activity", "runtime", "hooks", "hooks/runner", "workload", "claim", "internal/backoff", "internal/dispatch", "internal/flow", "internal/jsonvalue", "internal/transition", "internal/workqueue", "pool"}},

	// What looks them over. It changes nothing.
	{"doctor", []string{"activity", "runtime", "hooks", "workload", "pool", "claim", "wait", "snapshot"}},

	// What the tests of those share.
	{"snapshot/snapshottest", []string{"snapshot"}},
	{"internal/clustertest", nil},
	{"internal/testenv", nil},
	{"internal/mutants", nil},
	{"internal/suite", []string{"internal/testenv"}},
	{"internal/pipetest", nil},
	{"internal/oidctest", nil},
	{"membership/membershiptest", []string{"membership"}},
	{"internal/servertest", []string{"internal/testenv"}},
	{"internal/s3test", []string{"internal/servertest"}},
	{"internal/gcstest", []string{"internal/servertest"}},
	{"internal/gvisortest", []string{"internal/testenv"}},
	{"store/postgrestest", []string{"internal/testenv"}},
	{"e2e/flowtest", append([]string{"access", "runtime/fake", "snapshot/snapshottest", "store", "store/dbtest", "wait", "hooks/runner", "hooks/builtin", "internal/dispatch"}, flows...)},

	// What keeps it and what shows it. Neither knows a backend or the other.
	{"store/...", append([]string{"store/...", "membership", "internal/backoff", "quota", "access", "auth/...", "delivery", "memory", "publish", "wait"}, flows...)},
	{"api/...", append([]string{"api/...", "auth/...", "quota", "doctor", "delivery", "memory", "publish", "wait", "access", "hooks/dryrun", "hooks/runner", "internal/backoff", "internal/jsonvalue"}, flows...)},

	// What programs of others import: it stands on the standard library.
	{"client", []string{"internal/backoff"}},

	// What wires it, and what drives it from outside.
	{"cmd/hostler", []string{"..."}},
	{"cmd/hostler-shim", []string{"runtime", "runtime/shim", "runtime/shim/proctree", "runtime/tree", "internal/jsonvalue"}},
	{"clients/typescript/generate", nil},
	{"e2e/...", []string{"..."}},
	{"benchmarks/...", []string{"..."}},
	{"examples/...", nil},
	{"deploy/...", nil},
}

// flows are the packages that hold what Hostler does.
var flows = []string{"activity", "runtime", "hooks", "workload", "snapshot", "pool", "claim", "release"}

// importOwners are the packages of others that one part of ours alone may import:
// the smaller the part, the easier it is to leave them.
var importOwners = []owner{
	{"github.com/docker/docker", []string{"runtime/docker"}, "only runtime/docker talks to a Docker engine"},
	{"k8s.io", []string{"runtime/kubernetes", "internal/clustertest", "e2e/..."}, "only runtime/kubernetes talks to Kubernetes"},
	{"github.com/google/go-containerregistry", []string{"runtime/kubernetes", "internal/clustertest", "deploy/...", "e2e/...", "benchmarks/..."},
		"an engine asks registries itself, but for Kubernetes"},
	{"database/sql", []string{"store/..."}, "package store is the only one that knows SQL"},
	{"modernc.org/sqlite", []string{"store/..."}, "package store is the only one that knows SQL"},
	{"github.com/jackc/pgx", []string{"store/..."}, "package store is the only one that knows SQL"},
	{"gocloud.dev", []string{"snapshot", "snapshot/cloud"}, "only package snapshot/cloud talks to object storage"},
	{"cloud.google.com/go", []string{"snapshot", "snapshot/cloud"}, "only package snapshot/cloud talks to object storage"},
	{"google.golang.org/api", []string{"snapshot", "snapshot/cloud"}, "only package snapshot/cloud talks to object storage"},
	{"github.com/aws", []string{"snapshot", "snapshot/cloud"}, "only package snapshot/cloud talks to object storage"},
	{"github.com/Azure/azure-sdk-for-go", []string{"snapshot", "snapshot/cloud"}, "only package snapshot/cloud talks to object storage"},
	{"golang.org/x/oauth2", []string{"snapshot/cloud", "hooks/request/googleauth", "cmd/hostler"}, "tokens are obtained where Google's clients are, and at a login"},
	{"github.com/coreos/go-oidc", []string{"auth/oidc"}, "only package auth/oidc verifies tokens of other issuers"},
	{"github.com/go-jose/go-jose", []string{"auth/oidc", "internal/oidctest"}, "only package auth/oidc verifies tokens of other issuers"},
	{"code.dny.dev/ssrf", []string{"hooks/request"}, "only package hooks/request judges addresses"},
	{"mvdan.cc/sh", []string{"hooks/lint"}, "shells are read by their grammar, in package hooks/lint: patterns miss options in another order and nested commands"},
	{"github.com/klauspost/compress", []string{"snapshot", "snapshot/pack"}, "only snapshots are compressed"},
	{"github.com/PlakarKorp/go-cdc-chunkers", []string{"snapshot/pack"}, "only the content of snapshots is cut"},
	{"github.com/zeebo/blake3", []string{"snapshot/pack", "snapshot"}, "only blobs of snapshots are named by it"},
	{"gopkg.in/yaml.v3", []string{"workload", "auth/credential", "api/...", "cmd/hostler", "deploy"},
		"YAML is read by the packages of workloads and bindings, and printed by the API and the command line"},
	{"golang.org/x/term", []string{"cmd/hostler"}, "only cmd/hostler has a terminal"},
	{"github.com/coder/websocket", []string{"api/..."}, "only the API speaks WebSocket"},
	{"github.com/spf13/cobra", []string{"cmd/hostler"}, "only cmd/hostler is a command line"},
	{"github.com/prometheus/client_golang", []string{"cmd/hostler", "api/..."},
		"metrics are counted where things are wired"},
	{"github.com/stretchr/testify", []string{
		"runtime/runtimetest", "store/...", "e2e/flowtest", "membership/membershiptest",
		"internal/servertest", "internal/s3test", "internal/gcstest", "snapshot/snapshottest",
	}, "only tests, and suites that tests call, may assert"},
}

// reserved are the modules of others that only some packages of ours may reach,
// also through others: they are large, and a program or a test that imports the
// rest must not link them.
var reserved = []owner{
	{"github.com/docker/docker", append([]string{"runtime/docker"}, programs...), whyEngines},
	{"k8s.io", append([]string{"runtime/kubernetes", "internal/clustertest"}, programs...), whyEngines},
	{"gocloud.dev", append([]string{"snapshot/cloud"}, programs...), whyClouds},
	{"cloud.google.com/go", append([]string{"snapshot/cloud"}, programs...), whyClouds},
	{"google.golang.org/api", append([]string{"snapshot/cloud"}, programs...), whyClouds},
	{"github.com/aws", append([]string{"snapshot/cloud"}, programs...), whyClouds},
	{"github.com/Azure", append([]string{"snapshot/cloud"}, programs...), whyClouds},
	{"golang.org/x/oauth2", append([]string{"snapshot/cloud", "hooks/request/googleauth", "auth/oidc"}, programs...), whyClouds},
	{"modernc.org/sqlite", append([]string{"store/...", "e2e/flowtest"}, programs...), whyDatabases},
	{"github.com/jackc/pgx", append([]string{"store/...", "e2e/flowtest"}, programs...), whyDatabases},
}

// Why modules are reserved.
const (
	whyEngines   = "an engine's client is linked where the engine is chosen"
	whyClouds    = "the clouds' clients are linked where a sink is opened"
	whyDatabases = "databases are linked where records are kept"
)

// programs are the packages that choose engines, sinks and databases.
var programs = []string{"cmd/hostler", "e2e/...", "benchmarks/..."}

// minimalPackages are the packages that may import nothing but the named modules of
// others and the standard library.
var minimalPackages = []owner{
	{"cmd/hostler-shim", []string{"golang.org/x/sys"}, "the shim goes into every container"},
	{"runtime/shim/...", []string{"golang.org/x/sys"}, "the shim goes into every container"},
	{"runtime", nil, "the contract of the backends stands on nothing"},
	{"runtime/tree", nil, "the contract of the backends stands on nothing"},
	{"activity", nil, "events stand on nothing"},
	{"client", nil, "programs of others import it"},
	{"hooks/lint", []string{"mvdan.cc/sh"}, "guards judge tenants' commands with it"},
	{"internal/flow", nil, "flows stand on nothing"},
	{"internal/backoff", nil, "retries stand on nothing"},
	{"internal/singleflight", nil, "shared calls stand on nothing"},
	{"internal/workqueue", nil, "queues stand on nothing"},
	{"runtime/runtimetest/box", []string{"golang.org/x/sys"}, "the program runs in empty images"},
}

// unreached are the packages that a program must not be linked with, through
// others of ours or of the standard library.
var unreached = []owner{
	{"cmd/hostler-shim", []string{"regexp", "net/http", "text/template"},
		"each process of the shim prepares what it imports: init, its workers, and the program in containers"},
}

// goroutineStarters are the packages that may say go, and why. Everywhere else a
// function either blocks or waits for what it fans out with an errgroup.
var goroutineStarters = []owner{
	{"cmd/...", nil, "commands start what runs"},
	{"store/...", nil, "the log's followers are woken by the store"},
	{"runtime/...", nil, "a backend reads streams that know no context"},
	{"hooks/request/googleauth", nil, "Google's client of the metadata server knows no context"},
}

// badNames say nothing about what is in a package.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "types",
	"model", "models", "service", "services", "manager", "misc", "base", "shared"}

// maxLines is how long a file may be; longFiles are those that may be longer.
const maxLines = 400

var longFiles = map[string]string{}

// layer is one package and what it may import of ours.
type layer struct {
	pkg  string
	uses []string
}

// owner is a package and whom it concerns, with the reason in one sentence.
type owner struct {
	pkg    string
	list   []string
	reason string
}
