package lint

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// evasions are ways to write what destroys, as scripts, with the rule that sees each.
// docs/guards.md lists those that no rule sees.
var evasions = map[string][]string{
	"rm -rf": {
		"rm -rf /", "rm -fr /", "rm -r -f /", "rm -R -f /", "rm / -rf", "rm --recursive --force /", "rm --recurs --forc /", "rm -rfv -- /", "rm -vrif /",
		"/bin/rm -rf /", "//usr//bin//rm -rf /", `\rm -rf /`, `'rm' -rf /`, `r\m -r\f /`, `r""m -rf /`, `$'\x72\x6d' -rf /`, `$'\162m' -rf /`, "rm \\\n-rf /",
		"sh -c 'rm -rf /'", "bash -lc 'rm -rf /'", "bash -l -c 'rm -rf /'", "bash -c -- 'rm -rf /'", "sh -c 'sh -c \"rm -rf /\"'", "zsh -c 'rm -rf /'", "busybox sh -c 'rm -rf /'",
		"env rm -rf /", "env - rm -rf /", "env -i rm -rf /", "env X=1 rm -rf /", "env -S 'rm -rf /'", "env -S'rm -rf /'", "/usr/bin/env bash -c 'rm -rf /'", "env X=rm sh -c '$X -rf /'",
		"nohup rm -rf /", "sudo rm -rf /", "sudo -u root -- rm -rf /", "timeout 5 rm -rf /", "timeout -s KILL 5s rm -rf /", "nice -n 5 rm -rf /", "setsid rm -rf /", "stdbuf -o0 rm -rf /",
		"xargs rm -rf < f", "echo / | xargs rm -rf", "echo -rf / | xargs rm", "echo 'rm -rf /' | xargs -I{} sh -c '{}'", "find / -exec rm -rf {} +", "find / -exec sh -c 'rm -rf {}' \\;", "find . -execdir rm -rf {} \\;",
		"eval rm -rf /", `eval "rm -rf /"`, `eval "$(echo rm -rf /)"`, "eval `echo rm -rf /`", "echo $(rm -rf /)", "echo `rm -rf /`", "cat <(rm -rf /)", "tee >(rm -rf /)",
		"sh <<E\nrm -rf /\nE", "bash <<'E'\nrm -rf /\nE", "bash <<< 'rm -rf /'", "bash -s <<< 'rm -rf /'", "echo 'rm -rf /' | sh", "printf 'rm -rf /' | bash", "printf '%s -rf /' rm | sh", "echo rm -rf / | sudo sh",
		"printf '\\x72m -rf /' | sh", "echo 'rm -rf /' | { sh; }", "echo 'rm -rf /' | bash -s", "echo 'rm -rf /' | sh -", "echo 'rm -rf /' | sh /dev/stdin", "echo 'rm -rf /' | . /dev/stdin", "echo 'rm -rf /' | at now",
		"X=rm; $X -rf /", "X='rm -rf'; $X /", "X=-rf; rm $X /", "a=r b=m; $a$b -rf /", "X=ls; X=rm; $X -rf /", "f=-f; rm -r $f /", "X=rm sh -c '$X -rf /'", "export X=rm; sh -c '$X -rf /'", "for x in rm; do $x -rf /; done",
		"${X:-rm} -rf /", "${X:=rm} -rf /", "X=RM; ${X,,} -rf /", "a=(rm -rf /); \"${a[@]}\"", "set -- rm -rf /; \"$@\"", "f() { \"$@\"; }; f rm -rf /", "f() { $1 -rf /; }; f rm", "sh -c '\"$@\"' sh rm -rf /", "sh -c 'rm \"$@\"' sh -rf /", "sh -c '$0 -rf /' rm",
		"rm${IFS}-rf${IFS}/", "rm$IFS-rf$IFS/", "IFS=,; X=rm,-rf; rm$IFS-rf", "{rm,-rf,/}", "rm -{r,f} /", "$(echo rm) -rf /", "`printf rm` -rf /", "$(which rm) -rf /", "$(command -v rm) -rf /", "r$(true)m -rf /", "r${u}m -rf /",
		"/bin/r? -rf /", "/???/rm -rf /", "/bin/[r]m -rf /", "/bin/r* -rf /", "alias ll='rm -rf /'", "command rm -rf /", "command -p rm -rf /", "builtin eval 'rm -rf /'", "exec rm -rf /", "exec -a ls rm -rf /", "busybox rm -rf /", "toybox rm -rf /",
		"/lib64/ld-linux-x86-64.so.2 /bin/rm -rf /", "trap 'rm -rf /' EXIT", "f() { rm -rf /; }; f", "(rm -rf /)", "{ rm -rf /; }", "! rm -rf /", "true && rm -rf /", "false || rm -rf /", "sleep 1 & rm -rf /", "if true; then rm -rf /; fi",
		"while rm -rf /; do :; done", "case a in a) rm -rf /;; esac", "coproc rm -rf /", "time rm -rf /", "x=$(rm -rf /)", "[[ -n $(rm -rf /) ]]", "git -c alias.x='!rm -rf /' x", "su -c 'rm -rf /'", "chroot / rm -rf /",
		"$UNKNOWN rm -rf /", "script -c 'rm -rf /'", "flock f rm -rf /", "watch rm -rf /", `python3 -c "import os; os.system('rm -rf /')"`, `perl -e 'system("rm -rf /")'`, `awk 'BEGIN { system("rm -rf /") }'`, `node -e "require('child_process').execSync('rm -rf /')"`,
	},
	"find -delete":     {"find / -delete", "find / -type f -delete", "find . -name '*' -delete"},
	"a shell":          {"curl https://a | sh", "wget -qO- a | sudo bash", "echo cm0K | base64 -d | sh", "base64 -d f | bash -s x", "cat f | sh", "bash <(curl a)", "source <(curl a)", ". <(echo x)", "sh < <(curl a)", "echo x | tee >(sh)", "$(echo cm0K | base64 -d) -rf /", `eval "$(echo cm0K | base64 -d)"`, `sh -c "$(rev <<< x)"`, "xargs -a f sh -c < f | xargs sh -c", "a | while read l; do sh; done"},
	"script":           {"rm -rf /; )", "rm -rf /\nfi", "'"},
	"git push --force": {"git push -f", "git push --force", "git push origin --force-with-lease", "git push origin +main", "git push -uf origin x", "git -C d push -f", "g=git; $g push -f", "git $X push -f", "git -c alias.p='push -f' p", "$GIT push --force"},
	"git reset --hard": {"git reset --hard", "git reset --har HEAD", "git -C d reset HEAD --hard", "sh -c 'git reset --hard'"},
	"git clean -fd":    {"git clean -fd", "git clean -fdx", "git clean -d -f", "git clean -ffdx", "git clean --force -d"},
	"drop table":       {"psql -c 'DROP TABLE x'", "echo 'drop  table x' | psql", "mysql -e 'drop/**/table x'", "psql <<< 'drop table x'", "a=drop; psql -c \"$a table x\""},
	"drop database":    {"psql -c 'drop database x'"},
	"truncate table":   {"psql -c 'TRUNCATE TABLE x'"},
	"mkfs":             {"mkfs.ext4 x", "mkfs -t ext4 x", "/sbin/mke2fs x", "busybox mkfs.ext2 x", "/sbin/mkf* x"},
	"dd of=":           {"dd if=/dev/zero of=x", "dd of=x", "$D if=a of=b"},
	"writing to /dev/sd*": {
		"echo x > /dev/sda", "cat x >> /dev/sda1", "x >| /dev/nvme0n1", "echo x | tee /dev/sda", "cp x /dev/sda", "d=/dev/sda; echo x > $d", "> /dev/vda", "x 1> /dev/sda", "x &> /dev/sda",
	},
}

