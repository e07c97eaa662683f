package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// Real trees change at random, and servers are killed at random places: what is
// restored is what was, with contents, holes, modes, owners, times and links.
func TestRestoredIsWhatWas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := newPropertyTest(t, seed)
			for range 8 {
				p.step()
			}
		})
	}
}

// propertyTest is one tenant whose state changes.
type propertyTest struct {
	*processHarness
	r      *rand.Rand
	bucket *snapshottest.Memory
	source held
	kept   map[string]string // what the current snapshot has; nil when there is none
}

// held is a container and the snapshot that it holds.
type held struct{ id, dir, snapshot string }

func newPropertyTest(t *testing.T, seed uint64) *propertyTest {
	p := &propertyTest{processHarness: newProcessHarness(t), r: rand.New(rand.NewPCG(seed, 1)), bucket: snapshottest.NewMemory()}
	p.sink = snapshot.New(p.bucket, synced(t, ""))
	p.source = p.newContainer()
	return p
}

func (p *propertyTest) newContainer() held {
	id, dir := p.container()
	return held{id: id, dir: dir}
}

// step changes the tree, uploads it, and restores it into a new container and
// into one that holds another snapshot.
func (p *propertyTest) step() {
	for range 1 + p.r.IntN(25) {
		p.change(p.source.dir)
	}
	was := p.describe(p.source.dir)
	if p.r.IntN(2) == 0 {
		p.interrupt(was)
	}
	p.source.snapshot = p.upload(p.source.id).Snapshot.ID
	p.kept = was
	to := p.restore(p.newContainer())
	switch p.r.IntN(3) {
	case 0:
		p.source, to = to, p.source
	case 1:
		for range p.r.IntN(10) {
			p.change(to.dir)
		}
		p.restore(to)
	}
}

// interrupt uploads with a server that is killed at any byte or call.
func (p *propertyTest) interrupt(was map[string]string) {
	p.bucket.FailAfter(p.r.IntN(1 << p.r.IntN(20)))
	_, err := p.sink.Upload(p.Context(), p.rt, snapshot.Origin{Owner: p.owner(), Container: p.source.id, Fence: 1})
	p.bucket.ClearFailures()
	if err == nil {
		p.kept = was
	}
	to := p.newContainer()
	got, err := p.sink.Download(p.Context(), p.rt, snapshot.Destination{Owner: p.owner(), Container: to.id})
	require.NoError(p, err)
	if found := p.describe(to.dir); got.Snapshot.ID != "" && !equalTrees(found, p.kept) {
		require.Equal(p, was, found)
	}
}

// restore downloads the current snapshot, sometimes after a download that is
// killed, whose container is then given up.
func (p *propertyTest) restore(to held) held {
	destination := snapshot.Destination{Owner: p.owner(), Container: to.id, Holds: to.snapshot}
	if p.r.IntN(3) == 0 {
		p.bucket.FailAfter(p.r.IntN(1 << p.r.IntN(20)))
		_, err := p.sink.Download(p.Context(), p.rt, destination)
		p.bucket.ClearFailures()
		if err != nil {
			to = p.newContainer()
			destination.Container, destination.Holds = to.id, ""
		}
	}
	got, err := p.sink.Download(p.Context(), p.rt, destination)
	require.NoError(p, err)
	require.Equal(p, p.kept, p.describe(to.dir))
	to.snapshot = got.Snapshot.ID
	return to
}

func equalTrees(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// describe returns what a tree has, by path.
func (p *propertyTest) describe(dir string) map[string]string {
	p.Helper()
	all := map[string]string{}
	require.NoError(p, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t) //nolint:errcheck,forcetypeassert // it is, on Linux
		is := fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			is += " -> " + target
		case info.Mode().IsRegular():
			body, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			is += fmt.Sprintf(" %d %d %x", info.Size(), info.ModTime().UnixNano(), sha256.Sum256(body))
			if len(body) > 2<<20 && len(bytes.Trim(body, "\x00")) < 1<<20 {
				require.Less(p, st.Blocks*512, int64(len(body)), "%s has its holes", name)
			}
		}
		all[name[len(dir):]] = is
		return nil
	}))
	return all
}

// change makes one random change below a directory.
func (p *propertyTest) change(dir string) {
	p.Helper()
	changes := []func(name string) error{
		p.write, p.write, p.write, p.patch, p.patch, p.mkdir, p.link, p.remove, p.rename, p.attributes, p.attributes,
	}
	name := p.name(dir)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return // one of them is a file
	}
	_ = changes[p.r.IntN(len(changes))](name) // some are not possible
}

// name returns one of a few names.
func (p *propertyTest) name(dir string) string {
	for range p.r.IntN(3) {
		dir = filepath.Join(dir, []string{"d", "d.x", "e", "a b", "\xff"}[p.r.IntN(5)])
	}
	return filepath.Join(dir, fmt.Sprint("n", p.r.IntN(12)))
}

func (p *propertyTest) body() []byte {
	size := []int{0, 10, 5_000, 300_000, 3 << 20}[p.r.IntN(5)]
	body := make([]byte, p.r.IntN(size+1))
	if p.r.IntN(3) == 0 {
		return bytes.Repeat([]byte("text"), len(body)/4)
	}
	var key [32]byte
	key[0], key[1] = byte(p.r.IntN(256)), byte(p.r.IntN(256))
	_, _ = rand.NewChaCha8(key).Read(body)
	return body
}

func (p *propertyTest) write(name string) error { return os.WriteFile(name, p.body(), 0o644) }

// patch writes somewhere into a file, or behind its end, so that there is a hole.
func (p *propertyTest) patch(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if p.r.IntN(4) == 0 {
		return f.Truncate(p.r.Int64N(6 << 20))
	}
	body := p.body()
	_, err = f.WriteAt(body[:min(len(body), 1000)], p.r.Int64N(6<<20))
	return err
}

func (p *propertyTest) mkdir(name string) error { return os.Mkdir(name, 0o750) }

func (p *propertyTest) link(name string) error {
	return os.Symlink([]string{"n1", "gone/nowhere", "../..", "d"}[p.r.IntN(4)], name)
}

func (p *propertyTest) remove(name string) error { return os.RemoveAll(name) }

// rename gives a file or directory another name, also that of an existing one. So
// two directories can change places.
func (p *propertyTest) rename(name string) error {
	all, err := filepath.Glob(filepath.Join(filepath.Dir(name), "*"))
	if err != nil || len(all) == 0 {
		return err
	}
	slices.Sort(all)
	return os.Rename(all[p.r.IntN(len(all))], name)
}

// attributes changes what is not content.
func (p *propertyTest) attributes(name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(name, p.r.IntN(3)*1000, p.r.IntN(3)*1000); err != nil {
			return err
		}
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	if err := os.Chmod(name, fs.FileMode(0o700|p.r.IntN(0o100))); err != nil {
		return err
	}
	at := time.Unix(1_500_000_000+p.r.Int64N(100), p.r.Int64N(1_000_000_000))
	return os.Chtimes(name, at, at)
}
