package doctor

// Report is what an examination has found.
type Report struct {
	OK       bool       `json:"ok" doc:"Nothing is wrong."`
	Findings []Finding  `json:"findings" doc:"Errors first."`
	Engine   EngineInfo `json:"engine"`
	Database Database   `json:"database"`
	Disk     Disk       `json:"disk"`
}

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // somebody is not served, or soon will not be
	Warning Severity = "warning" // it may mend itself, or waits for somebody
)

// Finding is one thing that is wrong, with what to do about it.
type Finding struct {
	Severity  Severity `json:"severity"`
	Check     string   `json:"check" doc:"What was looked at, for programs." example:"release_failed"`
	Workload  string   `json:"workload,omitempty"`
	Container string   `json:"container,omitempty"`
	Claim     string   `json:"claim,omitempty"`
	Tenant    string   `json:"tenant,omitempty"`
	Run       string   `json:"run,omitempty"`
	Message   string   `json:"message" doc:"What is wrong, for people."`
	Hint      string   `json:"hint" doc:"What to do about it; what to type is in backquotes."`
}

// EngineInfo are what the engine says of itself.
type EngineInfo struct {
	Reachable  bool    `json:"answers"`
	Containers int     `json:"containers" doc:"How many of this installation's it has, in any state."`
	Duration   float64 `json:"duration_ms" doc:"How long it took to say so."`
}

// Database is where the records are.
type Database struct {
	Kind    string `json:"kind" example:"SQLite"`
	Version string `json:"version" doc:"Of SQLite or of the database's server."`
	Schema  int64  `json:"schema" doc:"Of its tables."`
	Bytes   int64  `json:"bytes" doc:"What it takes on the disk."`
}

// Disk is the one with the data directory.
type Disk struct {
	Path  string `json:"path"`
	Total uint64 `json:"total_bytes"`
	Free  uint64 `json:"free_bytes"`
}
