package fake

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// portKinds are what serveTCP does with a connection, as the program of package
// runtimetest does.
var portKinds = map[string]func(p *Proc, c *portConn) error{
	"echo": func(_ *Proc, c *portConn) error {
		_, err := io.Copy(c, c)
		return errors.Join(err, c.CloseWrite())
	},
	"mute": func(p *Proc, _ *portConn) error {
		<-p.done
		return nil
	},
	"source": func(_ *Proc, c *portConn) error {
		for block := make([]byte, 32<<10); ; {
			if _, err := c.Write(block); err != nil {
				return err
			}
		}
	},
	"count": func(_ *Proc, c *portConn) error {
		n, err := io.Copy(io.Discard, c)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c, n)
		return err
	},
	"greet": func(p *Proc, c *portConn) error {
		_, err := io.WriteString(c, "hello")
		if err = errors.Join(err, c.CloseWrite()); err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, c)
		if err != nil {
			return err
		}
		return p.WriteFile("counted", fmt.Append(nil, n))
	},
}

func serveTCP(p *Proc, args []string) error {
	serve, ok := portKinds[args[1]]
	if !ok {
		return errors.New("no such kind: " + args[1])
	}
	_, number, err := net.SplitHostPort(args[0])
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	p.Listen(port, func(c net.Conn) {
		defer c.Close()
		if err := serve(p, c.(*portConn)); err != nil {
			fmt.Fprintln(p.Stderr, err)
		}
	})
	if err := echo(p, []string{"listening"}); err != nil {
		return err
	}
	return errPark
}
