package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

func TestTransferText(t *testing.T) {
	for data, want := range map[string]string{
		`{"direction":"upload"}`:                                  "upload of its state: 0B",
		`{"direction":"download","transferred_bytes":1572864}`:    "download of its state: 1.5MiB",
		`{"direction":"download","transferred_bytes":-1}`:         "",
		`{"direction":"\u001b[2Jupload","transferred_bytes":1}`:   "",
		`{"direction":"upload","transferred_bytes":"many bytes"}`: "",
		`null`: "",
	} {
		require.Equal(t, want, transferText(client.Event{Data: json.RawMessage(data)}), data)
	}
}
