package main

import (
	"os"
)

// runConnect carries a session: an engine's exec has only stdin and stdout.
// It ends when either side does.
func runConnect(args []string) int {
	if err := takeOwnUser(noHeirs); err != nil {
		complain("connect", err)
		return exitFailed
	}
	path := ownSocket()
	if len(args) > 0 {
		path = args[0]
	}
	socket, err := connectTo(path, 1)
	if err != nil {
		complain("connect", err)
		return exitFailed
	}
	over := make(chan struct{}, 2)
	// Both end with the process.
	go func() { copyAll(socket, os.Stdin); over <- struct{}{} }()
	go func() { copyAll(os.Stdout, socket); over <- struct{}{} }()
	<-over
	return 0
}
