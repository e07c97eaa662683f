package docker_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// BenchmarkRecycle compares, alternating, creating a container with wiping one
// whose root filesystem is writable, for images with more and more files. A
// wipe is what a claim pays for it: every process is ended, the volume is
// emptied, every file is compared, the main process is started again. The
// baseline is what a pool pays once for each container.
func BenchmarkRecycle(b *testing.B) {
	for _, files := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) { benchmarkRecycle(b, files) })
	}
}

func benchmarkRecycle(b *testing.B, files int) {
	rt, api := openRuntime(b), needEngine(b)
	ref := fmt.Sprintf("%s/files%d:latest", instance, files)
	testprog, err := os.ReadFile(runtimetest.BuildTestprog(b))
	require.NoError(b, err)
	content := map[string]string{"box": string(testprog)}
	for i := range files {
		content[fmt.Sprintf("lib/%d/%d/%d", i/1000, i/100, i)] = "a file of the image\n"
	}
	require.NoError(b, rt.Import(context.Background(), ref, rootfs(b, content)))
	b.Cleanup(func() {
		_, err := api.ImageRemove(context.Background(), ref, image.RemoveOptions{Force: true})
		require.NoError(b, err)
	})
	change := func(s *runtime.Spec) { s.Image, s.Command = ref, []string{"/box", "idle"} }
	id := startContainer(b, rt, change)
	require.NoError(b, rt.RecordBaseline(b.Context(), id, 1))

	var create, baseline, wipe []time.Duration
	timed := func(durations *[]time.Duration, do func() error) {
		start := time.Now()
		require.NoError(b, do())
		*durations = append(*durations, time.Since(start))
	}
	for b.Loop() {
		spec := newSpec()
		change(&spec)
		timed(&create, func() error {
			if err := rt.Create(b.Context(), spec); err != nil {
				return err
			}
			return rt.Start(b.Context(), spec.ID, 1)
		})
		timed(&baseline, func() error { return rt.RecordBaseline(b.Context(), spec.ID, 1) })
		require.NoError(b, rt.Destroy(context.Background(), spec.ID))
		mustExec(b, rt, id, "/box", "many", "left", "100")
		timed(&wipe, func() error {
			if err := rt.Wipe(b.Context(), id, 1); err != nil {
				return err
			}
			return rt.Restart(b.Context(), id, 1)
		})
	}
	b.ReportMetric(median(create)*1000, "create-p50-ms")
	b.ReportMetric(median(baseline)*1000, "baseline-p50-ms")
	b.ReportMetric(median(wipe)*1000, "wipe-p50-ms")
	b.ReportMetric(median(create)/median(wipe), "create/wipe")
}
