package snapshot_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// randomTree returns files in a few directories, of a few names.
func randomTree(noise *rand.Rand, keep func(string) bool) []stateFile {
	all := map[string]stateFile{}
	names := []string{"a", "b.json", "c", "d.json", "a-"}
	for range noise.IntN(25) {
		parts := make([]string, 1+noise.IntN(3))
		for i := range parts {
			parts[i] = names[noise.IntN(len(names))]
		}
		p := strings.Join(parts, "/")
		if !keep(p) {
			continue
		}
		f := []stateFile{fileOf(p, fmt.Sprint(noise.IntN(3))), dirOf(p), linkOf(p, fmt.Sprint(noise.IntN(2)))}[noise.IntN(3)]
		if noise.IntN(4) == 0 && f.Kind != tree.Link {
			f.Mode = 0o700
		}
		blocked := false
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			blocked = blocked || all[dir].Kind != 0 && all[dir].Kind != tree.Dir
		}
		for other := range all {
			blocked = blocked || f.Kind != tree.Dir && strings.HasPrefix(other, p+"/")
		}
		if blocked {
			continue
		}
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if _, is := all[dir]; !is {
				all[dir] = dirOf(dir)
			}
		}
		all[p] = f
	}
	files := slices.Collect(maps.Values(all))
	slices.SortFunc(files, func(a, b stateFile) int { return tree.Compare(a.Path, b.Path) })
	return files
}

// after returns what a container has to have when it had before, and files are
// downloaded to it by a mapping that matches some paths.
func after(before listing, files []stateFile, matches func(string) bool) listing {
	now := expected(files)
	kind := func(l listing, p string) byte { return l[p][0] }
	for p, is := range before {
		_, there := now[p]
		stays := !there && !matches(p)
		if !there && matches(p) && is[0] == byte(tree.Dir) {
			for below := range before {
				stays = stays || strings.HasPrefix(below, p+"/") && !matches(below)
			}
		}
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			_, known := expected(files)[dir]
			stays = stays && !(known && kind(expected(files), dir) != byte(tree.Dir))
		}
		if stays {
			now[p] = is
		}
	}
	return now
}

// A container with random files gets a random state, by each sort of pattern.
func TestDownloadRandomDifferences(t *testing.T) {
	t.Parallel()
	isJSON := func(p string) bool { return strings.HasSuffix(p, ".json") }
	for pattern, matches := range map[string]func(string) bool{
		"**":        func(string) bool { return true },
		"**/*.json": isJSON,
		"*.json":    func(p string) bool { return isJSON(p) && !strings.Contains(p, "/") },
		"a/**":      func(p string) bool { return p == "a" || strings.HasPrefix(p, "a/") },
		"*":         func(p string) bool { return !strings.Contains(p, "/") },
		"a*/*":      func(p string) bool { return strings.HasPrefix(p, "a") && strings.Count(p, "/") == 1 },
	} {
		for i := range 150 {
			if !testenv.Selects(8, fmt.Sprint("download ", pattern, i)) {
				continue
			}
			noise := rand.New(rand.NewPCG(uint64(i), 3)) //nolint:gosec // the same each time
			dir := []string{"/data", "/data/sub"}[i%2]
			h := newDownloads(t, workload.Mapping{Path: dir, Volume: "/data", Pattern: pattern, Direction: workload.Bidirectional})
			id := h.container()
			h.change(id, "/data", []stateFile{dirOf("sub")})
			existing := randomTree(noise, func(string) bool { return true })
			h.change(id, dir, existing)
			holds := "s0"
			if i%3 == 0 { // all that it has was seen
				h.change(id, dir, []stateFile{dirOf("filler")})
				up, err := h.sink.Upload(t.Context(), h.rt, snapshot.Origin{Owner: h.to(id).Owner, Container: id, Fence: 1})
				require.NoError(t, err)
				holds = up.Snapshot.ID
				list, err := h.sink.List(t.Context(), h.to(id).Owner)
				require.NoError(t, err)
				h.resume(list)
				h.change(id, dir, nil, "filler")
			}
			before := h.listed(id, dir)
			files := randomTree(noise, matches)
			h.store("new", files)
			_, err := h.update(id, holds)
			require.NoError(t, err, "%s %d", pattern, i)
			require.Equal(t, after(before, files, matches), h.listed(id, dir), "%s %d: %v", pattern, i, before)
		}
	}
}
