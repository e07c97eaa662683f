package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// VerifyProgress is how far a verification is.
type VerifyProgress struct {
	Snapshot string `json:"snapshot"` // that is being checked
	Files    int    `json:"files"`    // so far
	Bytes    int64  `json:"bytes"`    // their size
	Of       int64  `json:"total_bytes"`
	Read     int64  `json:"read_bytes"` // from the sink
}

// Verification is the result of checking snapshots.
type Verification struct {
	OK        bool     `json:"ok"` // nothing is damaged
	Snapshots int      `json:"snapshots"`
	Files     int      `json:"files"`
	Bytes     int64    `json:"bytes"`
	Objects   int      `json:"objects"` // in the sink
	Requests  int      `json:"requests"`
	Read      int64    `json:"read_bytes"`
	Damaged   int      `json:"damaged"` // how many damages there are
	Damages   []Damage `json:"damages"` // the first 100
}

// Damage is an object in the sink that is not what was stored, and what it means for a
// snapshot.
type Damage struct {
	Object   string   `json:"object"`
	Snapshot string   `json:"snapshot"`
	Problem  string   `json:"problem"`
	Files    int      `json:"files"` // that are not what they were
	Paths    []string `json:"paths"` // of the first 100; a damaged index has none
}

// AllSnapshots is the id of all snapshots of a verification, and CurrentSnapshot that of
// the current one of an export.
const (
	AllSnapshots    = "all"
	CurrentSnapshot = "current"
)

// snapshotPath returns the path of an operation on a tenant's snapshot.
func snapshotPath(workload, id, operation string) string {
	return path("/v1/workloads", workload) + path("/snapshots", id) + operation
}

// VerifySnapshots reads and checks a snapshot, or all that are kept for "" and
// AllSnapshots. Damage is no error. The function progress, if set, is called about
// once a second.
func (c *Client) VerifySnapshots(ctx context.Context, workload, tenant, id string, progress func(VerifyProgress)) (Verification, error) {
	resp, err := c.do(ctx, call{
		method: http.MethodPost, path: snapshotPath(workload, cmp.Or(id, AllSnapshots), "/verify"), query: values("tenant", tenant),
	})
	if err != nil {
		return Verification{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxVerifyLine)
	for lines.Scan() {
		var line struct {
			Progress *VerifyProgress `json:"progress"`
			Result   *Verification   `json:"result"`
			Error    *Error          `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return Verification{}, fmt.Errorf("read the answer of %s: %w", c.name, err)
		}
		switch {
		case line.Result != nil:
			return *line.Result, nil
		case line.Error != nil:
			return Verification{}, line.Error
		case line.Progress != nil && progress != nil:
			progress(*line.Progress)
		}
	}
	return Verification{}, fmt.Errorf("%w: the connection to %s ended before the result: %w", ErrNoResponse, c.name, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// maxVerifyLine bounds a line of a verification. The result has up to 1 MiB of paths,
// which JSON may make six times as long.
const maxVerifyLine = 16 << 20

// ExportSnapshot returns a tar of a snapshot, or of the current one for "" and
// CurrentSnapshot, and the id of the snapshot. Reading returns io.EOF only after its
// end. Nothing in it is to be trusted: a tenant's program can put any link there. The
// caller closes it.
func (c *Client) ExportSnapshot(ctx context.Context, workload, tenant, id string) (io.ReadCloser, string, error) {
	resp, err := c.do(ctx, call{
		method: http.MethodGet, path: snapshotPath(workload, cmp.Or(id, CurrentSnapshot), "/export"), query: values("tenant", tenant),
	})
	if err != nil {
		return nil, "", err
	}
	return resp.Body, resp.Header.Get("Hostler-Snapshot"), nil
}

// ImportSnapshot makes a tar the tenant's current snapshot. The tenant must have no
// claim. It is not repeated when the connection breaks, and the server has then the
// former snapshot, or the new one.
func (c *Client) ImportSnapshot(ctx context.Context, workload, tenant string, archive io.Reader) (Snapshot, error) {
	out, _, err := doJSON[Snapshot](ctx, c, call{
		method: http.MethodPost, path: path("/v1/workloads", workload) + "/snapshots/import", query: values("tenant", tenant),
		content: archive, noRetry: true, header: http.Header{"Content-Type": {"application/x-tar"}},
	})
	return out, err
}
