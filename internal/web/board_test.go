package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// board is the program's board for a user of its own, with the folders of that user.
type board struct {
	t         *testing.T
	home, url string
	listen    string
	cmd       *exec.Cmd
}

func (b *board) env() []string {
	return append(os.Environ(), "HOME="+b.home, "FORAGE_CONFIG="+b.home+"/config.toml", "FORAGE_STATE_DIR="+b.home+"/s", "FORAGE_RUNTIME_DIR="+b.home+"/r", "GIT_CONFIG_NOSYSTEM=1", "TZ=UTC")
}

// run runs a command of the user's.
func (b *board) run(script string) string {
	b.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Env, cmd.Dir = append(b.env(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH")), b.home
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func newBoard(t *testing.T) *board {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("as an ordinary user, as which boards run")
	}
	for _, needed := range []string{"chromium", "tmux", "git"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(err)
		}
	}
	b := &board{t: t, home: testdir.Plain(t), listen: "127.0.0.1:0"}
	first, free, err := testdir.TakePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	config := fmt.Sprintf("portRange = {from = %d, to = %d}\n[templates.box]\nnetwork = \"restricted\"\n", first, first+19)
	if err := os.WriteFile(b.home+"/config.toml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	b.run(`git config --global user.name Ada; git config --global user.email ada@example.com; git config --global init.defaultBranch main
git init -q shop; cd shop; mkdir src; printf 'package cart\n\nfunc total(a, b int) int {\n\treturn a + b\n}\n' >src/cart.go; echo '# Shop' >README.md; seq 40 >prices; git add .; git commit -qm 'the shop'`)
	t.Cleanup(func() { b.run("forage-ctl down --all --force 2>&1 || true") })
	b.start()
	t.Cleanup(b.kill)
	return b
}

func (b *board) start() {
	b.t.Helper()
	b.cmd = exec.Command(program, "web", "--listen", b.listen)
	b.cmd.Env, b.cmd.Dir = b.env(), b.home
	out, err := b.cmd.StdoutPipe()
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.t.Fatal(err)
	}
	b.url = strings.TrimSpace(strings.TrimPrefix(line, "open "))
}

func (b *board) kill() {
	b.cmd.Process.Kill()
	b.cmd.Wait()
}

// supervisor is the process that has the sandbox's files open.
func (b *board) supervisor(name string) int {
	b.t.Helper()
	entries, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, entry := range entries {
		if to, err := os.Readlink(entry); err == nil && strings.HasPrefix(to, b.home+"/s/") && strings.HasSuffix(to, "/"+name+".audit.jsonl") {
			var pid int
			fmt.Sscanf(entry, "/proc/%d/", &pid)
			return pid
		}
	}
	b.t.Fatalf("no supervisor of %s", name)
	return 0
}

// agentScript works as an agent does: it is refused a host, commits, leaves a file that tools execute,
// and waits.
const agentScript = `
printf '\033[1mAgent:\033[m I make total take any number of prices.\n'
curl -s -m 5 https://registry.example.com/ || true
printf 'package cart\n\nfunc total(prices ...int) (sum int) {\n\tfor _, price := range prices {\n\t\tsum += price\n\t}\n\treturn sum\n}\n' >src/cart.go
git commit -qam 'total: any number of prices'
echo 'export CART=1' >.envrc
echo 'Ask about taxes.' >notes.txt
printf 'Done. Shall I write tests?\n'
`

// demo are other sandboxes, for pictures.
const demo = `mkdir -p bin manual; printf '#!/bin/sh\nprintf "\\033]0;$1\\007"; echo "$2"; exec sleep 1000\n' >bin/claude; chmod 755 bin/claude
PATH=$HOME/bin:$PATH; export PATH
forage-ctl up manual -t box -w manual -- claude '⠂ Writing' 'I write the manual.'
forage-ctl up payments -t box --git-worktree shop -- claude '✳ Payments' 'Which currencies?'
forage-ctl up taxes -t box --git-worktree shop -- sh -c 'exit 1'
forage-ctl up search -t box --git-worktree shop -- claude '✳ Search' 'Done.'; forage-ctl stop search
forage-ctl up images -t box --git-worktree shop -- sh -c 'exit 0'`

// TestBoard does on the board, in Chromium, all that it is for, at two sizes.
func TestBoard(t *testing.T) {
	b := newBoard(t)
	if err := os.WriteFile(b.home+"/agent.sh", []byte(agentScript), 0o755); err != nil {
		t.Fatal(err)
	}
	pictures := os.Getenv("FORAGE_BOARD_PICTURES") // a folder; "" takes none
	chromium := startBrowser(t)
	task, _ := json.Marshal(agentScript + "\nexec sh")
	for _, c := range []struct {
		size          string
		width, height int
		dark          bool
	}{{"desktop", 1280, 800, false}, {"phone", 390, 844, true}} {
		shot := func(name string) {
			if pictures != "" {
				chromium.eval("document.getElementById('toast')?.remove()")
				chromium.shot(filepath.Join(pictures, "board-"+c.size+"-"+name+".png"))
			}
		}
		chromium.said = nil
		chromium.open(b.url, c.width, c.height, c.dark)
		chromium.shows("No sandboxes")
		chromium.await("!location.hash.includes('token')")
		shot("empty")

		// It is made. Nothing moves by itself from here on.
		chromium.eval("window.moved = []; new PerformanceObserver((l) => l.getEntries().forEach((e) => e.hadRecentInput || window.moved.push(e.value))).observe({type: 'layout-shift', buffered: false})")
		chromium.press("New sandbox")
		chromium.await("document.querySelector('dialog form')")
		chromium.eval(fmt.Sprintf(`(() => { const f = document.querySelector('dialog form').elements
			f.name.value = 'cart'; f.template.value = 'box'; f.workspace.value = '~/shop'; f.mode.value = 'git-worktree'; f.task.value = %s })()`, task))
		chromium.press("Create")
		chromium.await("document.querySelector('td a')?.textContent === 'cart'")
		chromium.await("!document.querySelector('dialog')")
		if pictures != "" {
			b.run(demo)
			chromium.await("document.querySelectorAll('tbody tr').length === 6")
		}
		chromium.await("[...document.querySelectorAll('tbody tr')].find(r => r.innerText.includes('cart')).cells[5].textContent === '1'")
		chromium.await("[...document.querySelectorAll('tbody tr')].find(r => r.innerText.includes('cart')).cells[4].textContent === 'yes'")
		shot("list")
		chromium.eval("location.hash = '/cart/refused'")
		chromium.shows("registry.example.com")
		if moved := chromium.eval("window.moved.reduce((a, b) => a + b, 0) < 0.1"); moved != "true" {
			t.Errorf("%s: the page moved by itself: %s", c.size, chromium.eval("JSON.stringify(window.moved)"))
		}

		// Who looks only looks; who has taken it over types.
		chromium.eval("location.hash = '/cart'")
		chromium.shows("Shall I write tests?")
		chromium.shows("You look")
		chromium.eval("document.querySelector('.xterm-helper-textarea').focus()")
		chromium.types("echo typed-$((1))-while-looking")
		chromium.enter()
		shot("screen")
		chromium.press("Take over")
		chromium.shows("You type")
		chromium.await("document.activeElement.matches('.xterm-helper-textarea')")
		chromium.shows("Shall I write tests?")
		chromium.types("echo typed-$((40+2))")
		chromium.enter()
		chromium.shows("typed-42")
		shot("taken")
		if strings.Contains(chromium.eval("document.body.innerText"), "while-looking") {
			t.Error("who looked has typed")
		}
		chromium.press("Give back")
		chromium.shows("You look")

		// A refusal is allowed.
		chromium.eval("location.hash = '/cart/refused'")
		chromium.shows("registry.example.com")
		shot("refused")
		chromium.press("Allow registry.example.com")
		chromium.shows("is allowed")
		if said := b.run("forage-ctl network cart"); !strings.Contains(said, "registry.example.com") {
			t.Errorf("network says %s", said)
		}

		// The work is looked at; one file of it is applied, and then the rest.
		chromium.eval("location.hash = '/cart/review'")
		chromium.shows("sum += price")
		chromium.shows("direnv")
		if first := chromium.eval("document.querySelector('.page').innerText.indexOf('Look at these first') < document.querySelector('.page').innerText.indexOf('cart.go')"); first != "true" {
			t.Error("what tools execute does not come first")
		}
		shot("review")
		if c.size == "desktop" {
			chromium.eval("[...document.querySelectorAll('.file')].find(f => f.textContent.includes('notes.txt')).querySelector('input').click()")
			chromium.press("Apply 1 of")
		} else {
			chromium.eval("[...document.querySelectorAll('.file')].find(f => f.textContent.includes('cart.go')).querySelector('input').click()")
			chromium.press("Apply 1 of")
		}
		chromium.await("document.querySelector('dialog .primary:not(:disabled)')?.textContent === 'Apply'")
		chromium.shows("would be at")
		shot("apply")
		chromium.eval("document.querySelector('dialog .primary').click()")
		chromium.shows("is now at")
		chromium.eval("document.querySelector('dialog').close()")
		b.run(map[string]string{"desktop": "git -C shop show HEAD:notes.txt", "phone": "git -C shop show HEAD:src/cart.go | grep sum; ! git -C shop show HEAD:.envrc"}[c.size])

		// What has changed since it was shown is not applied.
		chromium.eval("location.hash = '/cart'")
		chromium.shows("You look")
		chromium.eval("location.hash = '/cart/review'")
		chromium.shows(".envrc")
		b.run("forage-ctl exec cart -- sh -c 'echo rm -rf >>.envrc'")
		chromium.press("Apply all")
		chromium.shows("the work has changed since you looked")
		chromium.eval("document.querySelector('dialog').close()")

		// A file is dropped.
		chromium.eval("location.hash = '/cart'")
		chromium.shows("You look")
		chromium.eval(`(() => { const data = new DataTransfer(); data.items.add(new File(['dropped'], 'plan <b>1.txt')); data.items.add(new File(['x'], '.envrc'))
			document.querySelector('.page').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})) })()`)
		chromium.shows("added /workspace/plan <b>1.txt")
		chromium.shows("begin with a dot")
		if said := b.run("forage-ctl exec cart -- cat '/workspace/plan <b>1.txt'"); !strings.Contains(said, "dropped") {
			t.Errorf("the file has %q", said)
		}

		// It is stopped, started, and taken down with what would be lost.
		chromium.press("Stop")
		chromium.shows("It does not run")
		chromium.press("Start")
		chromium.shows("You look")
		chromium.press("Take down")
		chromium.shows("would be lost")
		shot("down")
		chromium.press("Take down, keep the work")
		chromium.await("![...document.querySelectorAll('td a')].some(a => a.textContent === 'cart')")
		if pictures != "" {
			b.run("forage-ctl down --all --force; git -C shop branch --list 'forage-*' --format '%(refname:short)' | xargs -r git -C shop branch -qD")
		}
		for _, said := range chromium.said {
			if !strings.Contains(said, "409") && !strings.Contains(said, "400") && !strings.Contains(said, `"level":"warning"`) {
				t.Errorf("the page said %.500s", said)
			}
		}
		// Nothing is wider than the window.
		if chromium.eval("document.documentElement.scrollWidth <= innerWidth") != "true" {
			t.Errorf("%s: the page is wider than its window", c.size)
		}
	}
	// Hunks, names that are no UTF-8 or look like another's, and files that are too long to show.
	b.run(`forage-ctl up parts -t box --git-worktree shop -- sleep 1000
