package fake

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
)

// both prints lines to stdout and stderr in turn.
func both(p *Proc, args []string) error {
	n, err := strconv.Atoi(args[0])
	for i := 0; i < n && err == nil; i++ {
		if _, err = fmt.Fprintln(p.Stdout, "out", i); err == nil {
			_, err = fmt.Fprintln(p.Stderr, "err", i)
		}
	}
	return err
}

// count prints numbers of seven digits.
func count(p *Proc, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	const chunk = 60 << 10
	var buf []byte
	for i := range n {
		if buf = fmt.Appendf(buf, "%07d\n", i); len(buf) > chunk || i == n-1 {
			if _, err := p.Stdout.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}

// hash prints the size and the SHA-256 of stdin.
func hash(p *Proc, _ []string) error {
	sum := sha256.New()
	n, err := io.Copy(sum, p.Stdin)
	if err == nil {
		_, err = fmt.Fprintf(p.Stdout, "%d %x\n", n, sum.Sum(nil))
	}
	return err
}

// mute closes stdin, and waits.
func mute(p *Proc, _ []string) error {
	if in, ok := p.Stdin.(*commandInput); ok {
		in.discard()
	}
	return errPark
}

// discard makes the container drop input.
func (in *commandInput) discard() {
	in.p.c.mu.Lock()
	defer in.p.c.mu.Unlock()
	in.t.input, in.t.discards = nil, true
	in.p.c.changed.Broadcast()
}
