package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// mainAddress is where the main process accepts orders. It is not in a file
// system, so that no attack on files affects the suite.
const mainAddress = "@attacker"

// autorun is a file in the tenant's state with an order that the main process
// performs whenever it starts, as workloads do with their configuration.
const autorun = "/data/state/autorun"

// dialMain waits for a main process that has just been started.
func dialMain() (net.Conn, error) {
	for tries := 0; ; tries++ {
		conn, err := net.DialTimeout("unix", mainAddress, 5*time.Second)
		if err == nil || tries == 100 {
			return conn, err
		}
		<-time.After(50 * time.Millisecond)
	}
}

// serve is the main process.
func serve() error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	listener, err := net.Listen("unix", mainAddress)
	if err != nil {
		return err
	}
	fmt.Println("serving")
	if b, err := os.ReadFile(autorun); err == nil {
		var o order
		if json.Unmarshal(b, &o) == nil {
			perform(o)
		}
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() { // ends with the order
			defer conn.Close()
			handleOrder(conn)
		}()
	}
}

// handleOrder performs one order.
func handleOrder(conn net.Conn) {
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		fmt.Fprintln(conn, err)
		return
	}
	if o.Do == "look" {
		_ = observe(o).write(conn)
		return
	}
	wait := time.Duration(o.After) * time.Millisecond
	if a, ok := findAttack(o.Attack); ok && a.Parting {
		wait = max(wait, 50*time.Millisecond) // until the response has been sent
	}
	if wait > 0 {
		_ = report{}.write(conn)
		conn.Close()
		<-time.After(wait)
		perform(o)
		return
	}
	_ = perform(o).write(conn)
}

// perform runs attacks.
func perform(o order) report {
	a, ok := findAttack(o.Attack)
	if !ok {
		return report{Refused: "no such attack: " + o.Attack}
	}
	if err := a.run(tenant{marker: o.Marker}); err != nil {
		return report{Refused: err.Error()}
	}
	return report{}
}

// answer returns what only this program can compute.
func answer(nonce, variable, input string) string {
	sum := sha256.Sum256([]byte("attacker\x00" + nonce + "\x00" + variable + "\x00" + input))
	return hex.EncodeToString(sum[:])
}
