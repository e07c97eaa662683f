package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/hostler/hostler/runtime/shim"
)

// startedBefore says whether the main process of this container has been started
// by an earlier init, and notes that it is from now on. Without a note it is
// better started twice than never.
func startedBefore(marker string) bool {
	if marker == "" {
		return false
	}
	f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return true
	}
	if err != nil {
		logError("note that the main process began", err)
		return false
	}
	f.Close()
	return false
}

// resolveWorkdir finds out what the folder "." is, while init is still in it.
func resolveWorkdir(config *shim.Config) error {
	if config.Workdir != "." {
		return nil
	}
	var err error
	config.Workdir, err = os.Getwd()
	return err
}