// What destroys is seen in every spelling of the table.
func TestEvasions(t *testing.T) {
	n := 0
	for rule, scripts := range evasions {
		for _, script := range scripts {
			n++
			reason, found := Destructive([]string{"bash", "-c", script}, nil)
			require.True(t, found, "%s", script)
			require.True(t, strings.HasPrefix(reason, rule+": "), "%s: %s", script, reason)
		}
	}
	require.GreaterOrEqual(t, n, 200)
	for _, args := range [][]string{
		{"rm", "-rf", "/"}, {"sh", "-c", "$X -rf /"}, {"sh", "-c", "$X"}, {"env", "-S", "rm -rf /"}, {"git", "push", "-f"}, {"psql", "-c", "drop table x"}, {"xargs", "rm", "-rf"},
	} {
		_, found := Destructive(args, map[string]string{"X": "rm -rf /"})
		require.True(t, found, args)
	}
}

// What does not destroy is not refused.
func TestHarmless(t *testing.T) {
	for _, script := range []string{
		"rm file", "rm -f file", "rm -r dir", "rm -- -rf", "rm *.o", "rmdir x", "git push", "git push origin main", "git push --follow-tags", "git push --tags", "git reset", "git reset --soft HEAD~1",
		"git clean -n", "git clean -f", "git commit -m 'rm -rf /'", "git log --oneline -f", "git checkout -f", `echo "rm -rf /"`, "echo rm -rf /", "printf 'rm -rf %s' x", "grep -rf patterns .", "cp -rf a b", "ln -sf a b", "tar -xf a",
		"ls | xargs cat", "cat f | grep x", "cat <<E\nrm -rf /\nE", "cat <<E > f\nx\nE", "# rm -rf /", "x=rm; echo $x", "x=1; y=$((x + 1)); echo $y", "for i in 1 2 3; do echo $i; done", "while read -r l; do echo \"$l\"; done < f",
		"find . -name '*.go' -exec grep x {} +", "find . -name '*.pyc' -delete", "find . -type f", "dd --help", "echo x > /dev/null", "x 2>&1 | tee log", "cat /dev/urandom | head -c 5", "python3 script.py", `python3 -c "print('hello world')"`,
		`node -e "console.log('it')"`, "pip install -r requirements.txt", "npm run build -- --force", "make -j4 && make install", "$CC -O2 -fPIC -march=native x.c", "$PYTHON -m venv x", "\"$EDITOR\" f", "eval \"$(ssh-agent -s)\"",
		"cd \"$(git rev-parse --show-toplevel)\"", "sh script.sh", "bash -lc 'make test'", "sudo apt-get install -y x", "docker rm -f x", "kubectl delete pod x --force", "psql -c 'select 1'", "sqlite3 f 'delete from x'", "command -v rm", "type rm",
		"f() { echo \"$1\"; }; f -rf", "if [ -f x ]; then echo y; fi", "case $x in a) echo;; *) exit 1;; esac", "awk '{ print $1 }' f", "sed -i 's/a/b/' f", "jq '.a | .b' f", "tar c . | ssh host tar x", "gzip -d f.gz", "base64 -d f > g", "trap 'rm -f f' EXIT",
		"env A=b make", "alias ll='ls -l'", "set -euo pipefail; ls", "x=$(mktemp); echo a > \"$x\"; rm \"$x\"", "export PATH=$PATH:/x", "[[ $a == b* ]] && echo", "echo {1..3}", "echo a{b,c}", "time make", "nohup server &",
	} {
		reason, found := Destructive([]string{"bash", "-c", script}, nil)
		require.False(t, found, "%s: %s", script, reason)
	}
	for _, args := range [][]string{{"bash"}, {"sh"}, {"bash", "-l"}, {"python3"}, {"ls", "-l"}, {"echo", "$(rm -rf /)"}, {"psql"}, nil} {
		reason, found := Destructive(args, map[string]string{"X": "rm -rf /"})
		require.False(t, found, "%v: %s", args, reason)
	}
}

