// Command release packs the programs that `make release` has built, for each
// operating system and architecture: an archive, and a list of what the programs
// contain (CycloneDX 1.6). It writes the checksums of all into SHA256SUMS. The
// output is reproducible: the same programs result in the same bytes.
//
//	release -o DIR -version VERSION -time SECONDS -sbom PROGRAM -programs DIR -linux FILE FILE...
//
// DIR of the programs has a directory OS-ARCH for each target. The files are in
// every archive, without their directories; that of -linux only in those for Linux.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what run writes.
type release struct {
	out     string
	version string
	time    time.Time // of every entry
	sbom    string    // the program cyclonedx-gomod
	files   []string
	linux   string   // a file for Linux only; empty for none
	written []string // names in out
}

func run() error {
	out := flag.String("o", "", "the directory to write to, which is made new")
	version := flag.String("version", "", "the version, which is in the names")
	seconds := flag.Int64("time", 0, "the time of all entries, in seconds since 1970")
	sbom := flag.String("sbom", "", "the program cyclonedx-gomod")
	programs := flag.String("programs", "", "the directory of the programs")
	linux := flag.String("linux", "", "a file that is only in the archives for Linux")
	flag.Parse()
	if *out == "" || *version == "" || *sbom == "" || *programs == "" {
		flag.Usage()
		return errors.New("-o, -version, -sbom and -programs are required")
	}
	r := &release{out: *out, version: *version, time: time.Unix(*seconds, 0).UTC(), sbom: *sbom, files: flag.Args(), linux: *linux}
	return r.write(*programs)
}

// write packs each target.
func (r *release) write(programs string) error {
	targets, err := os.ReadDir(programs)
	if err != nil {
		return fmt.Errorf("list the targets: %w", err)
	}
	if len(targets) == 0 {
		return fmt.Errorf("%s has no directory OS-ARCH", programs)
	}
	if err := os.RemoveAll(r.out); err != nil {
		return fmt.Errorf("remove the last release: %w", err)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil { //nolint:gosec // it is published
		return fmt.Errorf("make the directory: %w", err)
	}
	for _, target := range targets {
		if err := r.pack(target.Name(), filepath.Join(programs, target.Name())); err != nil {
			return fmt.Errorf("%s: %w", target.Name(), err)
		}
	}
	return r.sum()
}

// pack writes the archive and the lists of one target.
func (r *release) pack(target, dir string) error {
	programs, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(programs) == 0 {
		return errors.Join(err, errors.New("has no programs"))
	}
	name := fmt.Sprintf("hostler-%s-%s", r.version, target)
	var lists []string
	for _, program := range programs {
		base := strings.TrimSuffix(filepath.Base(program), ".exe")
		list := filepath.Join(r.out, fmt.Sprintf("%s-%s-%s.cdx.json", base, r.version, target))
		if err := r.list(program, list); err != nil {
			return err
		}
		lists = append(lists, filepath.Base(list))
	}
	files := slices.Concat(programs, r.files)
	if r.linux != "" && strings.HasPrefix(target, "linux-") {
		files = append(files, r.linux)
	}
	pack, suffix := packTar, ".tar.gz"
	if strings.HasPrefix(target, "windows") {
		pack, suffix = packZip, ".zip"
	}
	var buf bytes.Buffer
	if err := pack(&buf, name, files, programs, r.time); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, name+suffix), buf.Bytes(), 0o644); err != nil { //nolint:gosec // it is published
		return fmt.Errorf("write the archive: %w", err)
	}
	r.written = append(append(r.written, name+suffix), lists...)
	return nil
}

// list writes the modules that a program was built from. It has no time and no
// serial number, which would differ each time.
func (r *release) list(program, to string) error {
	cmd := exec.CommandContext(context.Background(), r.sbom, "bin", "-json", "-noserial", "-notimestamp", //nolint:gosec // from the Makefile
		"-output-version", "1.6", "-version", r.version, "-output", to, program)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("list the modules of %s: %w: %s", program, err, out)
	}
	return nil
}

// sum writes the checksums in the form of sha256sum.
func (r *release) sum() error {
	slices.Sort(r.written)
	var sums strings.Builder
	for _, name := range r.written {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return fmt.Errorf("read what was written: %w", err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644) //nolint:gosec // it is published
}
