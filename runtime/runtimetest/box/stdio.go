package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func idle(args []string) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("idle") // from here on SIGTERM is handled
	failed := make(chan error, 1)
	if len(args) > 0 {
		// It ends with the process.
		go func() {
			failed <- http.ListenAndServe(":"+args[0], http.HandlerFunc(ok))
		}()
	}
	select {
	case <-term:
		return nil
	case err := <-failed:
		return err
	}
}

func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }

func pause(args []string) error {
	n, err := strconv.Atoi(args[0])
	<-time.After(time.Duration(n) * time.Millisecond)
	return err
}

func exit(args []string) error {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

func echo(args []string) error {
	_, err := fmt.Println(strings.Join(args, " "))
	return err
}

func echoErr(args []string) error {
	_, err := fmt.Fprintln(os.Stderr, strings.Join(args, " "))
	return err
}

// repeat writes in large chunks: a gigabyte should cost the reader more than
// the writer.
func repeat(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	batch := min(n, max(1, (64<<10)/max(1, len(args[0]))))
	piece := []byte(strings.Repeat(args[0], batch))
	w := bufio.NewWriterSize(os.Stdout, len(piece))
	for ; n >= batch; n -= batch {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	if _, err := w.Write(piece[:n*len(args[0])]); err != nil {
		return err
	}
	return w.Flush()
}

func environment(args []string) error {
	if len(args) > 0 {
		_, err := fmt.Println(os.Getenv(args[0]))
		return err
	}
	all := os.Environ()
	sort.Strings(all)
	_, err := fmt.Println(strings.Join(all, "\n"))
	return err
}

// environmentIdle writes the environment to a file, and is idle.
func environmentIdle(args []string) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("idle")
	next := args[0] + ".new"
	if err := os.WriteFile(next, []byte(strings.Join(os.Environ(), "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := os.Rename(next, args[0]); err != nil {
		return err
	}
	<-term
	return nil
}

func cat([]string) error {
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}

func pwd([]string) error {
	dir, err := syscallGetwd()
	if err != nil {
		return err
	}
	_, err = fmt.Println(dir)
	return err
}

// syscallGetwd asks the kernel, because os.Getwd would trust $PWD.
func syscallGetwd() (string, error) {
	buf := make([]byte, 4096)
	n, err := syscall.Getcwd(buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n-1]), nil
}

func id([]string) error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	sort.Ints(groups)
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = strconv.Itoa(g)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, err = fmt.Printf("uid=%d gid=%d groups=%s caps=%s nnp=%s\n", os.Getuid(), os.Getgid(),
		strings.Join(names, ","), statusField(string(status), "CapEff:"), statusField(string(status), "NoNewPrivs:"))
	return err
}

// statusField is one line's value of /proc/self/status, without leading zeros.
func statusField(status, name string) string {
	_, rest, _ := strings.Cut(status, "\n"+name)
	value, _, _ := strings.Cut(rest, "\n")
	value = strings.TrimLeft(strings.TrimSpace(value), "0")
	if value == "" {
		return "0"
	}
	return value
}
