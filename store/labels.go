package store

import (
	"maps"
	"slices"

	"github.com/hostler/hostler/claim"
)

const insertLabel = `INSERT INTO claim_labels (claim, name, value) VALUES ($1, $2, $3)`

// addLabels adds the labels of a new claim for filters.
func addLabels(t *tx, c claim.Claim) error {
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		if err := t.execLater(insertLabel, c.ID, name, c.Labels[name]); err != nil {
			return err
		}
	}
	return nil
}

// labelled requires that the claim in the column has all of the labels. A value that
// cannot be stored is that of nothing.
func (w *where) labelled(column string, labels map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value := labels[name]
		if name != sanitizeText(name) || value != sanitizeText(value) {
			w.add("1 = 0")
			continue
		}
		w.add(column + " IN (SELECT claim FROM claim_labels WHERE name = " + w.arg(name) + " AND value = " + w.arg(value) + ")")
	}
}
