package inside

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestThePlanIsReadAsItWasWritten(t *testing.T) {
	p := Plan{Name: "node-a", Dir: filepath.Join(t.TempDir(), "a"), Programs: map[string]string{"etcd": "/x/etcd"}, Images: []string{"a.tar"}, Version: "v1", PauseName: "pause:1"}
	if err := p.Write(); err != nil {
		t.Fatal(err)
	}
	got, err := readPlan(p.Dir)
	if err != nil || got.Name != p.Name || got.Programs["etcd"] != "/x/etcd" || !slices.Equal(got.Images, p.Images) || got.PauseName != p.PauseName {
		t.Errorf("%+v, %v", got, err)
	}
	for dir := range kept {
		if _, err := os.Stat(filepath.Join(p.Dir, dir)); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryFileIsFilledIn(t *testing.T) {
	entries, err := files.ReadDir("files")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{Plan: Plan{Name: "node-a", Version: "v1.2.3", PauseName: "pause:1", PluginDir: "/plugins"}}
	all := ""
	for _, entry := range entries {
		text, err := m.fill(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	for _, want := range []string{"name: node-a", "kubernetesVersion: v1.2.3", "pause:1", `"/plugins"`, "advertiseAddress: " + Address} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is in no file", want)
		}
	}
}

func TestBothDirectionsAreForwardedToTheirEnds(t *testing.T) {
	left, client := pair(t)
	server, right := pair(t)
	done := make(chan struct{})
	go func() { splice(client, server); close(done) }()
	if _, err := left.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	_ = left.CloseWrite()
	if got, err := io.ReadAll(right); err != nil || string(got) != "question" {
		t.Errorf("%q, %v", got, err)
	}
	// The asker has ended, and still gets the answer.
	if _, err := right.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	_ = right.Close()
	if got, err := io.ReadAll(left); err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
	<-done
}

// pair returns both ends of a connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}
