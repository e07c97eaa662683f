package doctor

// Report is the result of an examination.
type Report struct {
	OK       bool       `json:"ok" doc:"Nothing is wrong."`
	Findings []Finding  `json:"findings" doc:"Errors first."`
	Engine   EngineInfo `json:"engine"`
	Database Database   `json:"database"`
	Disk     Disk       `json:"disk"`
}

// Severity is the severity of a finding.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // tenants are affected, or soon will be
	Warning Severity = "warning" // it may resolve itself, or waits for the operator
)

// Finding is one problem, with a hint how to fix it.
type Finding struct {
	Severity  Severity `json:"severity"`
	Check     string   `json:"check" doc:"The check, for programs." example:"release_failed"`
	Workload  string   `json:"workload,omitempty"`
	Container string   `json:"container,omitempty"`
	Claim     string   `json:"claim,omitempty"`
	Tenant    string   `json:"tenant,omitempty"`
	Run       string   `json:"run,omitempty"`
	Message   string   `json:"message" doc:"What is wrong, for display."`
	Hint      string   `json:"hint" doc:"How to fix it; commands are in backquotes."`
}

// EngineInfo describes the container engine.
type EngineInfo struct {
	Reachable  bool    `json:"answers"`
	Containers int     `json:"containers" doc:"The number of this installation's containers, in any state."`
	Duration   float64 `json:"duration_ms" doc:"The response time."`
}

// Database describes the database of the records.
type Database struct {
	Kind    string `json:"kind" example:"SQLite"`
	Version string `json:"version" doc:"The version of SQLite or of the database server."`
	Schema  int64  `json:"schema" doc:"The version of the schema."`
	Bytes   int64  `json:"bytes" doc:"Its size on the disk."`
}

// Disk describes the disk of the data directory.
type Disk struct {
	Path  string `json:"path"`
	Total uint64 `json:"total_bytes"`
	Free  uint64 `json:"free_bytes"`
}
