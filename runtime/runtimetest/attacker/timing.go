package main

import (
	"encoding/json"
	"os"

	"golang.org/x/sys/unix"
)

// timingAttacks continue through every step of a release and of a wipe, or begin
// between two of them.
func timingAttacks() []attack {
	row := func(name, text string) attack {
		return attack{Name: name, Text: text, State: true, run: func(t tenant) error { return t.startChild(name) }}
	}
	return []attack{
		row("race-files", "write files into everything that is emptied, from processes that keep forking"),
		row("race-limits", "lower the limits of whatever the shim starts, as soon as it starts"),
		row("race-stop", "stop whatever starts, as soon as it starts"),
		row("race-kill", "kill whatever starts, as soon as it starts"),
		row("race-trace", "trace whatever starts, as soon as it starts"),
		row("race-rename", "rename what the wipe walks, above volumes and between them"),
		row("race-ipc", "create System V objects and queues, repeatedly"),
		row("race-signals", "send process 1 all signals that it forwards, repeatedly"),
		row("race-modes", "close everything that can be closed, repeatedly"),
		row("chase", "a process that forks itself away before it can be killed"),
		{Name: "return", Text: "attack again from the state when the main process is started again", State: true, run: returning},
		{Name: "return-children", Text: "start the race from the state when the main process is started again", State: true, run: func(t tenant) error {
			return writeAutorun(order{Attack: "race-files", Marker: t.marker})
		}},
		{Name: "return-limits", Text: "lower limits from the state when the main process is started again", State: true, run: func(t tenant) error {
			return writeAutorun(order{Attack: "limit-file-size", Marker: t.marker})
		}},
	}
}

func timingChildren() map[string]func(t tenant, ready func()) {
	repeat := func(f func(t tenant)) func(t tenant, ready func()) {
		return func(t tenant, ready func()) { ready(); loop(func() { f(t) }) }
	}
	return map[string]func(t tenant, ready func()){
		"race-files":   raceFiles,
		"race-limits":  repeat(func(tenant) { _ = limitAll(unix.RLIMIT_FSIZE, 4096, 4096); _ = writeAll("oom_score_adj", "1000") }),
		"race-stop":    repeat(func(tenant) { signalShims(unix.SIGSTOP) }),
		"race-kill":    repeat(func(tenant) { signalShims(unix.SIGKILL) }),
		"race-trace":   repeat(func(tenant) { seizeOnce() }),
		"race-rename":  repeat(raceRename),
		"race-ipc":     repeat(func(t tenant) { _ = sharedMemory(t); _ = messageQueue(t); _ = posixQueue(t) }),
		"race-signals": repeat(func(tenant) { _ = signalInit(unix.SIGUSR1, unix.SIGHUP) }),
		"race-modes":   repeat(func(t tenant) { _ = onScratchDirs(func(dir string) error { return os.Chmod(dir, 0) })(t) }),
		"chase":        chase,
		"print":        repeat(func(t tenant) { _, _ = os.Stdout.WriteString(t.marker + "\n") }),
	}
}

func signalShims(sig unix.Signal) {
	for _, pid := range shimPIDs() {
		if pid != 1 {
			_ = unix.Kill(pid, sig)
		}
	}
}

func raceFiles(t tenant, ready func()) {
	ready()
	loop(func() {
		_ = inScratchDirs(func(dir string) error { return os.WriteFile(dir+"/raced", []byte(t.marker), 0o644) })
		if os.Getenv("RACE") == "" {
			c := self("child", "race-files", t.marker)
			c.Env = append(os.Environ(), "RACE=1")
			if c.Start() == nil {
				sleepBriefly()
				_ = c.Process.Kill()
				_ = c.Wait()
			}
		}
	})
}

func raceRename(tenant) {
	for _, pair := range [][2]string{{"/data/nest", "/data/moved"}, {"/srv/app", "/srv/moved"}, {"/data/state", "/data/moved-state"}} {
		if os.Rename(pair[0], pair[1]) == nil {
			_ = os.Symlink("/app", pair[0])
			sleepBriefly()
			_ = os.Remove(pair[0])
			_ = os.Rename(pair[1], pair[0])
		}
	}
}

// chase forks a child that continues in its place, and exits.
func chase(t tenant, ready func()) {
	_ = os.WriteFile("/tmp/chase", []byte(t.marker), 0o644)
	c := self("child", "chase", t.marker)
	for range 3 {
		if c.Start() == nil {
			break
		}
		sleepBriefly()
		c = self("child", "chase", t.marker)
	}
	ready()
}

func writeAutorun(o order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(autorun, b, 0o644)
}

func returning(t tenant) error {
	return writeAutorun(order{Attack: "daemon", Marker: t.marker})
}
