package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// soakMarkers are the markers of the soak's tenants.
var soakMarkers = regexp.MustCompile(`mksoak[0-9]+x`)

// exitViolation is the exit code of a run that has found what must not exist.
const exitViolation = 97

// soakTenant is a tenant of the soak. Its name is its number and its behavior:
// "7.honest", or "7.ATTACK.c250", which attacks 250 ms after its claim's hook,
// or with r after its release's.
type soakTenant struct {
	point, source string
	number        string
	attack        string // empty for an honest one
	at            string // the point at which it attacks
	after         int    // milliseconds
}

func parseSoakTenant(tenant, point, source string) soakTenant {
	parts := append(strings.Split(tenant, "."), "", "", "")
	v := soakTenant{point: point, source: source, number: parts[0]}
	if parts[1] == "" || parts[1] == "honest" || parts[2] == "" {
		return v
	}
	v.attack, v.at = parts[1], map[byte]string{'c': "post_claim", 'r': "pre_release"}[parts[2][0]]
	v.after, _ = strconv.Atoi(parts[2][1:])
	return v
}

func (v soakTenant) marker() string { return "mksoak" + v.number + "x" }

// runSoakHook is the hook of the soak's hostile workloads. It prints lines of a
// keyword and its value.
func runSoakHook() int {
	v := parseSoakTenant(os.Getenv("HOSTLER_TENANT"), os.Getenv("HOSTLER_POINT"), os.Getenv("HOSTLER_CLAIM_SOURCE"))
	var found []string
	var facts string
	// What a tenant has left for itself is not known.
	if foreign := v.source != "affinity" && v.point != "pre_release"; foreign || v.point == "post_create" {
		found, facts = v.observe()
	}
	if v.attack == "" && v.point != "post_create" {
		found = append(found, v.checkState()...)
	}
	for _, what := range found {
		fmt.Printf("FOUND %.300q\n", what)
	}
	if v.attack != "" && v.point == v.at {
		v.attackMain()
	}
	if facts != "" {
		fmt.Println("FACTS", facts)
	}
	fmt.Println("ANSWER", answer(os.Getenv("HOSTLER_RUN_ID"), v.number, v.point))
	if len(found) > 0 {
		return exitViolation
	}
	return 0
}

// observe observes as the main process and as this hook. It returns what must not
// exist, and the main process's facts, packed.
func (v soakTenant) observe() (found []string, facts string) {
	o := order{Do: "look", Own: v.marker()}
	own := observe(o)
	text, err := v.order(o)
	if err != nil {
		return []string{"the main process takes no order: " + err.Error()}, ""
	}
	var all report
	if err := all.read(text); err != nil {
		return []string{err.Error()}, ""
	}
	return append(all.Seen, own.Seen...), text
}

// seenWithoutMarker returns traces of attacks that have no marker: every observer
// checks for them. What connections leave in the kernel for a minute is listed,
// and not checked.
func seenWithoutMarker() []string {
	t := tenant{rand.Text()}
	var all []string
	for _, seen := range []func(tenant) []string{
		seenTrojan, seenLocks, seenQueue, seenAbstract, seenLabels, seenOutputLock, seenStolen, seenNearShim, seenUring,
	} {
		all = append(all, seen(t)...)
	}
	return all
}

// The honest tenant's files. The bulk makes its upload one that waits for the
// memory quota.
const (
	countFile = "/data/state/count"
	bulkFile  = "/data/state/bulk"
	bulkSize  = 1 << 20
)

// checkState counts the runs in a file, which must be this tenant's.
func (v soakTenant) checkState() []string {
	text, err := os.ReadFile(countFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return []string{"the tenant's own state: " + err.Error()}
	}
	number, count, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	visits, _ := strconv.Atoi(count)
	if len(text) > 0 && (number != v.number || visits == 0) {
		return []string{fmt.Sprintf("the state is another's: %.40q", text)}
	}
	bulk, err := os.ReadFile(bulkFile)
	if want := strings.Repeat(v.marker(), bulkSize/len(v.marker())); visits > 0 && (err != nil || string(bulk) != want) {
		return []string{fmt.Sprintf("the state is not whole: %d bytes, %v", len(bulk), err)}
	}
	fmt.Println("VISITS", visits)
	if v.point != "post_claim" {
		return nil
	}
	err = errors.Join(
		os.MkdirAll(filepath.Dir(countFile), 0o755),
		os.WriteFile(countFile, fmt.Appendf(nil, "%s %d\n", v.number, visits+1), 0o644),
		os.WriteFile(bulkFile, []byte(strings.Repeat(v.marker(), bulkSize/len(v.marker()))), 0o644),
	)
	if err != nil {
		return []string{"the tenant's own state: " + err.Error()}
	}
	return nil
}

// attackMain sends the attack to the main process.
func (v soakTenant) attackMain() {
	text, err := v.order(order{Do: "attack", Attack: v.attack, Marker: v.marker(), After: v.after})
	var r report
	if err == nil {
		err = r.read(text)
	}
	switch {
	case err != nil:
		fmt.Println("ATTACK", v.attack, "interrupted:", err)
	case r.Refused != "":
		fmt.Printf("ATTACK %s refused: %q\n", v.attack, r.Refused)
	default:
		fmt.Println("ATTACK", v.attack, "performed")
	}
}

// order sends an order to the main process and returns its response, packed.
func (v soakTenant) order(o order) (string, error) {
	conn, err := dialMain()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(o); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}
