package fake

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"time"
)

// change changes the files of a running process's container.
func (p *Proc) change(f func(t *tree, u *User) error) error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.dead {
		return fs.ErrClosed
	}
	return f(p.c.files, &p.User)
}

// abs resolves a name in the process's working directory.
func (p *Proc) abs(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return p.Dir + "/" + name
}

// ReadFile returns a file's content. The name is relative to Dir, or absolute.
func (p *Proc) ReadFile(name string) ([]byte, error) {
	if name == scriptPath && p.Script != "" {
		return []byte(p.Script), nil
	}
	var data []byte
	err := p.change(func(t *tree, u *User) error {
		content, err := t.read(p.abs(name), u)
		data = append(data, content...)
		return err
	})
	return data, err
}

// WriteFile creates a file and its missing parent directories, or replaces one.
func (p *Proc) WriteFile(name string, data []byte) error {
	return p.change(func(t *tree, u *User) error {
		if err := t.mkdirAll(path.Dir(p.abs(name)), 0o755, u); err != nil {
			return err
		}
		return t.write(p.abs(name), append([]byte(nil), data...), false, u)
	})
}

func write(p *Proc, args []string) error { return p.WriteFile(args[0], []byte(args[1])) }

func appendTo(p *Proc, args []string) error {
	return p.change(func(t *tree, u *User) error {
		return t.write(p.abs(args[0]), []byte(args[1]), true, u)
	})
}

// await polls, as the program of package runtimetest does.
func await(ctx context.Context, p *Proc, args []string) error {
	for ctx.Err() == nil {
		data, err := p.ReadFile(args[0])
		if err == nil && len(data) > 0 {
			_, err = p.Stdout.Write(data)
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	return ctx.Err()
}

func read(p *Proc, args []string) error {
	data, err := p.ReadFile(args[0])
	if err != nil {
		return err
	}
	_, err = p.Stdout.Write(data)
	return err
}

func remove(p *Proc, args []string) error {
	return p.change(func(t *tree, u *User) error { return t.remove(p.abs(args[0]), u) })
}

func mode(octal string) (fs.FileMode, error) {
	m, err := strconv.ParseUint(octal, 8, 12)
	return fs.FileMode(m).Perm(), err
}

func chmod(p *Proc, args []string) error {
	m, err := mode(args[1])
	if err != nil {
		return err
	}
	return p.change(func(t *tree, u *User) error { return t.chmod(p.abs(args[0]), m, u) })
}

func mkdir(p *Proc, args []string) error {
	m, err := mode(args[1])
	if err != nil {
		return err
	}
	return p.change(func(t *tree, u *User) error { return t.mkdir(p.abs(args[0]), m, u) })
}

func link(p *Proc, args []string) error {
	return p.change(func(t *tree, u *User) error { return t.symlink(args[0], p.abs(args[1]), u) })
}

func stat(p *Proc, args []string) error {
	var line string
	err := p.change(func(t *tree, u *User) error {
		at, err := t.lookupExisting(p.abs(args[0]), false, u)
		if err != nil {
			return err
		}
		kind, size := "file", at.node.size()
		if at.node.mode.IsDir() {
			kind = "dir"
		}
		if at.node.mode&fs.ModeSymlink != 0 {
			kind, size = "link", int64(len(at.node.target))
		}
		line = fmt.Sprintf("%s %o %d %d %d", kind, at.node.mode.Perm(), at.node.uid, at.node.gid, size)
		return nil
	})
	if err != nil {
		return err
	}
	return echo(p, []string{line})
}

// rewrite changes a file's content and keeps its size.
func rewrite(p *Proc, args []string) error {
	data, err := p.ReadFile(args[0])
	if err != nil || len(data) == 0 {
		return err
	}
	data[0]++
	return p.WriteFile(args[0], data)
}

// attribute changes an attribute of a file other than its content and its mode.
func attribute(p *Proc, args []string) error {
	return p.change(func(t *tree, u *User) error {
		at, err := t.lookupExisting(p.abs(args[0]), true, u)
		if err != nil {
			return err
		}
		return t.chmod(p.abs(args[0]), at.node.mode, u)
	})
}
