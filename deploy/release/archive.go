package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// modeOf returns the mode of an entry. That of the file depends on the umask of
// who has built it.
func modeOf(file string, programs []string) int64 {
	if slices.Contains(programs, file) {
		return 0o755
	}
	return 0o644
}

// packTar writes files below a directory, the same bytes for the same files.
func packTar(to io.Writer, dir string, files, programs []string, at time.Time) error {
	zw, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zw)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a file of the archive: %w", err)
		}
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(dir, filepath.Base(file)), Mode: modeOf(file, programs),
			Size: int64(len(content)), ModTime: at, Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", file, err)
		}
		if _, err := w.Write(content); err != nil {
			return fmt.Errorf("pack %s: %w", file, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	return zw.Close()
}

// packZip is packTar for systems whose users expect a ZIP file.
func packZip(to io.Writer, dir string, files, programs []string, at time.Time) error {
	w := zip.NewWriter(to)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a file of the archive: %w", err)
		}
		h := &zip.FileHeader{Name: path.Join(dir, filepath.Base(file)), Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(modeOf(file, programs))) //nolint:gosec // two constants
		entry, err := w.CreateHeader(h)
		if err != nil {
			return fmt.Errorf("pack %s: %w", file, err)
		}
		if _, err := entry.Write(content); err != nil {
			return fmt.Errorf("pack %s: %w", file, err)
		}
	}
	return w.Close()
}
