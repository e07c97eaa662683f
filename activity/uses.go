package activity

// The subjects of what tenants do with their containers.
const (
	ExecSubject    = "exec"
	FileSubject    = "file"
	RequestSubject = "request"
)

// UseSubjects returns the subjects of what tenants do with their containers.
func UseSubjects() []string { return []string{ExecSubject, FileSubject, RequestSubject} }

// IsUse reports whether events of a type record what a tenant does with its
// container. Hostler records them, but a tenant decides how many there are.
func IsUse(t Type) bool {
	switch t {
	case ExecStarted, ExecCompleted, ExecFailed, FileRead, FileWritten, FileRemoved, RequestCompleted:
		return true
	}
	return false
}

// The data of what tenants do with their containers. No argument, variable, query,
// header or content is in it.
type (
	// ExecStartedData is the data of ExecStarted.
	ExecStartedData struct {
		Command  string `json:"command" doc:"The command's id."`
		Omitted  int64  `json:"omitted,omitempty" doc:"How many commands of the claim before this one are not in the log, because there were too many."`
		Program  string `json:"program" doc:"The name of the program without its directory, as far as 64 characters. It is untrusted."`
		Terminal bool   `json:"terminal" doc:"Whether it has a terminal."`
	}

	// ExecEndedData is the data of ExecCompleted and ExecFailed.
	ExecEndedData struct {
		Command    string  `json:"command" doc:"The command's id."`
		DurationMS float64 `json:"duration_ms" doc:"How long it ran, or how long it was recorded as running."`
		ExitCode   *int    `json:"exit_code,omitempty" doc:"Its exit code, or 128 and the number of its signal. Omitted if it did not run or its outcome is unknown."`
		Output     int64   `json:"output" doc:"Bytes of output."`
		Program    string  `json:"program" doc:"The name of the program without its directory, as far as 64 characters. It is untrusted."`
		Reason     string  `json:"reason,omitempty" doc:"Why there is no exit code."`
		Signal     string  `json:"signal,omitempty" doc:"The signal that ended it."`
		Terminal   bool    `json:"terminal" doc:"Whether it had a terminal."`
		TimedOut   bool    `json:"timed_out" doc:"Whether its timeout ended it."`
	}

	// FileUsedData is the data of FileRead, FileWritten and FileRemoved.
	FileUsedData struct {
		Bytes   int64  `json:"bytes" doc:"Bytes that were read or written."`
		Omitted int64  `json:"omitted,omitempty" doc:"How many uses of files of the claim before this one are not in the log, because there were too many."`
		Path    string `json:"path" doc:"The path as the tenant gave it, as far as 512 bytes. It is untrusted."`
	}

	// AccessDeniedData is the data of AccessDenied.
	AccessDeniedData struct {
		Omitted   int64  `json:"omitted,omitempty" doc:"How many requests of the same sender were refused before this one and are not in the log."`
		Operation string `json:"operation,omitempty" doc:"The operation of the API."`
		Reason    string `json:"reason" doc:"role: the credential has no role for the operation. scope: it is for other tenants, workloads or claims. credential: it is not accepted."`
	}

	// RequestCompletedData is the data of RequestCompleted.
	RequestCompletedData struct {
		DurationMS float64 `json:"duration_ms"`
		Method     string  `json:"method,omitempty" doc:"The method of HTTP, as far as 16 characters. Omitted of a connection. It is untrusted."`
		Omitted    int64   `json:"omitted,omitempty" doc:"How many requests to ports of the claim before this one are not in the log, because there were too many."`
		Port       int     `json:"port"`
		Received   int64   `json:"received" doc:"Bytes that the port answered."`
		Sent       int64   `json:"sent" doc:"Bytes that were sent to the port."`
		Status     int     `json:"status,omitempty" doc:"The status of HTTP. Omitted of a connection."`
	}
)

func newFileUsedData() any { return new(FileUsedData) }
