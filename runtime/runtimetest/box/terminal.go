package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// both prints lines to stdout and stderr in turn.
func both(args []string) error {
	n, err := strconv.Atoi(args[0])
	for i := 0; i < n && err == nil; i++ {
		if _, err = fmt.Println("out", i); err == nil {
			_, err = fmt.Fprintln(os.Stderr, "err", i)
		}
	}
	return err
}

// count prints numbers, of eight digits each.
func count(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	buf := make([]byte, 0, 64<<10)
	for i := range n {
		if buf = fmt.Appendf(buf, "%07d\n", i); len(buf) > 60<<10 || i == n-1 {
			if _, err := os.Stdout.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}

// hash prints the size and the SHA-256 of stdin.
func hash([]string) error {
	sum := sha256.New()
	n, err := io.Copy(sum, os.Stdin)
	if err == nil {
		_, err = fmt.Printf("%d %x\n", n, sum.Sum(nil))
	}
	return err
}

// mute closes all its streams, and waits.
func mute(args []string) error {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if err := f.Close(); err != nil {
			return err
		}
	}
	return hang(args)
}

// terminal prints whether each stream is a terminal, and its size whenever that
// changes, until stdin ends.
func terminal([]string) error {
	changed := make(chan os.Signal, 16)
	signal.Notify(changed, syscall.SIGWINCH)
	for fd := range 3 {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		fmt.Print("terminal=", err == nil, " ")
	}
	tty, err := os.Open("/dev/tty")
	fmt.Print("controlling=", err == nil, "\n")
	tty.Close()
	ended := make(chan error, 1)
	go func() { // ends with stdin
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	for {
		size, err := unix.IoctlGetWinsize(1, unix.TIOCGWINSZ)
		if err != nil {
			return err
		}
		fmt.Printf("size=%dx%d\n", size.Row, size.Col)
		select {
		case <-changed:
		case err := <-ended:
			fmt.Println("end of input")
			return err
		}
	}
}
