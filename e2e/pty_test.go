package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/internal/testenv"
)

// pty is a terminal, and the side that types and reads.
type pty struct {
	t        *testing.T
	keys     *os.File
	terminal *os.File
	seen     strings.Builder
}

// openPTY opens a terminal of a size.
func openPTY(t *testing.T, rows, columns uint16) *pty {
	t.Helper()
	// Not blocking, so that reads have deadlines.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	keys := os.NewFile(uintptr(fd), "ptmx")
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { keys.Close(); terminal.Close() })
	p := &pty{t: t, keys: keys, terminal: terminal}
	p.resize(rows, columns)
	return p
}

func (p *pty) resize(rows, columns uint16) {
	p.t.Helper()
	require.NoError(p.t, unix.IoctlSetWinsize(int(p.terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

// await reads until a text was shown, and forgets what was before it.
func (p *pty) await(text string) {
	p.t.Helper()
	buf := make([]byte, 4096)
	for {
		if _, rest, found := strings.Cut(p.seen.String(), text); found {
			p.seen.Reset()
			p.seen.WriteString(rest)
			return
		}
		n, err := p.keys.Read(buf)
		require.NoError(p.t, err, "waiting for %q, after %q", text, p.seen.String())
		p.seen.Write(buf[:n])
	}
}

// awaitRaw waits until the program in the terminal is passed each key as it is. A
// terminal takes some of the keys that are typed before for itself.
func (p *pty) awaitRaw() {
	p.t.Helper()
	testenv.AwaitTrue(p.t, "the terminal's raw mode", func() bool {
		mode, err := unix.IoctlGetTermios(int(p.terminal.Fd()), unix.TCGETS)
		return err == nil && mode.Lflag&unix.ICANON == 0
	})
}
