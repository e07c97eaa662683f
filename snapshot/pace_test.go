package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// large is the size of a state whose upload needs memory from the quota.
const large = snapshot.PeekSize + 100_000

// stalledScan returns nothing until ctx ends.
type stalledScan struct {
	tree.Scan
	ctx context.Context //nolint:containedctx // of the one scan
}

func (s stalledScan) Next() ([]tree.Entry, error) {
	<-s.ctx.Done()
	return nil, context.Cause(s.ctx)
}

// stalledContent does not end.
type stalledContent struct {
	tree.Content
	ctx context.Context //nolint:containedctx // of the one scan
}

func (c *stalledContent) Next() ([]byte, int64, error) {
	data, hole, err := c.Content.Next()
	if errors.Is(err, io.EOF) {
		<-c.ctx.Done()
		return nil, 0, context.Cause(c.ctx)
	}
	return data, hole, err
}

// A transfer from a container that sends nothing, or almost nothing, is
// aborted. Its memory is then granted to others.
func TestStalledContainer(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		stall func(ctx context.Context) tree.Scan
		most  time.Duration
		text  string
	}{
		"from the start": {
			stall: func(ctx context.Context) tree.Scan { return stalledScan{scanOf(), ctx} },
			most:  3 * time.Minute, text: "no byte was transferred within 3m",
		},
		"in the middle": {
			stall: func(ctx context.Context) tree.Scan {
				s := scanOf(entry("f", tree.File, large))
				s.content = func(tree.Entry) tree.Content {
					return &stalledContent{extentsOf(incompressible(large - 1)), ctx}
				}
				return s
			},
			most: time.Minute, text: "no byte was transferred for 1m",
		},
		"too slow": {
			stall: func(ctx context.Context) tree.Scan { return paced(ctx, 100*large, 60<<10, time.Second) },
			most:  2 * time.Minute, text: "less than 64 KiB a second",
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := sinkFor("**")
				files := scanFunc(func(ctx context.Context, id string) tree.Scan {
					if id == "alice" {
						return paced(ctx, large, large, 0)
					}
					return test.stall(ctx)
				})
				begin := time.Now()
				var g errgroup.Group
				for i := range snapshot.MaxConcurrentUploads {
					g.Go(func() error {
						_, err := sink.Upload(t.Context(), files, origin("w", fmt.Sprint("mallory", i)))
						if !errors.Is(err, snapshot.ErrContainer) || !strings.Contains(err.Error(), test.text) {
							return fmt.Errorf("upload: %w", err)
						}
						return nil
					})
				}
				synctest.Wait()
				_, err := sink.Upload(t.Context(), files, origin("w", "alice"))
				require.NoError(t, err)
				require.NoError(t, g.Wait())
				require.LessOrEqual(t, time.Since(begin), 2*test.most)
			})
		})
	}
}

// A slightly slow container keeps its memory as long as no other upload waits.
// When another one waits, it is aborted and must retry. That is not the
// container's error.
func TestSlowContainerYieldsQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := sinkFor("**")
		const part = 100 << 10
		files := scanFunc(func(ctx context.Context, id string) tree.Scan {
			if id == "alice" {
				return paced(ctx, large, large, 0)
			}
			return paced(ctx, part*600, part, time.Second)
		})
		_, err := sink.Upload(t.Context(), files, origin("w", "slow"))
		require.NoError(t, err)

		var g errgroup.Group
		var left atomic.Int32
		for i := range snapshot.MaxConcurrentUploads {
			g.Go(func() error {
				_, err := sink.Upload(t.Context(), files, origin("w", fmt.Sprint("slow", i)))
				if err != nil && strings.Contains(err.Error(), "other uploads wait") && !errors.Is(err, snapshot.ErrContainer) {
					left.Add(1)
					return nil
				}
				return err
			})
		}
		<-time.After(10 * time.Second)
		begin := time.Now()
		_, err = sink.Upload(t.Context(), files, origin("w", "alice"))
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(begin), time.Minute)
		require.NoError(t, g.Wait())
		require.Positive(t, left.Load())
	})
}

// Slow uploads that wait for each other do not abort each other indefinitely.
func TestSlowContainersMakeProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := sinkFor("**")
		const part = 70 << 10
		files := scanFunc(func(ctx context.Context, _ string) tree.Scan {
			return paced(ctx, part*150, part, time.Second)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var g errgroup.Group
		for i := range 2 * snapshot.MaxConcurrentUploads {
			g.Go(func() error {
				for {
					_, err := sink.Upload(ctx, files, origin("w", fmt.Sprint("slow", i)))
					if err == nil || ctx.Err() != nil || errors.Is(err, snapshot.ErrContainer) {
						return err
					}
					<-time.After(time.Second)
				}
			})
		}
		require.NoError(t, g.Wait())
	})
}

