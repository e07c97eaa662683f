package main

import (
	"errors"
	"slices"
)

// attack is one way in which a tenant may try to reach the next one.
type attack struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	Text  string `json:"text"`
	// Parting says that it may cut off whoever orders it: it is performed after
	// the order was answered.
	Parting bool `json:"parting,omitempty"`
	// State says that it is aimed at the release's reading of /data/state.
	State bool `json:"state,omitempty"`
	// User is root or other where the attack is another's for the rest.
	User string `json:"user,omitempty"`
	// Listed says that SECURITY.md names it as what a wipe does not cover: what
	// two tenants agree on by it, and nothing of one that does not want it.
	Listed bool `json:"listed,omitempty"`
	// run performs it. An error says that the kernel refused all of it.
	run func(t tenant) error
	// seen tells what the next tenant observes of it besides what everybody
	// looks for: markers in all that can be read, and what differs from a
	// container that nobody used.
	seen func(t tenant) []string
}

// tenant is who attacks.
type tenant struct{ marker string }

// attacks are all that there are, by class.
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

// anySucceeded performs all steps. It fails when every one of them does.
func anySucceeded(steps ...error) error {
	if slices.Contains(steps, nil) {
		return nil
	}
	return errors.Join(steps...)
}
