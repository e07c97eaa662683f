package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/hostler/hostler/runtime/shim"
)

// startedBefore reports whether an earlier init has started the main process of
// this container, and creates the marker. If the marker cannot be created, it
// returns false: to start the main process twice is better than never.
func startedBefore(marker string) bool {
	if marker == "" {
		return false
	}
	f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return true
	}
	if err != nil {
		logError("create the started marker", err)
		return false
	}
	f.Close()
	return false
}

// resolveWorkdir resolves the directory "." while init is still in it.
func resolveWorkdir(config *shim.Config) error {
	if config.Workdir != "." {
		return nil
	}
	var err error
	config.Workdir, err = os.Getwd()
	return err
}