// A container that stays slow for long while other uploads wait is the cause of
// its failure, so that its claim is given up at some time.
func TestContainerSlowForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bucket, open := snapshottest.NewMemory(), make(chan struct{})
		bucket.Before(func(c snapshottest.Call) error {
			if c.Op == "put" && strings.Contains(c.Key, "/stuck") {
				<-open
			}
			return nil
		})
		sink := snapshot.New(bucket, synced(t, ""))
		const part = 70 << 10
		files := scanFunc(func(ctx context.Context, id string) tree.Scan {
			if id != "slow" {
				return paced(ctx, large, large, 0)
			}
			return paced(ctx, part*2*3600, part, time.Second)
		})
		var g errgroup.Group
		for i := range snapshot.MaxConcurrentUploads {
			g.Go(func() error {
				if i == 0 {
					start := time.Now()
					_, err := sink.Upload(t.Context(), files, origin("w", "slow"))
					assert.ErrorIs(t, err, snapshot.ErrContainer)
					assert.ErrorContains(t, err, "other uploads wait")
					assert.LessOrEqual(t, time.Since(start), 61*time.Minute)
					return nil
				}
				_, err := sink.Upload(t.Context(), files, origin("w", fmt.Sprint("stuck", i)))
				return err
			})
		}
		<-time.After(10 * time.Second)
		_, err := sink.Upload(t.Context(), files, origin("w", "alice")) // waits for memory
		require.NoError(t, err)
		close(open)
		require.NoError(t, g.Wait())
	})
}

// A slow sink is never the container's error.
func TestSlowSink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bucket := snapshottest.NewMemory()
		bucket.Before(func(c snapshottest.Call) error {
			if c.Op == "put" || c.Op == "create" {
				<-time.After(time.Hour)
			}
			return nil
		})
		sink := snapshot.New(bucket, synced(t, ""))
		files := scanFunc(func(ctx context.Context, _ string) tree.Scan { return paced(ctx, 3*large, large, 0) })
		_, err := sink.Upload(t.Context(), files, origin("w", "alice"))
		require.NoError(t, err)
	})
}

// While tenants of several workloads wait for memory, each workload has at most
// half of it; a single workload has all of it.
func TestWorkloadsShareQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bucket, open := snapshottest.NewMemory(), make(chan struct{})
		bucket.Before(func(c snapshottest.Call) error {
			if c.Op == "put" {
				<-open
			}
			return nil
		})
		sink := snapshot.New(bucket, synced(t, ""))
		var g errgroup.Group
		upload := func(workload string, n int) {
			for i := range n {
				g.Go(func() error {
					_, err := sink.Upload(t.Context(), generatedContainer(large), origin(workload, fmt.Sprint("tenant", i)))
					return err
				})
				synctest.Wait()
			}
		}
		under := func(workload string) int {
			n := 0
			for _, c := range bucket.Calls("put") {
				if strings.Contains(c.Key, "/"+workload+"/") {
					n++
				}
			}
			return n
		}
		const all = snapshot.MaxConcurrentUploads
		upload("alone", all+3)
		require.Equal(t, all, under("alone"))
		upload("other", all)
		require.Zero(t, under("other"))
		for range all / 2 { // uploads of the first workload end
			open <- struct{}{}
			synctest.Wait()
		}
		require.Equal(t, []int{all, all / 2}, []int{under("alone"), under("other")}, "the first workload is beyond its share")
		close(open)
		require.NoError(t, g.Wait())
		require.Equal(t, []int{all + 3, all}, []int{under("alone"), under("other")})
	})
}

// slowFiles pauses before the content of each file.
type slowFiles struct {
	*testScan
	pause time.Duration
}

func (s slowFiles) Read(indexes []int, each func(int, tree.Entry, tree.Content) error) error {
	return s.testScan.Read(indexes, func(i int, as tree.Entry, content tree.Content) error {
		<-time.After(s.pause)
		return each(i, as, content)
	})
}

// A container that sends many small files slowly is aborted between two of them. That
// is its error, and not the end of the server.
func TestSlowSmallFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var entries []tree.Entry
		for i := range 20 {
			entries = append(entries, entry(fmt.Sprintf("%02d", i), tree.File, 1))
		}
		files := scanFunc(func(context.Context, string) tree.Scan { return slowFiles{scanOf(entries...), 40 * time.Second} })
		_, err := sinkFor("**").Upload(t.Context(), files, origin("w", "mallory"))
		require.ErrorIs(t, err, snapshot.ErrContainer)
		require.ErrorContains(t, err, "less than 64 KiB a second")
	})
}
