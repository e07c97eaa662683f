package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
)

// commandLine is a line of a stream of output.
type commandLine struct {
	Start  *commandStart  `json:"start"`
	Offset int64          `json:"offset"`
	Stream string         `json:"stream"`
	Data   []byte         `json:"data"`
	End    *CommandResult `json:"end"`
	Error  *Error         `json:"error"`
}

// commandStart is the state of a command when it was attached to.
type commandStart struct {
	Offset int64 `json:"offset"`
}

// lineReader reads lines. The data of one is overwritten by that of the next.
type lineReader struct{ data []byte }

// read reads a line of any form.
func (r *lineReader) read(text []byte) (line commandLine, err error) {
	if line, ok := r.readOutput(text); ok {
		return line, nil
	}
	err = json.Unmarshal(text, &line)
	return line, err
}

// outputStreams are the beginnings of the data of output.
var outputStreams = map[string][]byte{
	"stdout": []byte(`,"stream":"stdout","data":"`),
	"stderr": []byte(`,"stream":"stderr","data":"`),
}

// readOutput reads output in the form that the server writes, and returns false for
// every other line: package json would take most of the time of a large output.
func (r *lineReader) readOutput(text []byte) (line commandLine, ok bool) {
	rest, isOutput := bytes.CutPrefix(text, []byte(`{"offset":`))
	rest, isWhole := bytes.CutSuffix(rest, []byte(`"}`))
	end := bytes.IndexByte(rest, ',')
	if !isOutput || !isWhole || end < 0 {
		return line, false
	}
	offset, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	if err != nil || strconv.FormatInt(offset, 10) != string(rest[:end]) {
		return line, false // it may be a number in another form
	}
	for stream, beginning := range outputStreams {
		encoded, found := bytes.CutPrefix(rest[end:], beginning)
		// Base64 skips ends of lines, which JSON does not allow.
		if !found || bytes.IndexByte(encoded, '\r') >= 0 || bytes.IndexByte(encoded, '\n') >= 0 {
			continue
		}
		r.data, err = base64.StdEncoding.AppendDecode(r.data[:0], encoded)
		return commandLine{Offset: offset, Stream: stream, Data: r.data}, err == nil
	}
	return line, false
}
