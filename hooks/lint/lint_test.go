package lint

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rulesOf returns the rules of findings of a class.
func rulesOf(found []Finding, class Class) []string {
	var all []string
	for _, f := range found {
		if f.Class == class && !slices.Contains(all, f.Rule) {
			all = append(all, f.Rule)
		}
	}
	return all
}

// What destroys is found in every spelling of it, also behind other programs.
func TestForbidden(t *testing.T) {
	tests := map[string][]string{ // rule → scripts
		"rm -rf": {
			"rm -rf /x", "rm -fr x", "rm -r -f x", "rm -f x -R", "rm --recursive --force x", "rm --rec --fo x", "/bin/rm -rf x", `\rm -rf x`,
			`r"m" -r''f x`, `$'\x72m' -rf x`, "X=1 rm -rf x", "true && rm -rf x", "if a; then rm -rf x; fi", "f() { rm -rf x; }", "(rm -rf x)",
			"a | xargs rm -rf", "a | xargs -0 -I {} -P2 rm -rf {}", "echo $(rm -rf x)", "echo `rm -rf x`", `echo "a $(rm -rf x)"`, "cat <(rm -rf x)", "rm -rf x &",
			"sh -c 'rm -rf x'", `bash -ec "rm -rf $HOME/x"`, "bash -o pipefail -c 'rm -rf x'", "bash --norc -c 'rm -rf x'", "sh -c 'sh -c \"rm -rf x\"'",
			"sh -c '\"$@\"' sh rm -rf x", "env -S 'rm -rf' x", "env -S'A=b rm -rf x'", "env -vS 'rm -rf x'", "env --split-string='rm -rf x'",
			"env -i -u A B=c rm -rf x", "nohup nice -n 5 timeout -k 1 5 rm -rf x", "sudo -u root rm -rf x", "exec -a n rm -rf x", "command rm -rf x",
			"busybox rm -rf x", "time rm -rf x", "find . -name x -exec rm -rf {} +", "find . -execdir sh -c 'rm -rf x' \\;", "eval rm '-rf' x",
			`eval "rm -rf x"`, "trap 'rm -rf x' EXIT", "su - user -c 'rm -rf x'", "runuser -u a rm -rf x", "runuser a -c 'rm -rf x'", "runuser - a --command='rm -rf x'", "runuser a -c 'rm -rf x' -u",
			"flock /l flock -w 5 /m -c 'rm -rf x'", "flock -c 'rm -rf x' /l", "su flock a -c 'rm -rf x'", "runuser -u a flock /l -c 'rm -rf x'", "flock /l -c 'rm -rf x'", "flock /l rm -rf x",
			"watch -n 1 rm -rf x", "ssh -p 2 host rm -rf x", "ssh host 'rm -rf x'", "chroot / rm -rf x", "bash <<E\nrm -rf x\nE", "bash -s a <<'E'\nrm -rf x\nE",
			"bash <<< 'rm -rf x'", "cat <<E\n$(rm -rf x)\nE", "time -p rm -rf x", "stdbuf -oL rm -rf x", "zsh -c 'rm -rf x'", "rm -rf\\\n x", "a=$(rm -rf x)",
			"[[ $(rm -rf x) ]]", "for i in a; do rm -rf $i; done", "coproc rm -rf x", "setsid -w rm -rf x", "script -c 'rm -rf x' /dev/null",
		},
		"git push --force": {
			"git push --force", "git push -f", "git push origin -f", "git -C d -c a=b push --force-with-lease", "git push origin +main", "git --no-pager push -fu origin x",
		},
		"git reset --hard": {"git reset --hard", "git reset HEAD~1 --hard", "git --git-dir d reset --har"},
		"git clean -fd":    {"git clean -fd", "git clean -d -f", "git clean -xdf", "git clean --force -d"},
		"drop table":       {"psql -c 'DROP TABLE x'", "mysql -e \"drop\n table x\"", "psql <<E\nDROP  TABLE x;\nE", "sqlite3 f 'drop/**/table x'", "x drop table y"},
		"drop database":    {"psql -c 'Drop Database x'", "mysql <<< 'drop database x'", "a 'b' \"drop database\""},
		"truncate table":   {"psql -c 'TRUNCATE TABLE x'"},
		"mkfs":             {"mkfs /dev/x", "mkfs.ext4 x", "/sbin/mkfs.xfs x", "mke2fs x"},
		"dd of=":           {"dd if=/dev/zero of=x", "dd of=x", "dd bs=1 if=x"},
		"writing to /dev/sd*": {
			"echo > /dev/sda", "echo >> /dev/sda1", "a >| /dev/sdb", "a &> /dev/sda", "a | tee /dev/sda", "cp x /dev/sda", "{ a; b; } > /dev/sda", "> /dev/sda",
			"a > //dev/nvme0n1", "a > \"/dev/sda\"",
		},
		"shred":        {"shred x", "shred -u x"},
		"chmod 777":    {"chmod 777 x", "chmod -R 0777 x", "chmod a+rwx x", "chmod ugo=rwx x"},
		"chown root":   {"chown root x", "chown -R root:root x", "chown 0:0 x", "chown root. x"},
		"sudo":         {"sudo a", "doas a", "/usr/bin/sudo a"},
		"nc -l":        {"nc -l 80", "ncat -lvp 80", "nc -vl 80", "ncat --listen 80", "busybox nc -l"},
		"nmap":         {"nmap x"},
		"tcpdump":      {"tcpdump -i x"},
		"sqlite3 DROP": {"sqlite3 f 'DROP TABLE x'", "sqlite3 f 'drop view v'", "sqlite3 f <<E\nDROP INDEX i;\nE"},
		"dd":           {"a | dd bs=1 | b"},
	}
	for rule, scripts := range tests {
		for _, script := range scripts {
			found := Script(script, []string{"/bin/bash"})
			require.Contains(t, rulesOf(found, Forbidden), rule, "%s", script)
			require.Empty(t, rulesOf(found, Invalid), "%s", script)
			viaArgs := Args([]string{"bash", "-c", script})
			require.Contains(t, rulesOf(viaArgs, Forbidden), rule, "%s", script)
		}
	}
}