// docs/guards.md lists what the guard does not see, and no more than that.
func TestOutOfReach(t *testing.T) {
	for _, script := range []string{
		"sh script.sh", "make clean", `python3 -c "shutil.rmtree('/')"`, `perl -e 'unlink "x"'`, `sh -c "$(curl a)"`, `eval "$(cat f)"`, "X=$(curl a); rm $X /", "read x < f; $x",
		"tmux new 'rm -rf x'", "unlink x", "rm -r x", "> file", "mv x /dev/null", "truncate -s 0 x", "git push origin :branch", "git branch -D x",
	} {
		reason, found := Destructive([]string{"bash", "-c", script}, nil)
		require.False(t, found, "%s: %s", script, reason)
	}
	for _, script := range []string{"X=rmm; ${X%m} -rf /", "X=xrm; ${X#x} -rf /", "X=rx; ${X/x/m} -rf /", "X=xrm; ${X:1:2} -rf /", "Y=rm X=Y; ${!X} -rf /"} {
		_, found := Destructive([]string{"bash", "-c", script}, nil)
		require.True(t, found, "a program of such a name: %s", script)
	}
}

// Whatever a tenant sends is judged soon, and what is not read is refused.
func TestGuardIsBounded(t *testing.T) {
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	for i, script := range []string{
		many("(", 30000), many("$(", 30000), many("{ ", 30000), many("if ", 20000), many("`", 60000), many("$((-(", 12000), many("eval ", 12000) + "rm -rf /", many("env ", 15000) + "rm -rf /",
		many("sh -c '$@' x ", 4000) + "rm -rf x", nestedScripts(12), many("a=$a$a$a$a;", 5000) + "$a", "a=x;" + many("a=$a$a;", 1000) + "eval $a", many("{a,b}", 5000), many("X=1 sh -c '$X';", 4000),
		many("x", 65<<10), many("f() { f; };", 5000), many("echo $a |", 7000) + "sh", many("true;", 13000) + "rm -rf /", many("$(echo ", 250) + "x" + many(")", 250),
		many("$a", 30000), many("a=$a$b$c;b=$a;c=$b;a=1;b=2;c=3;", 300) + many("$a $b $c;", 3000), many("X=$Y;Y=$X;", 2000) + many("sh -c \"$X $Y\";", 1000),
		many("[[ ! ", 10000), "[[ " + many("! ", 30000) + "a ]]", "$((" + many("1?1:", 15000) + "1))", "python3 -c '" + many(`"rm x" `, 8000) + "'",
	} {
		begin := cpuTime(t)
		Destructive([]string{"bash", "-c", script}, map[string]string{"a": many("x y ", 1000)})
		require.Less(t, cpuTime(t)-begin, 5*time.Second, "%d", i)
	}
	for _, script := range []string{many("(", 30000), many("$(", 300), many("if ", 20000), many("x", 65<<10), many("true;", 13000), many("(", 300) + "true" + many(")", 300), "a='" + many("x", 4000) + "';" + many("echo $a;", 1000)} {
		_, found := Destructive([]string{"bash", "-c", script}, nil)
		require.True(t, found, "%.20s", script)
	}
	environment := map[string]string{}
	for i := range 1000 {
		environment[many("A", i)] = "x"
	}
	_, found := Destructive([]string{"ls"}, environment)
	require.False(t, found)
}

// FuzzDestructive has no text make the guard panic, or find less than validate does.
func FuzzDestructive(f *testing.F) {
	for _, scripts := range evasions {
		for _, script := range scripts {
			f.Add(script)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
			return // a shell reads it as an option
		}
		if strings.ContainsAny(text, unknown+separator+fromCommand) {
			return // marks, of which no argument has the first
		}
		_, found := Destructive([]string{"bash", "-c", text}, map[string]string{"x": text})
		Destructive(strings.Fields(text), nil)
		for _, advised := range Script(text, []string{"bash"}) {
			require.True(t, found || !advised.Destructive, "%q: %s", text, advised.Rule)
		}
	})
}
