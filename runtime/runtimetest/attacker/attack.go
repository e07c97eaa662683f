package main

import (
	"errors"
	"slices"
)

// attack is one way in which a tenant may try to affect the next one.
type attack struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	Text  string `json:"text"`
	// Parting means that it may disconnect the process that orders it: it is
	// performed after the order was answered.
	Parting bool `json:"parting,omitempty"`
	// State means that it is aimed at the release's reading of /data/state.
	State bool `json:"state,omitempty"`
	// Requests means that it is aimed at the requests that the container sends to
	// the server: they are served while it is performed.
	Requests bool `json:"requests,omitempty"`
	// User is root or other if only that user can perform the attack.
	User string `json:"user,omitempty"`
	// Listed means that SECURITY.md names it as what a wipe does not cover: what
	// two tenants agree on can pass through it, and nothing of other tenants.
	Listed bool `json:"listed,omitempty"`
	// run performs it. An error means that the kernel refused all of it.
	run func(t tenant) error
	// seen returns what the next tenant observes of it in addition to the checks
	// that apply to every attack: markers in everything readable, and differences
	// from an unused container.
	seen func(t tenant) []string
}

// tenant is the attacking tenant.
type tenant struct{ marker string }

// attacks returns all attacks, by class.
func attacks() []attack {
	classes := []struct {
		name string
		rows []attack
	}{
		{"shim's directory", shimAttacks()},
		{"content", contentAttacks()},
		{"leftover files", leftoverAttacks()},
		{"metadata", metadataAttacks()},
		{"inodes", inodeAttacks()},
		{"mounts", mountAttacks()},
		{"processes", processAttacks()},
		{"exhaustion", exhaustionAttacks()},
		{"limits and priorities", limitAttacks()},
		{"IPC", ipcAttacks()},
		{"descriptors", descriptorAttacks()},
		{"network", networkAttacks()},
		{"sessions", sessionAttacks()},
		{"archives", archiveAttacks()},
		{"reading", readingAttacks()},
		{"output", outputAttacks()},
		{"accounts", accountAttacks()},
		{"timing", timingAttacks()},
		{"requests", requestAttacks()},
	}
	var all []attack
	more := outliveAttacks()
	for _, c := range classes {
		for _, a := range append(c.rows, more[c.name]...) {
			a.Class = c.name
			all = append(all, a)
		}
	}
	return all
}

func findAttack(name string) (attack, bool) {
	all := attacks()
	i := slices.IndexFunc(all, func(a attack) bool { return a.Name == name })
	if i < 0 {
		return attack{}, false
	}
	return all[i], true
}

// anySucceeded performs all steps. It fails if all of them do.
func anySucceeded(steps ...error) error {
	if slices.Contains(steps, nil) {
		return nil
	}
	return errors.Join(steps...)
}
