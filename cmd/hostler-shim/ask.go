package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hostler/hostler/internal/jsonvalue"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// The exit codes of the program, as its help has them. Commands may add others.
const (
	askFailed      = 1
	askUsage       = 2
	askUnavailable = 69 // EX_UNAVAILABLE of <sysexits.h>
	askTemporary   = 75 // EX_TEMPFAIL
)

// askCommand is one command of the program: a request, and how its arguments
// become the body. To add a command is to add a row that askCommands returns, and one of
// the table of package inside.
type askCommand struct {
	name    string // its words, such as "event publish"
	args    string // in the help
	short   string // in the help
	request string // the name of the request
	// long makes the program ask until there is an answer, for as long as that
	// takes. Else it gives up after askTimeout.
	long bool
	// atOnce makes the program give up without a claim. Else it asks for
	// claimTimeout: a server announces a claim just after it became active.
	atOnce bool
	// claimWait replaces claimTimeout. 0: it does not.
	claimWait time.Duration
	// body parses the arguments after the name and returns the body. flags has the
	// flags that all commands have. nil: it has no arguments.
	body func(flags *flag.FlagSet, args []string) (body any, err error)
	// text returns the answer for people. nil: the answer as JSON.
	text func(answer []byte) string
	// outcome returns the exit code for an answer, and what to print with it. nil:
	// every answer is a success.
	outcome func(answer []byte) (code int, problem string)
	// exits are exit codes for problems that only this command has.
	exits map[runtime.ProblemCode]int
}

func askCommands() []askCommand {
	return slices.Concat([]askCommand{claimCommand}, eventCommands, memoryCommands, []askCommand{waitCommand, releaseCommand})
}

var (
	claimCommand = askCommand{
		name: "claim", short: "print the claim, the workload, the container and the tenant, as JSON", request: "claim",
	}
	releaseCommand = askCommand{
		name: "release", short: "release the claim; its container may end before the answer is printed", request: "release", atOnce: true,
		text: func([]byte) string { return "releasing" },
	}
)

// How long the program asks for while no server answers, and while the container
// has no claim.
const (
	askTimeout   = time.Minute
	claimTimeout = time.Second
)

// The waits between attempts.
const (
	minAskWait = 100 * time.Millisecond
	maxAskWait = 2 * time.Second
)

// runAsk is the program that processes of a container use: it sends a request to
// the server, without a network, a token or an address.
func runAsk(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		if len(args) == 0 {
			fmt.Fprint(stderr, askHelp())
			return askUsage
		}
		fmt.Fprint(stdout, askHelp())
		return 0
	}
	c, rest := findAskCommand(args)
	if c == nil {
		fmt.Fprintf(stderr, "hostler: unknown command %q; see hostler --help\n", args[0])
		return askUsage
	}
	return c.run(rest, stdout, stderr)
}

// findAskCommand returns the command that the arguments begin with, and the rest.
func findAskCommand(args []string) (*askCommand, []string) {
	for _, c := range askCommands() {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			return &c, args[len(words):]
		}
	}
	return nil, nil
}

// run parses the arguments, sends the request and prints the answer.
func (c *askCommand) run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	output := flags.String("o", "", "output: json, or empty for text")
	body, err := c.parse(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "usage: hostler %s\n\n%s\n\n", c.usage(), c.short)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return 0
	case err == nil && *output != "" && *output != "json":
		err = fmt.Errorf("unknown output %q", *output)
	}
	if err != nil {
		fmt.Fprintf(stderr, "hostler %s: %s\nusage: hostler %s\n", c.name, printable(err.Error()), c.usage())
		return askUsage
	}
	answer := c.ask(body)
	if answer.Problem != nil {
		return c.printProblem(*answer.Problem, *output, stdout, stderr)
	}
	return c.printAnswer(answer.Body, *output, stdout, stderr)
}

// printAnswer prints an answer and returns the exit code.
func (c *askCommand) printAnswer(answer []byte, output string, stdout, stderr io.Writer) int {
	answer = jsonvalue.Escaped(bytes.TrimSpace(answer), isControl) // tenants' values stay what they are
	text := string(answer)
	if c.text != nil && output == "" {
		text = printable(c.text(answer))
	}
	if text != "" {
		fmt.Fprintln(stdout, text)
	}
	if c.outcome == nil {
		return 0
	}
	code, problem := c.outcome(answer)
	if problem != "" {
		fmt.Fprintln(stderr, "hostler: "+problem)
	}
	return code
}

func (c *askCommand) usage() string {
	return strings.TrimSpace(c.name + " [-o json] " + c.args)
}

