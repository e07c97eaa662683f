package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// socketDelay is the time between the start of an example and its socket.
const socketDelay = 300 * time.Millisecond

const exampleSocket = "/tmp/app.sock"

// example is the application of the examples of hooks. It serves pages, has a
// socket some time after its start, and keeps notes in memory until it is asked
// to write them.
func example([]string) error {
	var mu sync.Mutex
	var seen []byte // guarded by mu
	http.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch q.URL.Path {
		case "/seen":
			w.Write(seen) //nolint:errcheck // the client is a hook
		case "/flush":
			if err := appendTo("/data/log", q.Method+" flush\n"); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		default:
			seen = fmt.Appendln(seen, q.URL.Path)
		}
	})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	failed := make(chan error, 2)
	go func() { // it ends with the process
		for range signals {
			failed <- appendTo("/data/log", "checkpoint\n")
		}
	}()
	go func() { failed <- http.ListenAndServe(":8080", nil) }() //nolint:gosec // as above; its clients are hooks
	time.Sleep(socketDelay)
	// The main process may have been started again in the same container.
	if err := os.Remove(exampleSocket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := net.Listen("unix", exampleSocket); err != nil {
		return err
	}
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// appendTo adds a text to a file, also where it is the first in its directory.
func appendTo(path, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(inside(path)), 0o755), add([]string{path, text}))
}

// migrate must not run twice for a tenant's state.
func migrate([]string) error { return appendTo("/data/migrations", "migrated\n") }

// prepare is for a new container.
func prepare([]string) error { return appendTo("/data/prepared", "prepared\n") }

// index writes a file without end.
func index(args []string) error {
	path := inside(filepath.Join(args[0], "index"))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // its writes are checked
	for at := int64(1); ; at *= 2 {
		if _, err := f.WriteAt([]byte("x"), at); err != nil { // sparse
			return err
		}
	}
}

// size prints the size of a file.
func size(args []string) error {
	info, err := os.Stat(inside(args[0]))
	if err == nil {
		fmt.Println(info.Size())
	}
	return err
}
