package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A client that is generated from the document accepts each reason of a snapshot.
func TestDocumentHasSnapshotReasons(t *testing.T) {
	doc, _ := readDocument(t)
	require.ElementsMatch(t, []any{"release", "interval", "request", "restored", "import"}, doc.Components.Schemas["Snapshot"].Properties["reason"]["enum"])
}
