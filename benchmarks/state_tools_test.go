package benchmarks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/s3test"
)

// syncDisks writes back what was changed before an operation is measured, so
// that no operation pays for another one.
func syncDisks() { syscall.Sync() }

// stateSystem is a system that keeps a directory of files. Each method measures
// one operation, by the column of the table.
type stateSystem interface {
	label() string
	// begin creates the files.
	begin(b *testing.B, files, total int)
	// change rewrites every step-th file.
	change(b *testing.B, step int)
	// upload stores the files.
	upload(b *testing.B, first bool) columns
	// download restores them where there are none.
	download(b *testing.B) columns
	// downloadChanged restores a state into the directory of the last download, 1 %
	// of whose files differ.
	downloadChanged(b *testing.B) columns
	// stored returns the directory with all that is stored.
	stored() string
	// end removes everything.
	end(b *testing.B)
}

// columns are measured times by the name of their column.
type columns map[string]time.Duration

// hostlerState measures a server through its API.
type hostlerState struct {
	server *stateServer
	next   *stateServer // of another installation with the same sink
	tenant *stateTenant
	files  *stateFiles
	reused string // where the container of the last row was from
}

func (h *hostlerState) columns(took time.Duration) columns {
	return columns{h.server.label: took, h.server.label + " transfer": h.tenant.synced}
}

func (h *hostlerState) begin(b *testing.B, files, total int) {
	b.Helper()
	h.tenant = newStateTenant(b, h.server)
	h.files = newStateFiles(h.tenant.dir, files, total)
	h.files.create(b)
}

func (h *hostlerState) change(b *testing.B, step int) { b.Helper(); h.files.rewrite(b, step) }

func (h *hostlerState) upload(b *testing.B, _ bool) columns {
	b.Helper()
	out := h.columns(h.tenant.release(b))
	h.tenant.take(b, client.SourceAffinity)
	return out
}

// download claims from a server that has not seen the tenant, as after the loss of a
// machine. The last container is removed later: an ext4 without a journal, on which a
// new file costs a look at the files that were deleted lately, would measure that.
func (h *hostlerState) download(b *testing.B) columns {
	b.Helper()
	h.tenant.release(b)
	last := h.tenant.claim.Container
	h.tenant.stateServer = h.next
	out := h.columns(h.tenant.take(b, client.SourceFresh))
	h.files.dir = h.tenant.dir
	h.files.verify(b, h.tenant.dir)
	_, err := h.server.DestroyContainerNow(b.Context(), last, false)
	require.NoError(b, err)
	return out
}

// downloadChanged makes the last snapshot but one current again, while the
// container holds the last one.
func (h *hostlerState) downloadChanged(b *testing.B) columns {
	b.Helper()
	before := h.files.clone()
	h.files.rewrite(b, onePercent)
	last := h.tenant.claim.Container
	h.tenant.release(b)
	all, err := h.tenant.Snapshots(b.Context(), "kept", h.tenant.id)
	require.NoError(b, err)
	_, err = h.tenant.Restore(b.Context(), "kept", h.tenant.id, all[1].ID)
	require.NoError(b, err)
	out := h.columns(h.tenant.take(b, ""))
	before.verify(b, h.tenant.dir)
	h.reused = string(h.tenant.claim.Source)
	if h.tenant.claim.Container != last {
		h.reused += ", because the last one was destroyed: " + h.tenant.whyDestroyed(b, last)
	}
	return out
}

func (h *hostlerState) label() string    { return h.server.label }
func (h *hostlerState) stored() string   { return h.tenant.stored() }
func (h *hostlerState) end(b *testing.B) { b.Helper(); h.tenant.end(b) }

// toolState measures a program that copies directories.
type toolState struct {
	name     string
	sink     stateSink
	env      []string
	up, down func(t *toolState) []string // command lines
	inits    func(t *toolState) []string // or nil

	work, path string // a directory of its own; where it stores below the sink
	files      *stateFiles
}

