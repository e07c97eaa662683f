package runtimetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime"
)

// order and report are those of the program attacker.
type order struct {
	Do     string   `json:"do"`
	Attack string   `json:"attack"`
	Marker string   `json:"marker"`
	Past   []string `json:"past"`
}

type report struct {
	Refused string
	Facts   map[string]string
	Seen    []string
}

// stateArchive is the next tenant's own state.
func stateArchive(secret string) io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	dir := &tar.Header{Name: "state/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(1700000000, 0)}
	file := &tar.Header{Name: "state/own", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(secret)), ModTime: time.Unix(1700000000, 0)}
	err := errors.Join(w.WriteHeader(dir), w.WriteHeader(file))
	_, err2 := io.WriteString(w, secret)
	if err = errors.Join(err, err2, w.Close()); err != nil {
		panic(err) // it is written to memory, in a fixed form
	}
	return &b
}

// exec runs the attacker's program as a hook.
func (l *target) exec(cmd runtime.Command) (runtime.Result, error) {
	cmd.Timeout = 30 * time.Second
	var result runtime.Result
	err := l.call("Exec", func(ctx context.Context) error {
		var err error
		result, err = l.rt.Exec(ctx, l.id, cmd)
		return err
	})
	return result, err
}

// order sends an order to the main process.
func (l *target) order(o order) (report, error) { return l.execOrder(o, "", "order") }

func (l *target) execOrder(o order, user, how string) (report, error) {
	line, err := json.Marshal(o)
	if err != nil {
		return report{}, err
	}
	result, err := l.exec(runtime.Command{Args: []string{"/attacker", how}, Stdin: append(line, '\n'), User: user})
	if err != nil {
		return report{}, err
	}
	if !result.OK() {
		return report{}, fmt.Errorf("attacker %s: exit %d %s %s", how, result.ExitCode, result.Signal, result.Stderr.String())
	}
	return decodeReport(result.Stdout.String())
}

func decodeReport(text string) (report, error) {
	var r report
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err == nil {
		err = json.NewDecoder(z).Decode(&r)
	}
	if err != nil {
		return r, fmt.Errorf("read the attacker's report: %w", err)
	}
	return r, nil
}

// observe returns what the main process and hooks observe.
func (l *target) observe(a attack, marker string) (map[string]reports, []string, error) {
	o := order{Do: "look", Attack: a.Name, Marker: marker, Past: l.markers}
	views := []struct{ name, user, how string }{{"the main process", "", "order"}, {"a hook", "", "look"}}
	if l.variant.user != "root" && !l.Limitations.SingleUser {
		views = append(views, struct{ name, user, how string }{"root's hook", "0", "look"})
	}
	all, seen := make(map[string]reports), []string(nil)
	for _, v := range views {
		r, err := l.execOrder(o, v.user, v.how)
		if err != nil {
			return nil, nil, err
		}
		all[v.name] = r.Facts
		for _, what := range r.Seen {
			seen = append(seen, v.name+" sees: "+what)
		}
	}
	return all, seen, nil
}

// nextTenant does everything that the next tenant does to find traces of the
// last one, and results that are not its own.
func (l *target) nextTenant(a attack) ([]string, error) {
	if seen, err := l.falseResults(); len(seen) > 0 || err != nil {
		return seen, err
	}
	seen, err := l.differences(a)
	if err != nil || len(seen) == 0 {
		return seen, err
	}
	<-time.After(300 * time.Millisecond)
	// What was still being removed is not a trace.
	return l.differences(a)
}

func (l *target) differences(a attack) ([]string, error) {
	now, seen, err := l.observe(a, l.markers[len(l.markers)-1])
	if err != nil {
		return nil, err
	}
	for _, view := range slices.Sorted(maps.Keys(l.unused)) {
		for _, d := range differences(l.unused[view], now[view], l.wiped) {
			seen = append(seen, view+" sees: "+d)
		}
	}
	if len(seen) == 0 {
		l.updateTimes(now)
	}
	return seen, nil
}

// updateTimes replaces the expected times with the current ones: the next wipe
// need not change what this one has set.
func (l *target) updateTimes(now map[string]reports) {
	for view, facts := range now {
		for key, value := range facts {
			if isTime(key) && l.unused[view] != nil {
				l.unused[view][key] = value
			}
		}
	}
}

func isTime(key string) bool {
	return strings.HasPrefix(key, "mtime ") || strings.HasPrefix(key, "ctime ")
}

// differences compares with an unused container.
func differences(unused, now map[string]string, wiped time.Time) []string {
	var all []string
	keys := maps.Clone(unused)
	maps.Copy(keys, now)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		was, known := unused[key]
		is, exists := now[key]
		switch {
		case was == is && known == exists:
		case strings.HasPrefix(key, "process ") && !exists: // one that exited while the unused container was observed
		case isTime(key):
			if exists && known && !isSince(is, wiped) {
				all = append(all, fmt.Sprintf("%s: %s, was %s, wiped at %d.%09d", key, is, was, wiped.Unix(), wiped.Nanosecond()))
			}
		default:
			all = append(all, fmt.Sprintf("%s: %q, was %q", key, is, was))
		}
	}
	return all
}

// isSince reports whether a time is the wipe's own, or later. The kernel's clock
// for files ticks some times a second.
func isSince(text string, wiped time.Time) bool {
	var sec, nsec int64
	if _, err := fmt.Sscanf(text, "%d.%d", &sec, &nsec); err != nil {
		return false
	}
	if nsec == 0 { // some filesystems store whole seconds
		wiped = wiped.Truncate(time.Second)
	}
	at := time.Unix(sec, nsec)
	return at.After(wiped.Add(-20*time.Millisecond)) && at.Before(time.Now().Add(time.Minute))
}

// falseResults runs what only an honest container can answer.
func (l *target) falseResults() ([]string, error) {
	nonce, variable, input := rand.Text(), rand.Text(), rand.Text()
	result, err := l.exec(runtime.Command{
		Args: []string{"/attacker", "answer", nonce}, Environment: map[string]string{"NONCE": variable}, Stdin: []byte(input),
	})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte("attacker\x00" + nonce + "\x00" + variable + "\x00" + input))
	if got := strings.TrimSpace(result.Stdout.String()); !result.OK() || got != hex.EncodeToString(sum[:]) {
		return []string{fmt.Sprintf("a hook's result is false: %+v", result)}, nil
	}
	result, err = l.exec(runtime.Command{Args: []string{"/attacker", "exit", "7"}})
	if err != nil {
		return nil, err
	}
	if result.ExitCode != 7 || result.Signal != "" {
		return []string{fmt.Sprintf("a hook's exit code is false: %+v", result)}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	text, err := l.getState(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("CopyOut: %w", err)
	}
	if !strings.Contains(text, l.secret) {
		return []string{"the next tenant's own state is missing"}, nil
	}
	return nil, nil
}
