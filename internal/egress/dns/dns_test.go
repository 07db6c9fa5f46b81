package dns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
)

// testJudge knows allowed.example alone, and notes what it is asked.
func testJudge(asked *[]Question) Judge {
	return func(q Question) Answer {
		if asked != nil {
			*asked = append(*asked, q)
		}
		switch {
		case q.Name == "full.example":
			return Answer{}
		case q.Name == "broken.example":
			return Answer{Code: Failed}
		case !strings.EqualFold(q.Name, "allowed.example"):
			return Answer{Code: Denied}
		case q.Type == "AAAA":
			return Answer{Code: Known, Addr: Addr6(7)}
		}
		return Answer{Code: Known, Addr: Addr4(7)}
	}
}

func ask(t *testing.T, name string, qtype dnsmessage.Type, change func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: qtype, Class: dnsmessage.ClassINET}},
	}
	if change != nil {
		change(&m)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReply(t *testing.T) {
	edns := func(m *dnsmessage.Message) {
		var h dnsmessage.ResourceHeader
		h.Name = dnsmessage.MustNewName(".")
		h.SetEDNS0(4096, 0, true)
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 10, Data: []byte("12345678")}}}}}
	}
	tests := []struct {
		name    string
		message []byte
		want    string // RCODE and answers; "" is no reply
	}{
		{"A", ask(t, "allowed.example.", dnsmessage.TypeA, nil), "RCodeSuccess 198.18.0.7"},
		{"AAAA", ask(t, "allowed.example.", dnsmessage.TypeAAAA, nil), "RCodeSuccess 2001:2::7"},
		{"its case is kept", ask(t, "AlloWed.Example.", dnsmessage.TypeA, nil), "RCodeSuccess 198.18.0.7"},
		{"EDNS", ask(t, "allowed.example.", dnsmessage.TypeA, edns), "RCodeSuccess 198.18.0.7 OPT"},
		{"HTTPS is NODATA", ask(t, "allowed.example.", 65, nil), "RCodeSuccess"},
		{"TXT is NODATA", ask(t, "allowed.example.", dnsmessage.TypeTXT, nil), "RCodeSuccess"},
		{"denied", ask(t, "denied.example.", dnsmessage.TypeA, nil), "RCodeNameError"},
		{"denied, EDNS", ask(t, "denied.example.", dnsmessage.TypeA, edns), "RCodeNameError OPT"},
		{"root", ask(t, ".", dnsmessage.TypeNS, nil), "RCodeNameError"},
		{"nothing left", ask(t, "full.example.", dnsmessage.TypeA, nil), "RCodeRefused"},
		{"failing", ask(t, "broken.example.", dnsmessage.TypeA, nil), "RCodeServerFailure"},
		{"class CHAOS", ask(t, "allowed.example.", dnsmessage.TypeTXT, func(m *dnsmessage.Message) {
			m.Questions[0].Class = dnsmessage.ClassCHAOS
		}), "RCodeRefused"},
		{"an answer", ask(t, "allowed.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Response = true }), ""},
		{"an update", ask(t, "allowed.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.OpCode = 5 }), "RCodeNotImplemented"},
		{"no question", ask(t, "allowed.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions = nil }), "RCodeFormatError"},
		{"two questions", ask(t, "allowed.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) {
			m.Questions = append(m.Questions, m.Questions[0])
		}), "RCodeFormatError"},
		{"cut short", ask(t, "allowed.example.", dnsmessage.TypeA, nil)[:20], "RCodeFormatError"},
		{"a header alone", ask(t, "allowed.example.", dnsmessage.TypeA, nil)[:12], "RCodeFormatError"},
		{"less than a header", ask(t, "allowed.example.", dnsmessage.TypeA, nil)[:11], ""},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reply := testJudge(nil).Reply(tt.message)
			if diff := cmp.Diff(tt.want, describe(t, reply)); diff != "" {
				t.Error(diff)
			}
			if len(reply) > 512 {
				t.Errorf("%d bytes", len(reply))
			}
		})
	}
}

func describe(t *testing.T, reply []byte) string {
	t.Helper()
	if reply == nil {
		return ""
	}
	var m dnsmessage.Message
	if err := m.Unpack(reply); err != nil {
		t.Fatal(err)
	}
	if m.ID != 4711 || !m.Response {
		t.Errorf("header %+v", m.Header)
	}
	text := m.RCode.String()
	for _, a := range m.Answers {
		if len(m.Questions) != 1 || a.Header.Name.String() != m.Questions[0].Name.String() {
			t.Errorf("%v does not answer %v", a, m.Questions)
		}
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			text += " " + netip.AddrFrom4(body.A).String()
		case *dnsmessage.AAAAResource:
			text += " " + netip.AddrFrom16(body.AAAA).String()
		}
	}
	if len(m.Additionals) == 1 && m.Additionals[0].Header.Type == dnsmessage.TypeOPT {
		text += " OPT"
	}
	return text
}

func TestQuestionAsAsked(t *testing.T) {
	var asked []Question
	j := testJudge(&asked)
	j.Reply(ask(t, "A\x00b.Example.", dnsmessage.TypeMX, nil))
	j.Reply(ask(t, "x.", 4711, nil))
	want := []Question{{"A\x00b.Example", "MX"}, {"x", "TYPE4711"}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	// A label with a dot inside is not two labels.
	message := ask(t, "abc.example.", dnsmessage.TypeA, nil)
	message[14] = '.'
	asked = nil
	if got := describe(t, j.Reply(message)); got != "RCodeFormatError" || asked != nil {
		t.Errorf("%q, %v", got, asked)
	}
}

func TestNames(t *testing.T) {
	var n Names
	first, _ := n.Number("a.example")
	second, _ := n.Number("b.example")
	again, _ := n.Number("a.example")
	if first != 1 || second != 2 || again != 1 {
		t.Errorf("%d, %d, %d", first, second, again)
	}
	for _, addr := range []netip.Addr{Addr4(2), Addr6(2), netip.AddrFrom16(Addr4(2).As16())} {
		if name, ok := n.Name(addr); name != "b.example" || !ok || !Synthetic(addr) {
			t.Errorf("%v: %q, %v", addr, name, ok)
		}
	}
	for _, s := range []string{"198.18.0.0", "198.18.0.3", "198.19.255.255", "198.20.0.1", "2001:2::", "2001:2::3", "2001:2:0:1::1", "2001:2::1:0:1", "8.8.8.8", "::1", "2001:2::1%eth0"} {
		if name, ok := n.Name(netip.MustParseAddr(s)); ok {
			t.Errorf("%s is %q, which was never handed out", s, name)
		}
	}
}

// Every number has an address inside the range; then there is none left, and
// what was handed out stays.
func TestNamesRunOut(t *testing.T) {
	var n Names
	seen := map[netip.Addr]bool{}
	for i := range maxNames {
		number, ok := n.Number(fmt.Sprintf("%d.example", i))
		if !ok {
			t.Fatalf("name %d was refused", i)
		}
		addr := Addr4(number)
		if !Synthetic(addr) || !Synthetic(Addr6(number)) || seen[addr] {
			t.Fatalf("address %v", addr)
		}
		seen[addr] = true
	}
	if _, ok := n.Number("another.example"); ok {
		t.Error("an address was handed out twice")
	}
	if number, ok := n.Number("17.example"); number != 18 || !ok {
		t.Errorf("%d, %v", number, ok)
	}
	var long Names
	label, refused := strings.Repeat("x", 240), 0
	for i := range maxNames {
		if _, ok := long.Number(fmt.Sprint(label, i)); !ok {
			refused++
		}
	}
	if refused == 0 || long.bytes > maxNameBytes {
		t.Errorf("%d bytes of names, %d refused", long.bytes, refused)
	}
}

func TestServe(t *testing.T) {
	packet, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { testJudge(nil).ServePacket(packet); close(done) }()
	conn, err := net.Dial("udp", packet.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	conn.Write([]byte("junk"))
	conn.Write(ask(t, "allowed.example.", dnsmessage.TypeA, nil))
	buf := make([]byte, 512)
	n, err := conn.Read(buf)
	if err != nil || describe(t, buf[:n]) != "RCodeSuccess 198.18.0.7" {
		t.Errorf("%v", err)
	}
	packet.Close()
	<-done
}

func TestServeStream(t *testing.T) {
	exchange := func(sent []byte) ([]byte, error) {
		client, server := net.Pipe()
		defer client.Close()
		done := make(chan error, 1)
		go func() { err := testJudge(nil).ServeStream(server); server.Close(); done <- err }()
		go func() { client.Write(sent); client.(io.Closer).Close() }()
		var got []byte
		if len(sent) > 0 {
			got, _ = io.ReadAll(client)
		}
		return got, <-done
	}
	if _, err := exchange(nil); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a connection that asks nothing: %v", err)
	}
	for name, sent := range map[string][]byte{
		"too long": {0xff, 0xff},
		"junk":     {0, 3, 1, 2, 3},
		"cut":      {0, 30, 1, 2, 3},
	} {
		if _, err := exchange(sent); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			testJudge(nil).ServeStream(conn)
			conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	for range 3 { // several questions on one connection, a byte at a time
		message := ask(t, "allowed.example.", dnsmessage.TypeAAAA, nil)
		for _, b := range append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...) {
			conn.Write([]byte{b})
		}
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, reply); err != nil || describe(t, reply) != "RCodeSuccess 2001:2::7" {
			t.Fatalf("%v", err)
		}
	}
}

func FuzzReply(f *testing.F) {
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("allowed.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, _ := m.Pack()
	f.Add(b)
	f.Fuzz(func(t *testing.T, message []byte) {
		reply := testJudge(nil).Reply(message)
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil || !m.Response || len(reply) > 512 || len(m.Answers) > 1 {
			t.Errorf("%x becomes %x: %v", message, reply, err)
		}
	})
}