// What does not destroy is not found.
func TestNotForbidden(t *testing.T) {
	for _, script := range []string{
		"rm -r x", "rm -f x", "rm x", "rm -- -rf", "echo rm -rf x", "echo 'rm -rf x'", "# rm -rf x", "git push", "git push --follow-tags", "git push origin f",
		"git reset --soft", "git reset", "git clean -n -d", "git clean -f", "git commit -m push --force", "chmod 755 x", "chmod 1777 /tmp", "chown app:root x", "chown app x",
		"nc -z h 80", "a > /dev/null", "a < /dev/sda", "a > /dev/stdout", "cat <<E\nrm -rf x\nE", "command -v rm -rf", "x=rm; y=-rf", "f=dd", "git log -f --hard", "sqlite3 f 'select 1'",
		"type sudo", "su app", "bash script <<E\nrm -rf x\nE", "psql -c 'select drop_table'", "gitx push --force",
	} {
		require.Empty(t, rulesOf(Script(script, []string{"bash"}), Forbidden), "%s", script)
	}
	require.Empty(t, Args([]string{"echo", "rm", "-rf"}))
	require.Empty(t, Args([]string{"$(rm -rf x)"}), "no shell reads it")
	require.Empty(t, Args(nil))
}

// Guards enforce ten patterns; the others are only for validate.
func TestDestructive(t *testing.T) {
	want := []string{
		"rm -rf", "git push --force", "git reset --hard", "git clean -fd", "mkfs", "dd of=", "writing to /dev/sd*", "drop table", "drop database", "truncate table",
	}
	for _, command := range []string{
		"rm -rf x", "git push -f", "git reset --hard", "git clean -fd", "mkfs x", "dd of=x", "a > /dev/sda", "a drop table", "a drop database", "a truncate table",
		"shred x; sudo nmap; tcpdump; nc -l; chmod 777 x; chown root x; sqlite3 f 'drop view v'; dd; curl x; kill 1",
	} {
		for _, f := range Script(command, []string{"sh"}) {
			require.Equal(t, slices.Contains(want, f.Rule), f.Destructive, "%s: %s", command, f.Rule)
		}
	}
}