forage-ctl exec parts -- sh -c 'sed -i "s/^2$/two/; s/^38$/thirty-eight/" prices; mkdir "! b"; echo harmless >"! b/.envrc"; echo evil >.envrc; echo raw >"$(printf "n\377")"; yes "*.x text" | head -4000 >.gitattributes'`)
	const named = "[...document.querySelectorAll('.file')].find(f => f.querySelector('span').textContent === %q)"
	apply := func(button, answer string) {
		chromium.press(button)
		chromium.shows(answer)
		if answer == "would be at" {
			chromium.eval("document.querySelector('dialog .primary').click()")
			chromium.shows("is now at")
		}
		chromium.eval("document.querySelector('dialog').close()")
	}
	chromium.open(b.url, 1280, 800, true)
	chromium.await("document.querySelectorAll('tbody tr').length === 1")
	chromium.eval("location.hash = '/parts/review'")
	chromium.shows("1 file of these can't be shown whole")
	for name, want := range map[string]string{".envrc": "+evil", "! b/.envrc": "+harmless", `n\xff`: "+raw"} {
		if got := chromium.eval(fmt.Sprintf(named, name) + ".querySelector('.add').textContent"); got != `"`+want+`"` {
			t.Errorf("%s is shown with %s", name, got)
		}
	}
	chromium.eval(fmt.Sprintf(named, ".gitattributes") + ".querySelector('input').click()")
	apply("Apply 1 of", "changed, and not shown yet: .gitattributes")
	chromium.eval(fmt.Sprintf(named, ".gitattributes") + ".querySelector('input').click()")
	chromium.eval(fmt.Sprintf(named, "prices") + ".querySelectorAll('.at input')[1].click()")
	chromium.eval(fmt.Sprintf(named, `n\xff`) + ".querySelector('input').click()")
	chromium.shows("1 single hunk among them")
	apply("Apply 2 of", "would be at")
	b.run(`test "$(sed -n '2p;38p' shop/prices | xargs)" = '2 thirty-eight'; test "$(cat "shop/$(printf 'n\377')")" = raw; ! test -e shop/.envrc; forage-ctl down --force parts`)

	// By keys alone.
	b.run("forage-ctl up first -t box -w shop -- sleep 1000; forage-ctl up second -t box -w shop -- sleep 1000")
	chromium.open(b.url, 1280, 800, true)
	chromium.await("document.querySelectorAll('tbody tr').length === 2")
	for key, want := range map[string]string{"j": "document.activeElement.textContent === 'first'", "n": "document.querySelector('dialog form')"} {
		chromium.eval("document.querySelector('dialog')?.close(); document.activeElement.blur(); document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '" + key + "', bubbles: true}))")
		chromium.await(want)
	}
	chromium.eval("document.querySelector('dialog')?.close()")
	for key, want := range map[string]string{"1": "#/first/screen", "j": "#/second", "Escape": "#/"} {
		chromium.eval("location.hash = '/first/review'")
		chromium.await("document.querySelector('.chosen')?.textContent.startsWith('first') && document.querySelector('[aria-selected=true]')?.textContent === 'Review'")
		chromium.eval("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '" + key + "', bubbles: true}))")
		chromium.await("location.hash === '" + want + "'")
	}
	if log := b.run("cat s/sandboxes/*.audit.jsonl 2>/dev/null || true"); strings.Contains(log, "while-looking") {
		t.Error("typed text is in the log")
	}
}

// hostileText is markup, every kind of control sequence, and characters that change the order of
// others.
const hostileText = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>\u202e\"'&amp;"

// TestHostileBoard: an agent that prints and names what it likes changes no page, no title and no
// clipboard; and what is killed is shown as what it is.
func TestHostileBoard(t *testing.T) {
	b := newBoard(t)
	script := "name='" + strings.ReplaceAll(hostileText, "'", `'\''`) + "'\n" + `
