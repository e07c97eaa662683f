package snapshot

import "strings"

// Bounds of what a verification lists.
const (
	maxDamages      = 100
	maxDamagedPaths = 100     // of one damage
	maxDamageText   = 1 << 20 // bytes of all paths together
	maxDamageCount  = 1 << 16 // of objects; more are not counted
)

// damages are what a verification has found. The zero value is empty.
type damages struct {
	snapshot string // that is being checked
	found    map[damageKey]*Damage
	order    []damageKey
	text     int
	last     string // path that was added last
}

type damageKey struct{ snapshot, object string }

func (d *damages) empty() bool { return len(d.order) == 0 }

// at returns the damage of a pack, or nil if it is not listed.
func (d *damages) at(pack string, err error, what string) *Damage {
	key := damageKey{d.snapshot, packsDir + pack[:min(len(pack), 64)]} // a list of snapshots may have any text
	if one, ok := d.found[key]; ok || len(d.order) >= maxDamageCount {
		return one
	}
	if d.found == nil {
		d.found = map[damageKey]*Damage{}
	}
	var one *Damage
	if len(d.order) < maxDamages {
		problem := strings.ToValidUTF8(err.Error(), "?")
		if what != "" {
			problem = what + ": " + problem
		}
		one = &Damage{Object: key.object, Snapshot: key.snapshot, Problem: problem[:min(len(problem), 1<<10)]}
	}
	d.found[key] = one
	d.order = append(d.order, key)
	return one
}

// add adds damage of an index, with the number of its files that are not known.
func (d *damages) add(pack string, err error, files int, what string) {
	if one := d.at(pack, err, what); one != nil {
		one.Files += files
	}
}

// addPath adds damage of a file. The chunks of a file come one after the other.
func (d *damages) addPath(pack string, err error, path string) {
	one := d.at(pack, err, "")
	if one == nil || one.Files > 0 && d.last == d.snapshot+pack+path {
		return
	}
	d.last = d.snapshot + pack + path
	one.Files++
	if len(one.Paths) < maxDamagedPaths && d.text+len(path) <= maxDamageText {
		one.Paths = append(one.Paths, path)
		d.text += len(path)
	}
}

// snapshots returns how many of the damaged ones a function chooses.
func (d *damages) snapshots(isChosen func(snapshot string) bool) int {
	chosen := map[string]bool{}
	for _, key := range d.order {
		if isChosen(key.snapshot) {
			chosen[key.snapshot] = true
		}
	}
	return len(chosen)
}

// of returns the damages of the snapshots that are kept, and their number.
func (d *damages) of(isKept func(snapshot string) bool) ([]Damage, int) {
	var list []Damage
	count := 0
	for _, key := range d.order {
		if !isKept(key.snapshot) {
			continue
		}
		count++
		if one := d.found[key]; one != nil {
			list = append(list, *one)
		}
	}
	return list, count
}