// A finding has the position of its command in the text.
func TestPositions(t *testing.T) {
	got := Script("a\n  if b; then\n    rm -rf x\n  fi\nsh -c 'c\nshred x'\n", []string{"sh"})
	require.Equal(t, []string{"3:5 rm -rf", "5:1 shred"}, positions(got, Forbidden))
	require.Equal(t, []string{"2 2:3 rm -rf"}, argPositions(Args([]string{"sh", "-c", "a\n  rm -rf x"})))
	require.Equal(t, []string{"1 0:0 rm -rf"}, argPositions(Args([]string{"nohup", "rm", "-rf", "x"})))
	require.Equal(t, []string{"3 1:1 rm -rf"}, argPositions(Args([]string{"env", "bash", "-c", "rm -rf x"})))
}

func positions(found []Finding, class Class) []string {
	var all []string
	for _, f := range found {
		if f.Class == class {
			all = append(all, fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Rule))
		}
	}
	return all
}

func argPositions(found []Finding) []string {
	var all []string
	for _, f := range found {
		if f.Class == Forbidden {
			all = append(all, fmt.Sprintf("%d %d:%d %s", f.Arg, f.Line, f.Column, f.Rule))
		}
	}
	return all
}

// A script is read in the language of its shell. Where sh may be another shell,
// what that understands is no error; other shells are not read.
func TestLanguages(t *testing.T) {
	tests := []struct {
		shell  []string
		script string
		want   []string
	}{
		{[]string{"/bin/sh"}, "if a; then", []string{"1:7 syntax"}},
		{[]string{"bash"}, "a\nb (", []string{"2:1 syntax"}},
		{[]string{"/usr/bin/env", "-i", "bash"}, "x=(1 2)", nil},
		{[]string{"busybox", "sh"}, "fi", []string{"1:1 syntax"}},
		{[]string{"sh"}, "x=(1 2)", nil},
		{[]string{"busybox", "ash"}, "x=(1 2)", nil},
		{[]string{"dash"}, "x=(1 2)", []string{"1:3 syntax"}},
		{[]string{"mksh"}, "a |&", nil},
		{[]string{"python3"}, "if a:", nil},
		{[]string{"zsh"}, "if a; then", nil},
		{[]string{"/usr/bin/env", "python3"}, "if a:", nil},
		{nil, "fi", nil},
	}
	for _, test := range tests {
		require.Equal(t, test.want, positions(Script(test.script, test.shell), Invalid), "%q in %q", test.script, test.shell)
	}
	require.Equal(t, []string{"1:3 syntax"}, positions(Script("x=(1 2)", []string{"sh"}), Advice))
	require.Equal(t, []string{"1:1 syntax"}, positions(Args([]string{"sh", "-c", "fi"}), Invalid))
	require.Empty(t, positions(Args([]string{"fish", "-c", "end"}), Invalid))
	require.Empty(t, positions(Script(`sh -c "$x fi ("`, []string{"sh"}), Invalid), "it is not known whole")
}

// Variables that are split, and failures that are not noticed, are noted once.
func TestAdvice(t *testing.T) {
	tests := map[string][]string{
		"set -e\na $x\nb $y":                     {"2:3 unquoted variable"},
		"set -e\na \"$x\" ${#x} $? $# $!":        nil,
		"set -e\nx=$y; [[ $x ]]; z=\"$x\"":       nil,
		"set -e\na k=${x:-y}":                    {"2:5 unquoted variable"},
		"a $HOSTLER_RUN_ID":                      nil,
		"a $HOSTLER_TENANT":                      {"1:3 unquoted variable"},
		"a\nb\nc":                                {"1:1 unguarded command"},
		"a || exit 1\nif b; then c; fi\nd":       nil,
		"set -euo pipefail\na\nb":                nil,
		"set -o errexit\na\nb":                   nil,
		"echo x\na":                              nil,
		"a":                                      nil,
		"! a\nb & \nc":                           nil,
		"a --data '{\"x\": \"$TASK\"}'":          {"1:10 variable in single quotes"},
		"a '[\"${TASK}\"]'":                      {"1:3 variable in single quotes"},
		"x='{ \"a\": $b }'":                      {"1:3 variable in single quotes"},
		"a '{\"x\":\"'\"$x\"'\", \"y\":\"$y\"}'": {"1:15 variable in single quotes"},
		"a '{\"x\":\"'\"$x\"'\"}' '$x'":          nil,
		"a \"{\\\"x\\\": \\\"$x\\\"}\"":          nil,
		"a '{\"price\": \"$5\"}'":                nil,
		"a --data='{\"x\": \"$TASK\"}'":          {"1:10 variable in single quotes"},
		"a -d'{\"x\": \"$TASK\"}'":               {"1:5 variable in single quotes"},
		"a '{\"$ref\": \"#/x\", \"$y\" : 1}'":    nil,
		"a '{\"$ref\": \"$TASK\"}'":              {"1:3 variable in single quotes"},
		"timeout 3 jq -n '{\"x\": $x}'":          nil,
		"jq -n '{\"x\": $x}'":                    nil,
		"awk '{print $NF}' x":                    nil,
		"sh -c '{ a \"$x\"; }'":                  nil,
	}
	for script, want := range tests {
		got := positions(Script(script, []string{"bash"}), Advice)
		require.Equal(t, want, got, "%s", script)
	}
	found := Script("a\nb\nc", []string{"sh"})
	require.Contains(t, found[0].Message, "(and 1 more)")
	found = Script(`a '{"x": "$x"}' && b '{"y": "${y}"}'`, []string{"sh"})
	require.Contains(t, found[0].Message, "(and 1 more)")
	require.Len(t, Args([]string{"sh", "-c", `a '{"x": "$x"}'`}), 1)
}

