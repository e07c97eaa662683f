package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		files[header.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}

// The manifest refers to the configuration and to the layer by their digests.
func TestWriteImage(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, writeImage(&out, "example.test/x:1", "program", []byte("machine code")))
	files := untar(t, out.Bytes())

	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	require.NoError(t, json.Unmarshal(files["manifest.json"], &manifest))
	require.Len(t, manifest, 1)
	require.Equal(t, []string{"example.test/x:1"}, manifest[0].RepoTags)
	config, layer := files[manifest[0].Config], files[manifest[0].Layers[0]]
	require.Equal(t, digest(config)+".json", manifest[0].Config)
	require.Contains(t, string(config), `"sha256:`+digest(layer)+`"`)
	require.Contains(t, string(config), `"Entrypoint":["/program"]`)
	require.Equal(t, map[string][]byte{"program": []byte("machine code")}, untar(t, layer))
}