// parse returns the encoded body.
func (c *askCommand) parse(flags *flag.FlagSet, args []string) ([]byte, error) {
	if slices.ContainsFunc(args, func(a string) bool { return !utf8.ValidString(a) }) {
		return nil, errors.New("an argument is not UTF-8") // JSON would have another text
	}
	var body any = struct{}{}
	var err error
	if c.body != nil {
		body, err = c.body(flags, args)
	} else if err = flags.Parse(args); err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		return nil, err
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, err
	}
	if encoded.Len() > runtime.MaxRequestBody {
		return nil, fmt.Errorf("the request has %d bytes, at most %d are allowed", encoded.Len(), runtime.MaxRequestBody)
	}
	return encoded.Bytes(), nil
}

// ask sends the request until there is an answer. Every attempt has the same ID:
// the server does what is asked once.
func (c *askCommand) ask(body []byte) shim.Answer {
	ask := &shim.Ask{ID: rand.Text(), Name: c.request, Body: body}
	deadline, wait := time.Now().Add(askTimeout), minAskWait
	claimDeadline := time.Now().Add(cmp.Or(c.claimWait, claimTimeout))
	for {
		answer := askOnce(ask)
		problem := runtime.ProblemCode("")
		if answer.Problem != nil {
			problem = answer.Problem.Code
		}
		switch {
		case problem == runtime.ProblemPending:
			deadline, wait = time.Now().Add(askTimeout), minAskWait
			continue // the server has waited
		case problem == runtime.ProblemNoClaim && !c.atOnce && time.Now().Before(claimDeadline):
		case problem != runtime.ProblemUnavailable && problem != runtime.ProblemBusy:
			return answer
		case !c.long && time.Now().After(deadline):
			return answer
		}
		<-time.After(wait)
		wait = min(2*wait, maxAskWait)
	}
}

// noServer is the problem where nothing serves requests of the container. It does
// not end, so that nothing is asked again.
func noServer(why string) shim.Answer {
	return shim.Refuse(runtime.ProblemUnsupported,
		"this container does not send requests to Hostler: an older server has created it, or it is none of Hostler's ("+why+")")
}

// askOnce sends a request to init and returns the answer. Init closes the
// connection of a request for which it has no room.
func askOnce(ask *shim.Ask) shim.Answer {
	path := os.Getenv(shim.AskSocketEnv)
	if path == "" {
		path = shim.AskSocket
	}
	fd, err := dial(path)
	if err != nil {
		return noServer(err.Error())
	}
	socket := os.NewFile(uintptr(fd), "init")
	defer socket.Close()
	_ = socket.SetDeadline(time.Now().Add(shim.AskTimeout + serverWait + askIOTimeout))
	closed := shim.Refuse(runtime.ProblemUnavailable, "the connection was closed")
	if err := shim.WriteFrame(socket, shim.KindRequest, shim.Request{Op: shim.OpAsk, Ask: ask}); err != nil {
		return closed // it is asked again
	}
	f, err := shim.ReadFrame(socket, shim.MaxAskSize)
	if err != nil {
		return closed // the same
	}
	response, err := shim.Decode[shim.Response](f, shim.KindResponse)
	if err != nil || response.Answer == nil {
		return noServer("it is not Hostler that listens")
	}
	return *response.Answer
}

// askExits are the exit codes of problems. All others are askFailed.
var askExits = map[runtime.ProblemCode]int{
	runtime.ProblemUnavailable: askTemporary,
	runtime.ProblemBusy:        askTemporary,
	"rate_limited":             askTemporary,
	runtime.ProblemNoClaim:     askUnavailable,
	runtime.ProblemUnsupported: askUnavailable,
	runtime.ProblemInvalid:     askUsage,
}

// printProblem prints a problem and returns the exit code.
func (c *askCommand) printProblem(problem runtime.Problem, output string, stdout, stderr io.Writer) int {
	if output == "json" {
		encoded, _ := json.Marshal(problem) // strings always encode
		fmt.Fprintln(stdout, string(encoded))
	}
	fmt.Fprintln(stderr, "hostler: "+printable(string(problem.Code)+": "+problem.Detail))
	if code, ok := c.exits[problem.Code]; ok {
		return code
	}
	if code, ok := askExits[problem.Code]; ok {
		return code
	}
	return askFailed
}

// printable replaces control characters: a text may be that of another program.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return '�'
		}
		return r
	}, text)
}

// isControl reports whether a character is one of control that is not white space.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// askHelp returns the help.
func askHelp() string {
	var help strings.Builder
	help.WriteString("hostler sends a request to the Hostler server, for the claim that this container belongs to.\n\nusage:\n")
	width := 0
	for _, c := range askCommands() {
		width = max(width, len(c.usage()))
	}
	for _, c := range askCommands() {
		fmt.Fprintf(&help, "  hostler %-*s  %s\n", width, c.usage(), c.short)
	}
	help.WriteString(`
exit codes:
  0   done
  1   failed, or refused
  2   usage error
  3   there is no value under the key
  8   the wait has timed out; 9: it was aborted; 10: it was cancelled
  69  not available: the container has no active claim, or an older server created it
  75  no server can be reached, or too many requests: try again later
`)
	return help.String()
}
