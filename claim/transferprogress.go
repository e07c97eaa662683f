package claim

import (
	"sync"
	"time"
)

// When the progress of a transfer is recorded: first after progressBegin, then
// after twice as long each time, up to progressMax. A transfer that ends before
// has no such event.
const (
	progressBegin = 10 * time.Second
	progressMax   = time.Minute
)

// transferProgress records how far a transfer is, at intervals.
type transferProgress struct {
	record func(transferred int64)

	// mu guards what follows. It is held while record runs, so that nothing is
	// recorded after stop.
	mu       sync.Mutex
	interval time.Duration
	timer    *time.Timer // nil once it is stopped

	atMu        sync.Mutex // guards transferred
	transferred int64
}

// startProgress begins to record. The caller calls stop.
func startProgress(record func(transferred int64)) *transferProgress {
	p := &transferProgress{record: record, interval: progressBegin}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.interval, p.tick)
	return p
}

// update sets how many bytes are transferred. It never waits for a record.
func (p *transferProgress) update(transferred int64) {
	p.atMu.Lock()
	defer p.atMu.Unlock()
	p.transferred = transferred
}

func (p *transferProgress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	p.atMu.Lock()
	n := p.transferred
	p.atMu.Unlock()
	p.record(n)
	p.interval = min(2*p.interval, progressMax)
	p.timer.Reset(p.interval)
}

// stop ends the recording, after the record in progress.
func (p *transferProgress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
	p.timer = nil
}
