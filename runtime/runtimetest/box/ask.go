package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// askRequest is a request of a process as the program in the container reads it.
type askRequest struct {
	Op  string `json:"op"`
	Ask struct {
		ID   string `json:"key"`
		Name string `json:"name"`
		Body []byte `json:"body"`
	} `json:"ask"`
}

// askResponse is its response.
type askResponse struct {
	Answer *struct {
		Body    []byte `json:"body"`
		Problem *struct {
			Code   string `json:"code"`
			Detail string `json:"detail"`
		} `json:"problem"`
	} `json:"answer"`
}

// dialAsk connects to the socket for requests.
func dialAsk() (net.Conn, error) {
	path := os.Getenv("HOSTLER_SOCKET")
	if path == "" {
		return net.Dial("unix", "@hostler")
	}
	dir, err := os.Open(filepath.Dir(path)) // an address holds only 107 bytes
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// askFrame returns the frame of a request.
func askFrame(id, name, body string) []byte {
	r := askRequest{Op: "ask"}
	r.Ask.ID, r.Ask.Name, r.Ask.Body = id, name, []byte(body)
	encoded, _ := json.Marshal(r) // strings always encode
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(encoded)))
	return append(append(frame, 'Q'), encoded...)
}

// request sends one request and returns the body of the response.
func request(id, name, body string) (string, error) {
	conn, err := dialAsk()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write(askFrame(id, name, body)); err != nil {
		return "", fmt.Errorf("closed: %w", err)
	}
	var header [5]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return "", fmt.Errorf("closed: %w", err)
	}
	encoded := make([]byte, binary.BigEndian.Uint32(header[:]))
	if _, err := io.ReadFull(conn, encoded); err != nil {
		return "", fmt.Errorf("closed: %w", err)
	}
	var response askResponse
	if err := json.Unmarshal(encoded, &response); err != nil {
		return "", err
	}
	switch {
	case response.Answer == nil:
		return "", errors.New("no answer")
	case response.Answer.Problem != nil:
		return "", fmt.Errorf("%s: %s", response.Answer.Problem.Code, response.Answer.Problem.Detail)
	}
	return string(response.Answer.Body), nil
}

func ask(args []string) error {
	body, err := request(args[0], args[1], args[2])
	if err != nil {
		return err
	}
	fmt.Println(body)
	return nil
}

// asker sends a request for each content of a file, NAME BODY, which it removes when
// it has the response.
func asker(args []string) error {
	for {
		text, err := os.ReadFile(args[0])
		if name, body, ok := strings.Cut(string(text), " "); err == nil && ok {
			if _, err := request("asker", name, body); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			if err := os.Remove(args[0]); err != nil {
				return err
			}
		}
		<-time.After(10 * time.Millisecond)
	}
}

// askLate sends requests and does not wait for the answers.
func askLate(args []string) error {
	for range 100 {
		conn, err := dialAsk()
		if err != nil {
			return err
		}
		if _, err := conn.Write(askFrame("late", args[0], "{}")); err != nil {
			return nil //nolint:nilerr // there is no room
		}
	}
	return nil
}

// askFlood sends N requests, and prints how often there was which response.
func askFlood(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	results := make(chan string)
	for range 8 {
		go func() { // ends with its requests
			for range n / 8 {
				_, err := request("flood", args[0], "{}")
				code, _, _ := strings.Cut(fmt.Sprint(err), ":")
				results <- code
			}
		}()
	}
	count := map[string]int{}
	for range n / 8 * 8 {
		count[<-results]++
	}
	fmt.Println(count)
	return nil
}

// askGarbage opens connections for a time. Each sends nothing, a part of a
// request, or what is none.
func askGarbage(args []string) error {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	parts := [][]byte{nil, askFrame("x", "y", "{}")[:7], {0xff, 0xff, 0xff, 0xff, 'Q'}, []byte("GET / HTTP/1.1\r\n\r\n"), {0, 0, 0, 2, 'Q', '{', '}'}, {0, 0, 0, 1, 'A', '{'}}
	var open []net.Conn
	for end, i := time.Now().Add(d), 0; time.Now().Before(end); i++ {
		conn, err := dialAsk()
		if err != nil {
			continue // there is no room
		}
		_, _ = conn.Write(parts[i%len(parts)]) // it may be closed
		if open = append(open, conn); len(open) > 64 {
			open[0].Close()
			open = open[1:]
		}
	}
	return nil
}

// backlog connects as fast as it can to a socket of its own. That accepts as many
// connections a second as the shim does, and keeps as many.
func backlog([]string) error {
	l, err := net.Listen("unix", "@backlog")
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		var open []net.Conn
		for range time.Tick(10 * time.Millisecond) {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if open = append(open, conn); len(open) > 32 {
				open[0].Close()
				open = open[1:]
			}
		}
	}()
	var open []net.Conn
	for {
		conn, err := net.Dial("unix", "@backlog")
		if err != nil {
			continue // there is no room
		}
		_, _ = conn.Write([]byte("x")) // it may be closed
		if open = append(open, conn); len(open) > 64 {
			open[0].Close()
			open = open[1:]
		}
	}
}
