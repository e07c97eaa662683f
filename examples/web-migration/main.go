// Command notes is a web service that keeps notes in a file, with a migration of that
// file. Everything that it has is in a directory.
//
//	notes serve      the service: GET / lists the notes, POST / adds the body
//	notes check      exits with 0 if the service answers
//	notes version    exits with 3 if the file has the newest version
//	notes migrate    brings the file to the newest version
//	notes flush      writes the file to the disk
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// newest is the version of the file that this program reads.
const newest = 2

// exitIsNewest is the exit code of version for a file that needs no migration.
const exitIsNewest = 3

// state is the file. Version 1 was one text with a note on each line.
type state struct {
	Version int      `json:"version"`
	Notes   []string `json:"notes"`
}

// path returns the path of a file. Without containers, as on the process backend, the
// volume is below the container's own directory.
func path(name string) string { return filepath.Join(os.Getenv("HOSTLER_ROOT"), "/data", name) }

func address() string {
	if a := os.Getenv("NOTES_ADDRESS"); a != "" {
		return a
	}
	return ":8080"
}

func main() {
	commands := map[string]func() error{"serve": serve, "check": check, "version": version, "migrate": migrate, "flush": flush}
	if len(os.Args) != 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: notes serve|check|version|migrate|flush")
		os.Exit(2)
	}
	err := commands[os.Args[1]]()
	if errors.Is(err, errNewest) {
		fmt.Println(err)
		os.Exit(exitIsNewest)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notes:", err)
		os.Exit(1)
	}
}

var errNewest = fmt.Errorf("the notes have version %d", newest)

// read returns the state. A tenant without a file has none, of no version.
func read() (s state, err error) {
	text, err := os.ReadFile(path("notes.json"))
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// write replaces the file: a program that is killed leaves the old one or the new.
func write(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path("notes.json.new"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(path("notes.json.new"), path("notes.json"))
}

func version() error {
	s, err := read()
	if err == nil && s.Version == newest {
		return errNewest
	}
	return err
}

func migrate() error {
	s, err := read()
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path("notes.txt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.Notes = append(s.Notes, strings.FieldsFunc(string(old), func(r rune) bool { return r == '\n' })...)
	s.Version = newest
	if err := write(s); err != nil {
		return err
	}
	fmt.Printf("migrated %d notes to version %d\n", len(s.Notes), newest)
	// Only now: a second attempt finds either.
	if err := os.Remove(path("notes.txt")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func flush() error {
	f, err := os.Open(path("notes.json"))
	if err != nil {
		return err
	}
	fmt.Println("flushed")
	return errors.Join(f.Sync(), f.Close())
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: address(), Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	fmt.Println("notes: serving on", address())
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func answer(w http.ResponseWriter, r *http.Request) {
	s, err := read()
	if err == nil && r.Method == http.MethodPost {
		var note []byte
		note, err = io.ReadAll(http.MaxBytesReader(w, r.Body, 4096))
		if err == nil {
			s.Notes = append(s.Notes, string(note))
			err = write(s)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, strings.Join(s.Notes, "\n"))
}

func check() error {
	host := address()
	if strings.HasPrefix(host, ":") {
		host = "127.0.0.1" + host
	}
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + host + "/")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
