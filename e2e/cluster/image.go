package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
)

// writeImage writes an image in the format of `docker save`. Its only file is a
// static program, which is its entrypoint.
func writeImage(w io.Writer, ref, name string, program []byte) error {
	layer, err := tarOf(map[string][]byte{name: program}, 0o755)
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": goruntime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/" + name}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return fmt.Errorf("encode the image's configuration: %w", err)
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config":   digest(config) + ".json",
		"RepoTags": []string{ref},
		"Layers":   []string{digest(layer) + ".tar"},
	}})
	if err != nil {
		return fmt.Errorf("encode the image's manifest: %w", err)
	}
	archive, err := tarOf(map[string][]byte{
		"manifest.json":          manifest,
		digest(config) + ".json": config,
		digest(layer) + ".tar":   layer,
	}, 0o644)
	if err != nil {
		return err
	}
	_, err = w.Write(archive)
	return err
}

func tarOf(files map[string][]byte, mode int64) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := w.Write(data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// loadPause loads the image of every pod's first container into the node.
func loadPause(ctx context.Context, l layout, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	file, err := os.Create(l.Path("run/pause.tar"))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := writeImage(file, pauseImage, "pause", data); err != nil {
		return fmt.Errorf("write %s: %w", file.Name(), err)
	}
	return load(ctx, l, file.Name())
}

// load loads the images of a tar into the node, as `docker save` writes it or in
// the OCI layout. A pod then needs imagePullPolicy IfNotPresent or Never.
func load(ctx context.Context, l layout, file string) error {
	if err := ctr(ctx, l, "images", "import", file); err != nil {
		return fmt.Errorf("load %s: %w", file, err)
	}
	return nil
}
