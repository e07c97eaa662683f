package shim

// chunk is received bytes in a buffer.
type chunk struct {
	unread []byte
	buffer []byte // without content
}

const (
	// minChunkSize is the minimum capacity of a chunk of received bytes.
	minChunkSize = 4 << 10
	// maxSpare is how many buffers of frames a stream keeps for the next chunks, at
	// most as much as its window: most streams are idle. Without them a program with a
	// small heap would spend half of its time on collecting garbage.
	maxSpare = 4
)

// chunkBuffer returns an empty buffer for a body. At least half of it is used,
// unless it is one of minChunkSize. The caller holds mu.
func (s *Stream) chunkBuffer(size int) []byte {
	if size < frameBuffer/2 {
		return make([]byte, 0, max(size, minChunkSize))
	}
	if last := len(s.spare) - 1; last >= 0 {
		buffer := s.spare[last]
		s.spare = s.spare[:last]
		return buffer
	}
	return make([]byte, 0, frameBuffer)
}

// recycle keeps the buffer of a chunk that was read. The caller holds mu.
func (s *Stream) recycle(buffer []byte) {
	if cap(buffer) == frameBuffer && len(s.spare) < min(maxSpare, s.window/MaxData) && !s.isDone {
		s.spare = append(s.spare, buffer)
	}
}