// newStateTools returns those of rclone and restic that this machine has.
func newStateTools(b *testing.B, sink stateSink) (found []stateSystem) {
	b.Helper()
	work := benchDirectory(b)
	password := filepath.Join(work, "password")
	require.NoError(b, os.WriteFile(password, []byte("of the benchmarks\n"), 0o600))
	// Of this process's environment they get no more: AWS_CA_BUNDLE, for one,
	// breaks rclone.
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + work,
		"RCLONE_CONFIG=" + os.DevNull, "RCLONE_CONFIG_S_TYPE=s3", "RCLONE_CONFIG_S_PROVIDER=Other", "RCLONE_CONFIG_S_ENDPOINT=" + sink.endpoint,
		"RCLONE_CONFIG_S_ACCESS_KEY_ID=" + s3test.Key, "RCLONE_CONFIG_S_SECRET_ACCESS_KEY=" + s3test.Secret,
		"AWS_ACCESS_KEY_ID=" + s3test.Key, "AWS_SECRET_ACCESS_KEY=" + s3test.Secret,
		"RESTIC_CACHE_DIR=" + filepath.Join(work, "cache"), "RESTIC_PASSWORD_FILE=" + password,
	}
	rclone := func(args ...string) []string { return append([]string{"rclone", "sync", "--transfers", "4"}, args...) }
	restic := func(t *toolState, args ...string) []string {
		repository := filepath.Join(sink.dir, t.path)
		if sink.endpoint != "" {
			repository = "s3:" + sink.endpoint + "/" + s3test.Bucket + "/" + t.path
		}
		return append([]string{"restic", "--quiet", "--password-file", password, "-r", repository}, args...)
	}
	remote := func(t *toolState) string {
		if sink.endpoint != "" {
			return "S:" + s3test.Bucket + "/" + t.path
		}
		return filepath.Join(sink.dir, t.path)
	}
	for _, t := range []*toolState{
		{
			name: "rclone",
			up:   func(t *toolState) []string { return rclone(t.files.dir, remote(t)) },
			down: func(t *toolState) []string { return rclone(remote(t), t.back()) },
		},
		{
			name:  "restic",
			inits: func(t *toolState) []string { return restic(t, "init") },
			up:    func(t *toolState) []string { return restic(t, "backup", ".") },
			down:  func(t *toolState) []string { return restic(t, "restore", "latest", "--target", t.back()) },
		},
	} {
		if _, err := exec.LookPath(t.name); err != nil {
			fmt.Printf("%s is not installed: its columns are left out\n", t.name)
			continue
		}
		t.sink, t.env, t.work, t.path = sink, env, filepath.Join(work, t.name), t.name
		found = append(found, t)
	}
	return found
}

// back is where downloads go.
func (t *toolState) back() string { return filepath.Join(t.work, "back") }

// run runs a command line in the directory of the files.
func (t *toolState) run(b *testing.B, line []string) columns {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), line[0], line[1:]...)
	cmd.Dir, cmd.Env = t.files.dir, t.env
	syncDisks()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	require.NoError(b, err, "%s: %s", line, out)
	return columns{t.name: took}
}

func (t *toolState) begin(b *testing.B, files, total int) {
	b.Helper()
	t.files = newStateFiles(filepath.Join(t.work, "files"), files, total)
	t.files.create(b)
	if t.inits != nil {
		t.run(b, t.inits(t))
	}
}

func (t *toolState) change(b *testing.B, step int) { b.Helper(); t.files.rewrite(b, step) }

// upload also measures a write back of what was stored for the first time, where
// that is in a directory: rclone does not wait for the disk.
func (t *toolState) upload(b *testing.B, first bool) columns {
	b.Helper()
	out := t.run(b, t.up(t))
	if first && t.name == "rclone" && t.sink.endpoint == "" {
		took := t.files.flush(b, t.stored())
		out["rclone + sync -f"] = out[t.name] + took
	}
	return out
}

// flush writes back the filesystem of a directory, and returns how long it takes.
func (s *stateFiles) flush(b *testing.B, dir string) time.Duration {
	b.Helper()
	return timed(b, exec.CommandContext(b.Context(), "sync", "-f", dir).Run)
}

func (t *toolState) download(b *testing.B) columns {
	b.Helper()
	require.NoError(b, os.MkdirAll(t.back(), 0o755))
	out := t.run(b, t.down(t))
	t.files.verify(b, t.back())
	return out
}

func (t *toolState) downloadChanged(b *testing.B) columns {
	b.Helper()
	t.files.rewrite(b, onePercent)
	t.run(b, t.up(t))
	out := t.run(b, t.down(t))
	t.files.verify(b, t.back())
	return out
}

func (t *toolState) label() string  { return t.name }
func (t *toolState) stored() string { return filepath.Join(t.sink.dir, t.path) }

func (t *toolState) end(b *testing.B) {
	b.Helper()
	require.NoError(b, os.RemoveAll(t.stored()))
	require.NoError(b, os.RemoveAll(t.work))
}
