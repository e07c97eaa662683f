package activity

import (
	"encoding/json"
	"time"
)

// The data of events, one struct for all types that share it. Fields are in the
// order of their names.
type (
	// WorkloadAppliedData is the data of WorkloadApplied when the workload
	// existed before.
	WorkloadAppliedData struct {
		PreviousRevision string `json:"previous_revision" doc:"The revision before."`
		Revision         string `json:"revision" doc:"The revision since then."`
	}

	// WorkloadRejectedData is the data of WorkloadRejected.
	WorkloadRejectedData struct {
		Faults []FileFault `json:"faults" doc:"What is wrong with the file, the first of them."`
		File   string      `json:"file" doc:"Its name in the directory that the server follows."`
		More   int         `json:"more,omitempty" doc:"The number of other faults."`
	}

	// FileFault is one fault of a workload file.
	FileFault struct {
		Column  int    `json:"column,omitempty" doc:"From 1."`
		Field   string `json:"field,omitempty"`
		Hint    string `json:"hint,omitempty" doc:"What to write instead."`
		Line    int    `json:"line,omitempty" doc:"From 1."`
		Message string `json:"message"`
	}

	// WorkloadAcceptedData is the data of WorkloadAccepted.
	WorkloadAcceptedData struct {
		File string `json:"file" doc:"Its name in the directory that the server follows."`
	}

	// PoolScaledData is the data of PoolScaled.
	PoolScaledData struct {
		MaxSize         int `json:"max_size"`
		MinIdle         int `json:"min_idle"`
		PreviousMaxSize int `json:"previous_max_size"`
		PreviousMinIdle int `json:"previous_min_idle"`
	}

	// PoolWarningData is the data of PoolWarning when a container could not be
	// created.
	PoolWarningData struct {
		Chain    []string  `json:"chain,omitempty" doc:"What was being done when it failed, outermost first."`
		Failures int       `json:"failures" doc:"Consecutive failures of the revision."`
		NextTry  time.Time `json:"next_try" doc:"When the next container is created."`
		Revision string    `json:"revision"`
	}

	// ContainerClaimedData is the data of ContainerClaimed.
	ContainerClaimedData struct {
		Source string `json:"source" doc:"What the container was before: fresh, affinity or recycled."`
	}

	// SnapshotRestoredData is the data of SnapshotRestored.
	SnapshotRestoredData struct {
		Bytes    int64  `json:"bytes" doc:"Its size in the sink."`
		From     string `json:"from" doc:"The older snapshot."`
		Snapshot string `json:"snapshot" doc:"The snapshot that is current since then."`
	}

	// SnapshotImportedData is the data of SnapshotImported.
	SnapshotImportedData struct {
		Bytes    int64  `json:"bytes" doc:"Its size in the sink."`
		Files    int    `json:"files" doc:"The number of files, directories and links."`
		Snapshot string `json:"snapshot" doc:"The snapshot that is current since then."`
	}

	// SnapshotExportedData is the data of SnapshotExported.
	SnapshotExportedData struct {
		Snapshot string `json:"snapshot"`
	}

	// QuotaData is the data of QuotaChanged and QuotaRemoved: the limits that the
	// scope has, or had. -1 is no limit, and one that is omitted is the default.
	QuotaData struct {
		Claims            *int64 `json:"claims,omitempty"`
		ClaimsPerMinute   *int64 `json:"claims_per_minute,omitempty"`
		Level             string `json:"level" doc:"tenant, key or workload"`
		Name              string `json:"name"`
		RequestsPerSecond *int64 `json:"requests_per_second,omitempty"`
		State             *int64 `json:"state_bytes,omitempty"`
	}

	// ContainerDiedData is the data of ContainerDied when the main process exited.
	ContainerDiedData struct {
		ExitCode  int      `json:"exit_code"`
		OOMKilled bool     `json:"oom_killed"`
		Output    *Excerpt `json:"output,omitempty" doc:"The end of what its main process printed, for authors and operators."`
	}

	// ContainerUnhealthyData is the data of ContainerUnhealthy.
	ContainerUnhealthyData struct {
		Check  *Excerpt `json:"check,omitempty" doc:"What the health check printed, for authors and operators."`
		Output *Excerpt `json:"output,omitempty" doc:"The end of what its main process printed, for authors and operators."`
	}

	// ContainerForcedData is the data of ContainerForced.
	ContainerForcedData struct {
		Now bool `json:"now" doc:"Whether its pre_destroy hooks are skipped."`
	}

	// ContainerDestroyingData is the data of ContainerDestroying.
	ContainerDestroyingData struct {
		PreviousState string `json:"previous_state,omitempty" doc:"The container's state before: creating, idle or claimed. Omitted if it was removed without a record, and in events of older servers."`
		Reason        string `json:"reason"`
	}

	// ReasonData is the data of ContainerDestroyed and ClaimFailed.
	ReasonData struct {
		Reason string `json:"reason"`
	}

	// ClaimActivatedData is the data of ClaimActivated.
	ClaimActivatedData struct {
		Source  string             `json:"source" doc:"What the container was before: fresh, affinity or recycled."`
		Timings map[string]float64 `json:"timings" doc:"Milliseconds of each step."`
	}

	// ClaimReleasingData is the data of ClaimReleasing.
	ClaimReleasingData struct {
		Discard bool `json:"discard" doc:"Whether the container is destroyed with the tenant's files."`
	}

	// ClaimStateLostData is the data of ClaimStateLost.
	ClaimStateLostData struct {
		Error    string     `json:"error"`
		Reason   string     `json:"reason"`
		Snapshot string     `json:"snapshot" doc:"The last snapshot; empty if there is none."`
		SyncedAt *time.Time `json:"synced_at" doc:"When that was made."`
	}

	// ClaimReleasedData is the data of ClaimReleased.
	ClaimReleasedData struct {
		Activity string             `json:"activity,omitempty" doc:"What the tenant's program last reported to do. It is untrusted."`
		ExitCode *int               `json:"exit_code,omitempty" doc:"The exit code of the main process, if it ended before the release."`
		Reason   string             `json:"reason"`
		Timings  map[string]float64 `json:"timings" doc:"Milliseconds of each step."`
		Warnings []string           `json:"warnings"`
	}

	// ClaimExtendedData is the data of ClaimExtended.
	ClaimExtendedData struct {
		ByMS      int64     `json:"by_ms" doc:"By how many milliseconds the end was moved."`
		ExpiresAt time.Time `json:"expires_at" doc:"When the lifetime ends since then."`
	}

	// ClaimReleaseFailedData is the data of ClaimReleaseFailed.
	ClaimReleaseFailedData struct {
		Chain    []string   `json:"chain,omitempty" doc:"What was being done when it failed, outermost first."`
		Error    string     `json:"error"`
		Failures int        `json:"failures" doc:"Consecutive failures with this reason."`
		Reason   string     `json:"reason"`
		RetryAt  *time.Time `json:"retry_at" doc:"When the upload is tried again; null if it is not."`
	}

	// WaitData is the data of the events of waits. What the tenant wrote is untrusted.
	WaitData struct {
		Decision    string `json:"decision,omitempty" doc:"After the deadline: abort, retry, extend or escalate."`
		DurationMS  int64  `json:"duration_ms,omitempty" doc:"How long the tenant waited since the clock started, of an end and of what precedes it."`
		ExceededMS  int64  `json:"exceeded_ms,omitempty" doc:"How long after the deadline that was."`
		Iteration   string `json:"iteration,omitempty" doc:"Of the context, as far as 256 characters. It is untrusted."`
		Kind        string `json:"kind" doc:"What the tenant waits for, such as consensus. It is untrusted."`
		Name        string `json:"name,omitempty" doc:"The wait's name. It is untrusted."`
		Phase       string `json:"phase,omitempty" doc:"Of the context, as far as 256 characters. It is untrusted."`
		Reason      string `json:"reason,omitempty" doc:"Why it ended as it did."`
		Round       int    `json:"round" doc:"From 1; each extension or retry begins another."`
		Task        string `json:"task,omitempty" doc:"Of the context, as far as 256 characters. It is untrusted."`
		ThresholdMS int64  `json:"threshold_ms" doc:"The timeout of the wait."`
		TimeoutMS   int64  `json:"timeout_ms" doc:"The time from the event to the deadline where the clock starts; else the timeout of the wait."`
		Wait        string `json:"wait" doc:"The wait's id."`
	}

	// HookStartedData is the data of HookStarted and HookSkipped.
	HookStartedData struct {
		Action  string   `json:"action"`
		Attempt int      `json:"attempt"`
		Command []string `json:"command"`
		Error   string   `json:"error,omitempty" doc:"Why it was skipped."`
		Event   string   `json:"event,omitempty" doc:"The type of the event, of an event hook."`
		Hook    string   `json:"hook"`
		Index   int      `json:"index" doc:"Place in the list of the point."`
		Point   string   `json:"point"`
		Seq     int64    `json:"seq,omitempty" doc:"The place of the event in the log."`
		State   string   `json:"state"`
	}

	// HookWarningData is the data of HookWarning.
	HookWarningData struct {
		Attempt  int      `json:"attempt"`
		Event    string   `json:"event,omitempty" doc:"The type of the event, of an event hook."`
		Hook     string   `json:"hook"`
		Point    string   `json:"point"`
		Warnings []string `json:"warnings"`
	}

	// HookEndedData is the data of HookCompleted and HookFailed.
	HookEndedData struct {
		Action          string   `json:"action"`
		Attempt         int      `json:"attempt"`
		Command         []string `json:"command"`
		DurationMS      float64  `json:"duration_ms"`
		Error           string   `json:"error,omitempty"`
		Event           string   `json:"event,omitempty" doc:"The type of the event, of an event hook."`
		ExitCode        *int     `json:"exit_code,omitempty"`
		Hook            string   `json:"hook"`
		Index           int      `json:"index" doc:"Place in the list of the point."`
		Killed          bool     `json:"killed"`
		LeakedProcesses int      `json:"leaked_processes" doc:"Processes that were ended after the command."`
		Point           string   `json:"point"`
		Seq             int64    `json:"seq,omitempty" doc:"The place of the event in the log."`
		Signal          string   `json:"signal,omitempty"`
		State           string   `json:"state"`
		Stderr          Excerpt  `json:"stderr"`
		Stdout          Excerpt  `json:"stdout"`
		TimedOut        bool     `json:"timed_out"`
		TimeoutMS       float64  `json:"timeout_ms,omitempty" doc:"The timeout that passed."`
	}

	// Excerpt is what an event shows of an output.
	Excerpt struct {
		Excerpt   string `json:"excerpt"`
		Total     int64  `json:"total" doc:"Bytes that were written."`
		Truncated bool   `json:"truncated"`
	}

	// DeliveryData is the data of DeliveryRetried and DeliveryDiscarded.
	DeliveryData struct {
		Delivery string `json:"delivery"`
		Event    string `json:"event" doc:"The type of the event."`
		Hook     string `json:"hook"`
		Reason   string `json:"reason,omitempty" doc:"Why it was discarded."`
		Seq      int64  `json:"seq" doc:"The place of the event in the log."`
	}

	// DeliveryReplayedData is the data of DeliveryReplayed.
	DeliveryReplayedData struct {
		Deliveries int    `json:"deliveries" doc:"How many were added."`
		From       int64  `json:"from"`
		Hook       string `json:"hook"`
		To         int64  `json:"to"`
	}

	// SyncStartedData is the data of SyncStarted.
	SyncStartedData struct {
		Direction string `json:"direction" doc:"upload or download."`
	}

	// SyncProgressedData is the data of SyncProgressed.
	SyncProgressedData struct {
		Direction        string `json:"direction" doc:"upload or download."`
		TransferredBytes int64  `json:"transferred_bytes" doc:"Bytes sent to the sink, or received from it, so far."`
	}

	// SyncEndedData is the data of SyncCompleted and SyncFailed.
	SyncEndedData struct {
		Bytes         int64   `json:"bytes" doc:"Of the whole state."`
		Direction     string  `json:"direction" doc:"upload or download."`
		DurationMS    float64 `json:"duration_ms"`
		Error         string  `json:"error,omitempty"`
		Files         int     `json:"files" doc:"Of the whole state, with directories and links."`
		MovedBytes    int64   `json:"moved_bytes" doc:"Of the files that were read from the container, or written into it. The others were there already."`
		MovedFiles    int     `json:"moved_files" doc:"How many files were read from the container, or written into it."`
		Snapshot      string  `json:"snapshot"`
		Unchanged     bool    `json:"unchanged"`
		UploadedBytes int64   `json:"uploaded_bytes" doc:"Bytes sent to the sink, or received from it."`
	}

	// AgentActivityChangedData is the data of AgentActivityChanged. It is untrusted.
	AgentActivityChangedData struct {
		Activity         string `json:"activity"`
		PreviousActivity string `json:"previous_activity,omitempty"`
		Task             string `json:"task,omitempty" doc:"What the program works on."`
		ToolName         string `json:"tool_name,omitempty" doc:"The tool that it uses."`
	}
)

