package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
)

func spin([]string) error {
	for n := 0; ; n++ { // the kernel ends it
		if n < 0 {
			n = 0
		}
	}
}

func spinAll([]string) error {
	for range runtime.NumCPU() {
		go func() { _ = spin(nil) }() // the kernel ends it
	}
	select {}
}

func fill(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	for ; n > 0; n -= len(piece) {
		if _, err := f.Write(piece[:min(n, len(piece))]); err != nil {
			return err
		}
	}
	return nil
}

// mapChunk is how much allocate and consume request at once.
const mapChunk = 16 << 20

// mapMemory maps n bytes in chunks and calls use with each.
func mapMemory(text string, use func([]byte)) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	for ; n > 0; n -= mapChunk {
		chunk, err := syscall.Mmap(-1, 0, mapChunk, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
		if err != nil {
			return err
		}
		use(chunk)
	}
	return nil
}

func allocate(args []string) error { return mapMemory(args[0], func([]byte) {}) }

func consume(args []string) error {
	return mapMemory(args[0], func(chunk []byte) {
		for i := 0; i < len(chunk); i += os.Getpagesize() {
			chunk[i] = 1
		}
	})
}

// runChild exits with the child's code, or with 128 plus its signal.
func runChild(args []string) error {
	c := child(args...)
	err := c.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		if status := exited.Sys().(syscall.WaitStatus); status.Signaled() {
			os.Exit(128 + int(status.Signal()))
		}
		os.Exit(exited.ExitCode())
	}
	return err
}

func raiseLimits([]string) error {
	const infinity = ^uint64(0)
	for name, resource := range map[string]int{"cpu": syscall.RLIMIT_CPU, "memory": syscall.RLIMIT_AS, "file": syscall.RLIMIT_FSIZE} {
		if syscall.Setrlimit(resource, &syscall.Rlimit{Cur: infinity, Max: infinity}) == nil {
			fmt.Println(name)
		}
	}
	return nil
}
