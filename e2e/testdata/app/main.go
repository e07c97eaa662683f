// Command app is a program that the hooks of these tests run in addition to box.
// It works with files, and misbehaves.
//
//	app append FILE TEXT  add TEXT to FILE
//	app read FILE         print FILE
//	app await FILE        wait until FILE exists
//	app files DIR...      print every file below the directories
//	app bulk FILE MIB S   create FILE, of random bytes that depend on the seed S
//	app size FILE         print the size of FILE
//	app sum FILE          print the SHA-256 of FILE
//	app flaky FILE        fail if FILE does not exist, and create it
//	app restless GO A B   write numbers, the same ones into A and B, one after
//	                      the other; and, once GO exists, stop every other
//	                      process repeatedly
//	app example           run the application of the examples of hooks, which
//	                      also call app migrate, prepare and index DIR
//	app script FILE       run the lines of FILE, each a command of this program
//	app misbehave MARKER  ignore SIGTERM, leave two daemons running, write a
//	                      gigabyte without a line break, and hang
//
// Paths are in the container, also where its root is a directory of the machine.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	commands := map[string]func(args []string) error{
		"append": add, "read": read, "await": await, "files": files, "flaky": flaky,
		"misbehave": misbehave, "script": script, "fail": fail, "between": between, "hang": hang, "bulk": bulk, "sum": sum,
		"restless": writeForever, "freeze": freeze,
		"example": example, "migrate": migrate, "prepare": prepare, "index": index, "size": size,
	}
	return commands[args[0]](args[1:])
}

// script is the shell of tests, whose images have none.
func script(args []string) error {
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if err := run(strings.Fields(line)); err != nil {
			return err
		}
	}
	return nil
}

func fail([]string) error { return errors.New("as the script says") }

// inside returns the path of a file in the container.
func inside(path string) string { return filepath.Join(os.Getenv("HOSTLER_ROOT"), path) }

func add(args []string) error {
	f, err := os.OpenFile(inside(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(args[1])
	return errors.Join(err, f.Close())
}

func read(args []string) error {
	b, err := os.ReadFile(inside(args[0]))
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(b)
	return err
}

// await polls, because the kernel does not notify in every filesystem.
func await(args []string) error {
	for ; ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(inside(args[0])); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

func files(args []string) error {
	for _, dir := range args {
		err := filepath.WalkDir(inside(dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				fmt.Println(path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func flaky(args []string) error {
	if _, err := os.Stat(inside(args[0])); err == nil {
		return nil
	}
	if err := add([]string{args[0], "tried"}); err != nil {
		return err
	}
	return errors.New("not yet, try again")
}

// misbehave leaves one daemon that forked twice, and one in its own session.
// All of them ignore SIGTERM, because children inherit that.
func misbehave(args []string) error {
	signal.Ignore(syscall.SIGTERM)
	if err := start(&syscall.SysProcAttr{Setsid: true}, "hang", args[0]); err != nil {
		return err
	}
	if err := start(nil, "between", args[0]); err != nil {
		return err
	}
	piece := bytes.Repeat([]byte("x"), 1<<16)
	for range 1 << 30 / len(piece) {
		if _, err := os.Stdout.Write(piece); err != nil {
			return err
		}
	}
	return hang(nil)
}

// between starts a child and exits.
func between(args []string) error { return start(nil, "hang", args[0]) }

func start(attr *syscall.SysProcAttr, args ...string) error {
	c := exec.Command("/proc/self/exe", args...)
	c.Args[0], c.SysProcAttr, c.Stdout, c.Stderr = os.Args[0], attr, os.Stdout, os.Stderr
	return c.Start()
}

func hang([]string) error {
	for {
		time.Sleep(time.Hour)
	}
}

// writeForever writes files endlessly, each one atomically.
func writeForever(args []string) error {
	if err := start(&syscall.SysProcAttr{Setsid: true}, "freeze", args[0]); err != nil {
		return err
	}
	for n := 0; ; n++ {
		for _, file := range args[1:] {
			path := inside(file)
			err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path+".new", []byte(strconv.Itoa(n)), 0o644),
				os.Rename(path+".new", path))
			if err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// freeze stops every process that it may stop, except its parent. It is for
// containers only: without one it would stop the machine's processes.
func freeze(args []string) error {
	for ; ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(inside(args[0])); err != nil {
			continue
		}
		all, err := os.ReadDir("/proc")
		if err != nil {
			return err
		}
		for _, entry := range all {
			pid, err := strconv.Atoi(entry.Name())
			if err == nil && pid != os.Getpid() && pid != os.Getppid() {
				_ = syscall.Kill(pid, syscall.SIGSTOP) // some may not be stopped
			}
		}
	}
}