// newData returns a pointer to an empty struct of the data of each type. A nil
// function stands for a type whose events have no data.
var newData = map[Type]func() any{
	WorkloadApplied: func() any { return new(WorkloadAppliedData) },
	WorkloadDeleted: nil,

	WorkloadRejected: func() any { return new(WorkloadRejectedData) },
	WorkloadAccepted: func() any { return new(WorkloadAcceptedData) },

	PoolCreated:   nil,
	PoolScaled:    func() any { return new(PoolScaledData) },
	PoolDrained:   nil,
	PoolWarning:   func() any { return new(PoolWarningData) },
	PoolRecovered: nil,
	PoolDestroyed: nil,

	ContainerCreating:    nil,
	ContainerCreated:     nil,
	ContainerClaimed:     func() any { return new(ContainerClaimedData) },
	ContainerWiped:       nil,
	ContainerReleased:    nil,
	ContainerUnhealthy:   func() any { return new(ContainerUnhealthyData) },
	ContainerReached:     nil,
	ContainerTerminating: nil,
	ContainerDied:        func() any { return new(ContainerDiedData) },
	ContainerForced:      func() any { return new(ContainerForcedData) },
	ContainerDestroying:  func() any { return new(ContainerDestroyingData) },
	ContainerDestroyed:   func() any { return new(ReasonData) },

	QuotaChanged: func() any { return new(QuotaData) },
	QuotaRemoved: func() any { return new(QuotaData) },

	SnapshotRestored: func() any { return new(SnapshotRestoredData) },
	SnapshotImported: func() any { return new(SnapshotImportedData) },
	SnapshotExported: func() any { return new(SnapshotExportedData) },

	ClaimRequested:     nil,
	ClaimActivated:     func() any { return new(ClaimActivatedData) },
	ClaimFailed:        func() any { return new(ReasonData) },
	ClaimReleasing:     func() any { return new(ClaimReleasingData) },
	ClaimDiscarded:     nil,
	ClaimStateLost:     func() any { return new(ClaimStateLostData) },
	ClaimReleased:      func() any { return new(ClaimReleasedData) },
	ClaimExtended:      func() any { return new(ClaimExtendedData) },
	ClaimReleaseFailed: func() any { return new(ClaimReleaseFailedData) },

	WaitRequested:      newWaitData,
	WaitStarted:        newWaitData,
	WaitSignalReceived: newWaitData,
	WaitSignalled:      newWaitData,
	WaitExpired:        newWaitData,
	WaitExtended:       newWaitData,
	WaitRetried:        newWaitData,
	WaitTimedOut:       newWaitData,
	WaitEscalated:      newWaitData,
	WaitAborted:        newWaitData,
	WaitCancelled:      newWaitData,

	HookStarted:   func() any { return new(HookStartedData) },
	HookCompleted: func() any { return new(HookEndedData) },
	HookFailed:    func() any { return new(HookEndedData) },
	HookSkipped:   func() any { return new(HookStartedData) },
	HookWarning:   func() any { return new(HookWarningData) },

	DeliveryRetried:   func() any { return new(DeliveryData) },
	DeliveryReplayed:  func() any { return new(DeliveryReplayedData) },
	DeliveryDiscarded: func() any { return new(DeliveryData) },

	SyncStarted:    func() any { return new(SyncStartedData) },
	SyncProgressed: func() any { return new(SyncProgressedData) },
	SyncCompleted:  func() any { return new(SyncEndedData) },
	SyncFailed:     func() any { return new(SyncEndedData) },

	ExecStarted:      func() any { return new(ExecStartedData) },
	ExecCompleted:    func() any { return new(ExecEndedData) },
	ExecFailed:       func() any { return new(ExecEndedData) },
	AccessDenied:     func() any { return new(AccessDeniedData) },
	FileRead:         newFileUsedData,
	FileWritten:      newFileUsedData,
	FileRemoved:      newFileUsedData,
	RequestCompleted: func() any { return new(RequestCompletedData) },

	AgentActivityChanged: func() any { return new(AgentActivityChangedData) },

	KeyCreated:     func() any { return new(KeyCreatedData) },
	KeyRevoked:     func() any { return new(KeyRevokedData) },
	TokenCreated:   func() any { return new(TokenCreatedData) },
	BindingApplied: func() any { return new(BindingAppliedData) },
	BindingDeleted: func() any { return new(BindingDeletedData) },
}

func newWaitData() any { return new(WaitData) }

// NewData returns a pointer to an empty struct for the data of a type's events,
// or nil if they have none. An event may lack the data that its type can have.
func NewData(t Type) any {
	if f := newData[t]; f != nil {
		return f()
	}
	return nil
}

// Data encodes the data of an event, one of the structs of NewData. It panics
// if it cannot be encoded: it consists of text and numbers, so an error is a bug.
func Data(data any) json.RawMessage {
	b, err := json.Marshal(data)
	if err != nil {
		panic("activity: data is not valid JSON: " + err.Error())
	}
	return b
}
