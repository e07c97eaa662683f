package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// portKinds are what serveTCP does with a connection.
var portKinds = map[string]func(c *net.TCPConn) error{
	"echo": func(c *net.TCPConn) error {
		_, err := io.Copy(onlyWriter{c}, c)
		return errors.Join(err, c.CloseWrite())
	},
	"mute": func(*net.TCPConn) error { select {} },
	"source": func(c *net.TCPConn) error {
		for block := make([]byte, 32<<10); ; {
			if _, err := c.Write(block); err != nil {
				return err
			}
		}
	},
	"count": func(c *net.TCPConn) error {
		n, err := io.Copy(io.Discard, c)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c, n)
		return err
	},
	"greet": func(c *net.TCPConn) error {
		_, err := io.WriteString(c, "hello")
		if err = errors.Join(err, c.CloseWrite()); err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, c)
		if err != nil {
			return err
		}
		return os.WriteFile("counted", fmt.Append(nil, n), 0o644)
	},
}

// onlyWriter hides the other methods, so that a copy uses a buffer.
type onlyWriter struct{ io.Writer }

func serveTCP(args []string) error {
	serve, ok := portKinds[args[1]]
	if !ok {
		return errors.New("no such kind: " + args[1])
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { // ends with the connection
			defer c.Close()
			if err := serve(c.(*net.TCPConn)); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
}
