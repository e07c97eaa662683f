package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// children are the processes that attacks leave. Each calls ready once it does
// what it is for, and continues until it is killed.
func children() map[string]func(t tenant, ready func()) {
	all := map[string]func(t tenant, ready func()){
		"hang": func(_ tenant, ready func()) { ready(); hang() },
	}
	for _, more := range []map[string]func(t tenant, ready func()){
		processChildren(), holdingChildren(), timingChildren(), readingChildren(), exhaustionChildren(), networkChildren(), outliveChildren(), requestChildren(),
	} {
		for name, f := range more {
			all[name] = f
		}
	}
	return all
}

func hang() {
	for {
		<-time.After(time.Hour)
	}
}

// child runs this program as one of them.
func child(name, marker string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	f, ok := children()[name]
	if !ok {
		check(fmt.Errorf("no such child: %s", name))
	}
	done := false
	f(tenant{marker}, func() {
		if !done {
			done = true
			_, _ = os.NewFile(3, "ready").Write([]byte{1})
		}
	})
}

// startChild starts a child in a separate session and waits until it is ready.
func (t tenant) startChild(name string) error {
	c := exec.Command("/proc/self/exe", "child", name, t.marker)
	c.Args[0] = os.Args[0]
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	c.ExtraFiles = []*os.File{w}
	err = c.Start()
	w.Close()
	if err != nil {
		return err
	}
	go func() { _ = c.Wait() }() // ends with the child
	_ = r.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := r.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the child %s is not ready: %w", name, err)
	}
	return nil
}

// loop runs f indefinitely with a delay of 1 ms: the container's CPU share is
// small, and the attacked processes need some of it.
func loop(f func()) {
	for {
		f()
		<-time.After(time.Millisecond)
	}
}