mkdir -p src
printf '%s\n' "$name" >"src/$(printf '%s' "$name" | tr / _)"
printf 'diff --git a/x b/forged\n+++ b/forged\n@@ -1 +1 @@\n' >>src/cart.go
git checkout -qb "forage-x" && git add -A && git commit -qm "$name"
printf '\033]0;TITLE\007\033]2;TITLE\007\033kTITLE\033\\\033]52;c;aGFja2Vk\007\033]1337;File=inline=1:AAAA\007\033]8;;javascript:window.hacked=1\033\\link\033]8;;\033\\\n'
printf '\033P+q544e\033\\\033[21t\033[c\033[>c\033[6n\033[?2026h\033[?1049h\033[?1000h\033[?1006h\033[5i\033]777;notify;a;b\007\033]4;1;red\007\033_G\033\\\033^x\033\\\033Xy\033\\\005\016\033c'
i=0; while [ $i -lt 128 ]; do printf "\\033[$i%b" "\\0$(printf %o $((i % 63 + 64)))"; i=$((i+1)); done
printf '\033c\033[mall was printed: %s\n' "$name"
`
	if err := os.WriteFile(b.home+"/agent.sh", []byte(script+"\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.run(`forage-ctl up evil -t box --git-worktree shop --mount ` + b.home + `/agent.sh:/agent.sh:ro -- sh /agent.sh; forage-ctl up other -t box -w shop -- sleep 1000`)
	chromium := startBrowser(t)
	chromium.open(b.url, 1280, 800, false)
	chromium.await("document.querySelectorAll('tbody tr').length === 2")
	chromium.eval("navigator.clipboard && (navigator.clipboard.writeText = (x) => { window.hacked = x }); location.hash = '/evil'")
	chromium.shows("all was printed")
	chromium.press("Take over")
	chromium.shows("You type")
	chromium.shows("all was printed")
	// Past tmux, to the terminal that leads to the browser.
	b.run(`forage-ctl exec evil -- sh -c 'for tty in $(tmux list-clients -F "#{client_tty}"); do printf "\033]52;c;aGFja2Vk\007\033]0;TITLE\007past-tmux" >$tty; done'`)
	chromium.shows("past-tmux")
	chromium.eval("location.hash = '/evil/review'")
	chromium.shows("forged")
	chromium.shows(`\u{202e}`)
	if heads := chromium.eval("[...document.querySelectorAll('.file label')].filter(l => l.textContent.includes('forged')).length"); heads != "0" {
		t.Errorf("a file of the agent's forged %s heads", heads)
	}
	if hacked := chromium.eval("String(window.hacked)"); hacked != `"undefined"` {
		t.Errorf("the page was hacked: %s", hacked)
	}
	if title := chromium.eval("document.title"); strings.Contains(title, "TITLE") {
		t.Errorf("the title is %s", title)
	}
	if n := chromium.eval("document.querySelectorAll('.page img, .page script, td img').length"); n != "0" {
		t.Errorf("%s elements came from inside", n)
	}

	// The supervisor is killed while its screen is shown.
	chromium.eval("location.hash = '/evil'")
	chromium.shows("You look")
	if err := unix.Kill(b.supervisor("evil"), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	chromium.await("[...document.querySelectorAll('tbody tr')].find(r => r.innerText.includes('evil')).innerText.includes('failed')")
	chromium.shows("It does not run")

	// So is the board: what runs goes on, and nobody is logged in at the next one.
	b.kill()
	chromium.shows("does not answer")
	if said := b.run("forage-ctl ps"); !strings.Contains(said, "other  sleep  running") {
		t.Errorf("ps says %s", said)
	}
	// Meanwhile a page of the agent's is served on its port, and stays in the browser.
	b.listen = regexp.MustCompile(`:[0-9]+`).FindString(b.url)
	before := chromium.session
	plant(t, chromium, b.listen)
	b.listen = "127.0.0.1" + b.listen
	b.start()
	chromium.session = before // the page of the board that was
	chromium.call(before, "Page.bringToFront", nil)
	chromium.shows("You are not signed in")
	chromium.open(strings.Split(b.url, "#")[0], 1280, 800, false)
	chromium.shows("You are not signed in")
	chromium.open(b.url, 1280, 800, false)
	chromium.await("document.querySelectorAll('tbody tr').length === 2")
}

// plant serves pages on a port of loopback that leave a service worker and as many cookies as a
// browser takes, and sees that they stay after the server has gone.
func plant(t *testing.T, chromium *browser, port string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1"+port)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w.Header().Set("Content-Type", "text/html"); r.URL.Path == "/worker.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "onfetch = (e) => e.respondWith(new Response('planted ' + e.request.url))\nonactivate = () => clients.claim()")
		}
	})}
	go server.Serve(listener)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		chromium.open("http://"+host+port, 800, 600, false)
		chromium.await("document.readyState === 'complete' && location.port")
		chromium.eval("for (let i = 0; i < 40; i++) for (const to of ['', ';domain=localhost']) document.cookie = 'c' + i + '=' + 'x'.repeat(1000) + to")
		chromium.eval("navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready).then(() => 1)")
		chromium.await("document.cookie.length > 20000")
	}
	server.Close()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		chromium.open("http://"+host+port+"/#token=x", 800, 600, false)
		chromium.shows("planted http://" + host + port)
	}
}

// TestIdleBoard: without a page it does not wake up, and is small.
func TestIdleBoard(t *testing.T) {
	b := newBoard(t)
	b.run("forage-ctl up one -t box -w shop -- sh -c 'while sleep 0.05; do echo .; done'")
	switches := func() (total int) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", b.cmd.Process.Pid))
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			for line := range bytes.Lines(text) {
				var n int
				if _, err := fmt.Sscanf(string(line), "voluntary_ctxt_switches: %d", &n); err == nil {
					total += n
				}
			}
		}
		return total
	}
	before := switches()
	b.run("forage-ctl exec one -- sleep 2")
	if woke := switches() - before; woke > 10 {
		t.Errorf("it woke up %d times in 2 seconds", woke)
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", b.cmd.Process.Pid))
	for line := range bytes.Lines(text) {
		var kib int
		if _, err := fmt.Sscanf(string(line), "Anonymous: %d kB", &kib); err == nil {
			t.Logf("%d KiB of its own", kib)
			if kib > 20<<10 {
				t.Errorf("an idle board has %d KiB", kib)
			}
		}
	}
}
