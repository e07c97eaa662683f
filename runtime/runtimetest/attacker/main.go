// Command attacker is a hostile tenant, and the tenant after it. The suite of
// package runtimetest runs it as the workload of a container: it is the image's
// own program, needs only the kernel, and has no capability.
//
//	attacker serve          run as the main process and accept orders
//	attacker order          read an order on stdin, send it to the main process,
//	                        print its report
//	attacker look           read an order on stdin, print what this process
//	                        itself observes
//	attacker visit          run as a tenant of the soak: find what others left,
//	                        and attack as the tenant's name specifies
//	attacker answer NONCE   print a response that only this program can compute,
//	                        from NONCE, the variable NONCE and stdin
//	attacker exit N         exit with code N
//	attacker list           print the attacks as JSON
//	attacker child NAME M   run as a process that an attack leaves
//
// An order names an attack and the marker of the tenant that performs it. What
// an attack leaves contains the marker wherever it can contain text. The next
// tenant searches for it in everything that it can read, and for each attack
// where that attack could have left it. A new attack is a row in the file of its
// class.
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// order is a request of the suite.
type order struct {
	Do     string   `json:"do"`     // attack, or look
	Attack string   `json:"attack"` // its name
	Marker string   `json:"marker"` // of the tenant that attacked
	Past   []string `json:"past"`   // markers of the tenants before
	// Own is the marker of the observing tenant, if every other tenant's has the
	// same form; see runSoakHook.
	Own string `json:"own,omitempty"`
	// After is how many milliseconds after the answer to attack; 0 is before it.
	After int `json:"after,omitempty"`
}

// hasForeignMarker reports whether a text holds another tenant's marker.
func (o order) hasForeignMarker(text string) bool {
	if o.Own != "" {
		return slices.ContainsFunc(soakMarkers.FindAllString(text, -1), func(m string) bool { return m != o.Own })
	}
	return slices.ContainsFunc(append(slices.Clone(o.Past), o.Marker), func(m string) bool {
		return m != "" && strings.Contains(text, m)
	})
}

// report is the result of an order.
type report struct {
	Refused string            `json:"refused,omitempty"` // why the kernel did not let it
	Facts   map[string]string `json:"facts,omitempty"`   // what is true of an unused container
	Seen    []string          `json:"seen,omitempty"`    // what must not exist
}

func main() {
	if impersonating() {
		impersonate()
		return
	}
	args := append(os.Args, "", "")
	switch args[1] {
	case "serve":
		check(serve())
	case "order":
		check(relayOrder())
	case "look":
		var o order
		check(json.NewDecoder(os.Stdin).Decode(&o))
		check(observe(o).write(os.Stdout))
	case "visit":
		os.Exit(runSoakHook())
	case "answer":
		text, err := io.ReadAll(os.Stdin)
		check(err)
		fmt.Println(answer(args[2], os.Getenv("NONCE"), string(text)))
	case "exit":
		code, err := strconv.Atoi(args[2])
		check(err)
		os.Exit(code)
	case "list":
		check(json.NewEncoder(os.Stdout).Encode(attacks()))
	case "child":
		child(args[2], args[3])
	default:
		fmt.Fprintln(os.Stderr, "attacker: no such command:", args[1])
		os.Exit(2)
	}
}

// maxFacts bounds a report if an attack has left thousands of objects.
const maxFacts = 5000

// write compresses a report, because little is kept of a command's output.
func (r report) write(w io.Writer) error {
	for key := range r.Facts {
		if len(r.Facts) <= maxFacts {
			break
		}
		delete(r.Facts, key)
	}
	text := base64.NewEncoder(base64.StdEncoding, w)
	packed := gzip.NewWriter(text)
	return errors.Join(json.NewEncoder(packed).Encode(r), packed.Close(), text.Close())
}

// read decompresses a report.
func (r *report) read(text string) error {
	packed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return fmt.Errorf("read a report: %w", err)
	}
	return json.NewDecoder(packed).Decode(r)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "attacker:", err)
		os.Exit(1)
	}
}

// impersonating reports whether this program was started instead of the shim.
func impersonating() bool { return filepath.Base(os.Args[0]) == "shim" }

// relayOrder sends an order to the main process.
func relayOrder() error {
	conn, err := dialMain()
	if err != nil {
		return fmt.Errorf("reach the main process: %w", err)
	}
	defer conn.Close()
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err != nil {
		return err
	}
	if _, err := conn.Write(line); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, conn)
	return err
}
