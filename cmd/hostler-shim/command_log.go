package main

import (
	"sort"

	"github.com/hostler/hostler/runtime"
)

const (
	// logChunkSize is how much output is allocated and freed at once.
	logChunkSize = 16 << 10
	// maxLogSegments bounds the changes between the two streams in what is kept.
	maxLogSegments = 1 << 14
)

// outputLog is the output of a command that is not acknowledged, in the order in
// which it was read from both streams. The zero value is empty.
type outputLog struct {
	start, end int64        // the offsets that are kept
	chunks     [][]byte     // each has the bytes of a multiple of logChunkSize on
	segments   []logSegment // that of start first
}

// logSegment is a part of the output that comes from one stream. It ends where the
// next one starts.
type logSegment struct {
	start  int64
	stderr bool
}

// room returns how many bytes may be added.
func (l *outputLog) room() int {
	if len(l.segments) >= maxLogSegments {
		return 0
	}
	return max(0, runtime.CommandBuffer-l.size())
}

// size returns how many bytes are kept.
func (l *outputLog) size() int { return int(l.end - l.start) }

// add adds output of one stream. It does not check the room.
func (l *outputLog) add(p []byte, stderr bool) {
	if len(p) == 0 {
		return
	}
	if n := len(l.segments); n == 0 || l.segments[n-1].stderr != stderr {
		l.segments = append(l.segments, logSegment{l.end, stderr})
	}
	for len(p) > 0 {
		index, at := l.position(l.end)
		if index == len(l.chunks) {
			l.chunks = append(l.chunks, make([]byte, at, at+min(len(p), logChunkSize-at)))
		}
		n := min(len(p), logChunkSize-at)
		l.chunks[index] = append(l.chunks[index], p[:n]...)
		l.end += int64(n)
		p = p[n:]
	}
}

// position returns in which chunk an offset is, and where in it.
func (l *outputLog) position(offset int64) (index, at int) {
	return int(offset/logChunkSize - l.start/logChunkSize), int(offset % logChunkSize)
}

// read copies output of one stream from an offset on, which must be kept.
func (l *outputLog) read(offset int64, p []byte) (n int, stderr bool) {
	if offset >= l.end {
		return 0, false
	}
	next := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].start > offset })
	until := l.end
	if next < len(l.segments) {
		until = l.segments[next].start
	}
	index, at := l.position(offset)
	available := l.chunks[index][at:]
	n = copy(p, available[:min(int64(len(available)), until-offset)])
	return n, l.segments[next-1].stderr
}

// release drops what is before an offset, which is at most the end.
func (l *outputLog) release(offset int64) {
	if offset <= l.start {
		return
	}
	if offset == l.end {
		l.start, l.chunks, l.segments = l.end, nil, nil
		return
	}
	index, _ := l.position(offset)
	clear(l.chunks[:index])
	l.start, l.chunks = offset, l.chunks[index:]
	next := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].start > offset })
	l.segments = l.segments[next-1:]
}
