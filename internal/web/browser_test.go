package web

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// browser is headless Chromium, driven over its own protocol (Chrome DevTools Protocol) on loopback.
type browser struct {
	t       *testing.T
	socket  *websocket.Conn
	session string

	mu      sync.Mutex
	next    int
	answers map[int]chan json.RawMessage
	said    []string // errors of pages, and what their policy refused
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium here")
	}
	profile := t.TempDir()
	cmd := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--ignore-certificate-errors",
		"--remote-debugging-port=0", "--remote-debugging-address=127.0.0.1", "--user-data-dir="+profile, "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+profile, "XDG_CONFIG_HOME="+profile, "XDG_CACHE_HOME="+profile, "TMPDIR="+profile)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, answers: map[int]chan json.RawMessage{}}
	t.Cleanup(func() {
		if b.socket != nil {
			b.call("", "Browser.close", nil)
			b.socket.CloseNow()
		}
		cmd.Process.Kill()
		cmd.Wait()
	})
	var port string
	b.until("Chromium listens", func() bool {
		text, _ := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		port = strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "")
		return strings.Contains(port, "/")
	})
	b.socket, _, err = websocket.Dial(t.Context(), "ws://127.0.0.1:"+port, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.socket.SetReadLimit(64 << 20)
	go b.read()
	return b
}

func (b *browser) read() {
	for {
		_, text, err := b.socket.Read(context.Background())
		if err != nil {
			return
		}
		var message struct {
			ID     int
			Method string
			Result json.RawMessage
			Params json.RawMessage
			Error  json.RawMessage
		}
		json.Unmarshal(text, &message)
		b.mu.Lock()
		switch {
		case message.ID != 0:
			if message.Error != nil {
				message.Result = message.Error
			}
			b.answers[message.ID] <- message.Result
		case message.Method == "Runtime.exceptionThrown", message.Method == "Log.entryAdded":
			b.said = append(b.said, string(message.Params))
		}
		b.mu.Unlock()
	}
}

func (b *browser) call(session, method string, params any) json.RawMessage {
	b.t.Helper()
	b.mu.Lock()
	b.next++
	id, answer := b.next, make(chan json.RawMessage, 1)
	b.answers[id] = answer
	b.mu.Unlock()
	text, _ := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": session})
	if session == "" {
		text, _ = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err := b.socket.Write(context.Background(), websocket.MessageText, text); err != nil {
		b.t.Fatal(err)
	}
	select {
	case result := <-answer:
		return result
	case <-time.After(30 * time.Second):
		b.t.Fatalf("%s is not answered", method)
		return nil
	}
}

// open opens a page of that size.
func (b *browser) open(url string, width, height int, dark bool) {
	b.t.Helper()
	var target struct{ TargetID string }
	json.Unmarshal(b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}), &target)
	var attached struct{ SessionID string }
	json.Unmarshal(b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}), &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Runtime", "Log", "Page"} {
		b.call(b.session, domain+".enable", nil)
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.call(b.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
	b.call(b.session, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
	b.call(b.session, "Page.navigate", map[string]any{"url": url})
}

// eval evaluates an expression, which may be a promise, and returns its value as JSON.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var result struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	answer := b.call(b.session, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true})
	if err := json.Unmarshal(answer, &result); err != nil || result.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, answer)
	}
	return string(result.Result.Value)
}

// until waits for what is so.
func (b *browser) until(what string, so func() bool) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			if b.session != "" {
				b.t.Logf("the page: %s", b.eval("document.body.innerText"))
				b.shot(filepath.Join(os.TempDir(), "board-failed.png"))
			}
			b.t.Fatalf("not in time: %s", what)
		}
	}
}

// await waits for an expression to be true.
func (b *browser) await(expression string) {
	b.t.Helper()
	b.until(expression, func() bool { return b.eval("Boolean("+expression+")") == "true" })
}

// shows waits for text on the page.
func (b *browser) shows(text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text)
	b.await("document.body?.innerText.includes(" + string(quoted) + ")")
}

// press clicks on the button with that text.
func (b *browser) press(text string) {
	b.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('button')].findLast(n => n.textContent.startsWith(%q) && !n.disabled && n.offsetParent)", text)
	b.await(find)
	b.eval(find + ".click()")
}

// types types into what has the focus.
func (b *browser) types(text string) {
	b.t.Helper()
	b.call(b.session, "Input.insertText", map[string]any{"text": text})
}

// enter presses the key.
func (b *browser) enter() {
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.call(b.session, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"})
	}
}

// shot writes a picture of the page.
func (b *browser) shot(file string) {
	b.t.Helper()
	var shot struct{ Data string }
	json.Unmarshal(b.call(b.session, "Page.captureScreenshot", map[string]any{"format": "png"}), &shot)
	picture, _ := base64.StdEncoding.DecodeString(shot.Data)
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		b.t.Error(err)
	}
}
