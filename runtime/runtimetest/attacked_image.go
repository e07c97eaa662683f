package runtimetest

import (
	"archive/tar"
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The non-root user of attacked containers, and content that only root may read
// in them.
const (
	otherUser = 1001
	rootOnly  = "only root may read this"
)

// AttackedRootfs returns the image of containers under attack as a tar stream: the
// tenant's program and files of its user, as an image's author would add them
// with COPY --chown, and files that belong to root.
func AttackedRootfs(t testing.TB, user int) []byte {
	t.Helper()
	program, err := os.ReadFile(BuildAttacker(t))
	require.NoError(t, err)
	files := []struct {
		name, body string
		mode       int64
		owner      int
		link       bool
	}{
		{"app/", "", 0o755, user, false},
		{"app/server", string(program), 0o755, user, false},
		{"app/motd", strings.Repeat("a line of the image\n", 1000), 0o644, user, false},
		{"app/conf/", "", 0o755, user, false},
		{"app/conf/default", "of the image\n", 0o644, user, false},
		{"app/other/", "", 0o755, user, false},
		{"app/link", "conf/default", 0o777, user, true},
		{"attacker", string(program), 0o755, 0, false},
		{"etc/", "", 0o755, 0, false},
		{"etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nalice:x:1001:1001::/home/alice:/sbin/nologin\n", 0o644, 0, false},
		{"etc/group", "root:x:0:\nalice:x:1001:\nstaff:x:50:alice\n", 0o644, 0, false},
		{"home/alice/", "", 0o755, user, false},
		{"root/", "", 0o700, 0, false},
		{"rootonly/", "", 0o700, 0, false},
		{"rootonly/key", rootOnly, 0o600, 0, false},
		{"usr/local/sbin/", "", 0o755, 0, false},
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{
			Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.body)),
			Typeflag: tar.TypeReg, ModTime: time.Unix(1700000000, 0),
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if f.link {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.body, 0
		}
		require.NoError(t, w.WriteHeader(h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write([]byte(f.body))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}
