package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// builtin are the programs that every runtime has. Box imitates the program of
// the same name in package runtimetest; flow tests can use the others instead.
var builtin = map[string]Program{
	"box": testprog, "true": exitWith(0), "false": exitWith(1), "sleep": sleep,
	"echo": func(_ context.Context, p *Proc) int { return codeOf(p, echo(p, p.Args[1:])) },
}

func exitWith(code int) Program {
	return func(context.Context, *Proc) int { return code }
}

// sleep accepts a number of seconds, or a duration in Go's format.
func sleep(_ context.Context, p *Proc) int {
	if len(p.Args) != 2 {
		return 2
	}
	d, err := duration(p.Args[1])
	if err != nil {
		return codeOf(p, err)
	}
	p.ExitAfter(d, 0)
	return Park
}

// testprogCommand is one command of box. One that returns errPark keeps running.
type testprogCommand struct {
	minArgs int // arguments that it needs
	run     func(p *Proc, args []string) error
}

// errPark is how a command of box returns Park; exitCode is how it returns more
// than 0 or 1.
var errPark = errors.New("the process keeps running")

type exitCode int

func (e exitCode) Error() string { return "exit " + strconv.Itoa(int(e)) }

var testprogCommands = map[string]testprogCommand{
	"idle":        {0, idle},
	"exit":        {1, exit},
	"echo":        {0, echo},
	"err":         {0, echoErr},
	"repeat":      {2, repeat},
	"env":         {0, environment},
	"env-idle":    {1, environmentIdle},
	"cat":         {0, cat},
	"noted":       {1, recordSignals},
	"shell":       {1, printScript},
	"spin":        {0, spin},
	"fill":        {2, fill},
	"allocate":    {1, allocate},
	"consume":     {1, consume},
	"pwd":         {0, pwd},
	"id":          {0, identity},
	"hang":        {0, hang},
	"ignore-term": {0, ignoreTerm},
	"signal":      {1, signalSelf},
	"kill":        {2, kill},
	"double-fork": {1, startDaemon},
	"setsid":      {1, startDaemon},
	"farewell":    {1, printOnTerm},
	"forkstorm":   {1, forkstorm},
	"ps":          {1, ps},
	"zombies":     {0, zombies},
	"write":       {2, write},
	"append":      {2, appendTo},
	"read":        {1, read},
	"remove":      {1, remove},
	"chmod":       {2, chmod},
	"mkdir":       {2, mkdir},
	"link":        {2, link},
	"rename":      {2, rename},
	"exchange":    {2, exchange},
	"truncate":    {2, truncate},
	"sparse":      {3, sparse},
	"ends":        {2, ends},
	"walk":        {1, walkTree},
	"stat":        {1, stat},
	"rewrite":     {1, rewrite},
	"replace":     {1, rewrite},
	"attribute":   {1, attribute},
	"access-list": {1, attribute},
	"tcp":         {2, serveTCP},
	"hash":        {0, hash},
	"both":        {1, both},
	"count":       {1, count},
	"mute":        {0, mute},
}

func testprog(ctx context.Context, p *Proc) int {
	args := p.Args[1:]
	if len(args) == 0 {
		fmt.Fprintln(p.Stderr, "box: no command")
		return 2
	}
	if args[0] == "await" && len(args) > 1 { // it blocks on its caller's goroutine
		return codeOf(p, await(ctx, p, args[1:]))
	}
	if args[0] == "ask" && len(args) > 3 { // likewise
		return codeOf(p, askRequest(ctx, p, args[1:]))
	}
	c, ok := testprogCommands[args[0]]
	if !ok || len(args)-1 < c.minArgs {
		fmt.Fprintln(p.Stderr, "box: no such command, or too few arguments: "+args[0])
		return 2
	}
	return codeOf(p, c.run(p, args[1:]))
}

// codeOf returns the exit code for the error of a command.
func codeOf(p *Proc, err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errPark) {
		return Park
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	fmt.Fprintln(p.Stderr, "box: "+err.Error())
	return 1
}

func exit(_ *Proc, args []string) error {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return exitCode(code & 0xff)
}

func echo(p *Proc, args []string) error {
	_, err := fmt.Fprintln(p.Stdout, strings.Join(args, " "))
	return err
}

func echoErr(p *Proc, args []string) error {
	_, err := fmt.Fprintln(p.Stderr, strings.Join(args, " "))
	return err
}

// repeat writes in large chunks.
func repeat(p *Proc, args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	batch := min(n, max(1, (64<<10)/max(1, len(args[0]))))
	piece := []byte(strings.Repeat(args[0], batch))
	for ; n > 0; n -= batch {
		if _, err := p.Stdout.Write(piece[:min(n, batch)*len(args[0])]); err != nil {
			return err
		}
	}
	return nil
}

func environment(p *Proc, args []string) error {
	if len(args) > 0 {
		return echo(p, []string{p.Env[args[0]]})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if err := echo(p, []string{name + "=" + p.Env[name]}); err != nil {
			return err
		}
	}
	return nil
}

func cat(p *Proc, _ []string) error {
	_, err := io.Copy(p.Stdout, p.Stdin)
	return err
}

func pwd(p *Proc, _ []string) error { return echo(p, []string{p.Dir}) }

func identity(p *Proc, _ []string) error {
	var groups []string
	for _, g := range slices.Sorted(slices.Values(p.User.Groups)) {
		groups = append(groups, strconv.Itoa(g))
	}
	_, err := fmt.Fprintf(p.Stdout, "uid=%d gid=%d groups=%s caps=0 nnp=1\n",
		p.User.UID, p.User.GID, strings.Join(groups, ","))
	return err
}