// What CFN restricts is told apart.
func TestRestricted(t *testing.T) {
	require.Equal(t, []string{"pkill", "curl"}, rulesOf(Script("pkill x; curl y", []string{"sh"}), Restricted))
}

// A judge ends soon and reports what it does not read.
func TestNesting(t *testing.T) {
	deep := []string{
		strings.Repeat("env ", 20000) + "rm -rf x",
		strings.Repeat("find x -exec ", 5000) + "rm -rf x",
		strings.Repeat("sh -c '$@' x ", 5000) + "rm -rf x",
		nestedScripts(12),
		inLocks(7),
		strings.Repeat("$(", 10000), strings.Repeat("eval ", 10000) + "rm -rf x", strings.Repeat("(", 20000),
	}
	for i, script := range deep {
		begin := cpuTime(t)
		found := Script(script, []string{"bash"})
		require.Less(t, cpuTime(t)-begin, 5*time.Second, "%d", i)
		require.NotEmpty(t, found, "%d", i)
	}
	require.Contains(t, rulesOf(Script(deep[0], []string{"bash"}), Forbidden), "nesting")
	require.Contains(t, rulesOf(Script(deep[3], []string{"bash"}), Forbidden), "nesting")
}

// cpuTime returns the time that this process has computed. Other processes of the
// machine do not change it.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// nestedScripts returns sh -c in sh -c, n deep.
func nestedScripts(n int) string {
	script := "rm -rf x"
	for range n {
		script = "eval '" + strings.ReplaceAll(script, "'", `'\''`) + "'"
		if len(script) > 60000 {
			break
		}
	}
	return script
}

// inLocks returns a script in the option of a program that many others start, n
// deep.
func inLocks(n int) string {
	script := "rm -rf x"
	for range n {
		quoted := "'" + strings.ReplaceAll(script, "'", `'\''`) + "'"
		script = strings.Repeat("flock a ", 10) + strings.Repeat("runuser -u a ", 10) + strings.Repeat("script a ", 10) + "su -c " + quoted
	}
	return script
}

// No text makes a judge panic, and what a script does alone is also seen in a
// script that another shell gets.
func FuzzScript(f *testing.F) {
	for _, seed := range []string{"rm -rf x", "sh -c 'git push -f'", "env -S 'rm -rf' x", "a <<E\n$(b)\nE", "x=(1 2) ${a:-$(b)}", "find . -exec a {} +", "$'\\x72'", "trap a", "su -c", "env -S", "xargs"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		for _, shell := range []string{"sh", "bash", "mksh"} {
			for _, found := range Script(text, []string{shell}) {
				require.NotEmpty(t, found.Rule)
				require.NotEmpty(t, found.Message)
				require.GreaterOrEqual(t, found.Line, 0)
				require.LessOrEqual(t, found.Line, strings.Count(text, "\n")+1)
			}
		}
		alone := Script(text, []string{"bash"})
		if strings.Contains(text, unknown) || len(rulesOf(alone, Invalid)) > 0 {
			return
		}
		require.Subset(t, rulesOf(Args([]string{"bash", "-c", text}), Forbidden), rulesOf(alone, Forbidden), "%q", text)
		Args(strings.Fields(text))
	})
}
