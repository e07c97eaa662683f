package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
)

// bulk creates an incompressible file of a size in MiB, the same for the same
// seed.
func bulk(args []string) error {
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	var seed [32]byte
	copy(seed[:], args[2])
	f, err := os.Create(inside(args[0]))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(f, rand.NewChaCha8(seed), size<<20)
	return err
}

// sum prints the checksum of a file.
func sum(args []string) error {
	f, err := os.Open(inside(args[0]))
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	fmt.Printf("%x", h.Sum(nil))
	return nil
}
