package main

import (
	"os"
)

// runConnect carries a session, because an engine's exec has only stdin and
// stdout. It ends when either side ends.
func runConnect(args []string) int {
	if err := switchToShimUser(inheritNoCaps); err != nil {
		logError("connect", err)
		return exitFailed
	}
	path := defaultSocket()
	if len(args) > 0 {
		path = args[0]
	}
	socket, err := connectTo(path, 1)
	if err != nil {
		logError("connect", err)
		return exitFailed
	}
	done := make(chan struct{}, 2)
	// Both goroutines end with the process.
	go func() { copyAll(socket, os.Stdin); done <- struct{}{} }()
	go func() { copyAll(os.Stdout, socket); done <- struct{}{} }()
	<-done
	return 0
}
