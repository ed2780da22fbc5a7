package scenarios

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orrery/hack/localcluster/cluster"
)

// ask runs one of the daemon's commands that ask a running one, with the administrator's credentials.
func (e *env) ask(t *testing.T, p *cluster.Process, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), orreryBin, append(args, "--server", p.URL(), "--kubeconfig", e.Kubeconfig())...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestStatusCommands asks the daemon from the terminal, and says of what is missing how to get it.
func TestStatusCommands(t *testing.T) {
	t.Parallel()
	e := withOrrery(t, 1)
	ns := e.namespace(t, "asked")
	e.rollOut(t, ns, "web", 2)
	p := e.orrery()
	eventually(t, "the overview", func() error {
		out, err := e.ask(t, p, "status")
		for _, want := range []string{"leading: holds kube-system/kube-controller-manager", "deployment-controller ", "nodepool-controller"} {
			if !strings.Contains(out, want) {
				err = errors.Join(err, fmt.Errorf("no %q in\n%s", want, out))
			}
		}
		return err
	})
	set := strings.TrimSpace(e.kubectl(t, "-n", ns, "get", "replicasets", "-o", "jsonpath={.items[0].metadata.name}"))
	out := must(e.ask(t, p, "explain", "rs", ns+"/"+set))(t)
	for _, want := range []string{"owned by Deployment " + ns + "/web", "replicaset-controller reconciled ReplicaSet " + ns + "/" + set, "deployment-controller reconciled Deployment", "done"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var explained struct {
		Kind  string
		Loops []struct {
			Entries []struct{ Key, Outcome string }
		}
	}
	out = must(e.ask(t, p, "explain", "Deployment", ns+"/web", "-o", "json"))(t)
	if err := json.Unmarshal([]byte(out), &explained); err != nil || explained.Kind != "Deployment" || len(explained.Loops) == 0 || explained.Loops[0].Entries[0].Key != ns+"/web" {
		t.Errorf("as JSON: %v\n%s", err, out)
	}
	if out, err := e.ask(t, p, "explain", "dragon", ns+"/web"); err == nil || !strings.HasPrefix(out, "Error: no controller here watches the kind \"dragon\"") {
		t.Errorf("a kind that is not there: %v\n%s", err, out)
	}
	stranger := exec.CommandContext(t.Context(), orreryBin, "status", "--server", p.URL(), "--token", "forged", "--insecure-skip-tls-verify")
	if out, err := stranger.CombinedOutput(); err == nil || !strings.Contains(string(out), "does not accept these credentials (401)") {
		t.Errorf("with a forged token: %v\n%s", err, out)
	}
}

// TestStatusPageInABrowser has a real browser show the page of a running daemon.
func TestStatusPageInABrowser(t *testing.T) {
	t.Parallel()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium here to show the page with: apt-get install chromium")
	}
	e := withOrrery(t, 1)
	ns := e.namespace(t, "shown")
	e.rollOut(t, ns, "web", 2)
	url := e.serveStatus(t)
	t.Run("content", func(t *testing.T) {
		t.Parallel()
		for page, wants := range map[string][]string{
			"":                                   {"Leading", "kube-system/kube-controller-manager", `href="/debug/controllers/deployment-controller"`, "Reconciles", "<svg"},
			"?kind=deploy&object=" + ns + "/web": {"deployment-controller</a>", "reconciled Deployment " + ns + "/web", `class="pill good">done`},
		} {
			dom := browse(t, browser, url+page, "--dump-dom")
			for _, want := range wants {
				if !strings.Contains(dom, want) {
					t.Errorf("%s: no %q in\n%.3000s", page, want, dom)
				}
			}
		}
	})
	// The colour of the paper shows that the style sheet was let through, and that it follows the person's choice.
	for _, tc := range []struct {
		name, size, scheme string
		paper              color.NRGBA
	}{
		{"desktop", "1200,900", "--blink-settings=preferredColorScheme=1", color.NRGBA{0xf7, 0xf6, 0xf3, 0xff}},
		{"phone, dark", "500,900", "--blink-settings=preferredColorScheme=0", color.NRGBA{0x12, 0x16, 0x1d, 0xff}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "page.png")
			browse(t, browser, url, "--window-size="+tc.size, tc.scheme, "--hide-scrollbars", "--screenshot="+path)
			file := must(os.Open(path))(t)
			defer file.Close()
			picture := must(png.Decode(file))(t)
			if got := color.NRGBAModel.Convert(picture.At(2, 200)); got != tc.paper {
				t.Errorf("the paper is %v, want %v", got, tc.paper)
			}
		})
	}
}

// serveStatus has orrery status serve the page until the test ends, and returns its address.
func (e *env) serveStatus(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, orreryBin, "status", "--server", e.orrery().URL(), "--kubeconfig", e.Kubeconfig(), "--listen", "127.0.0.1:0")
	cmd.Stderr = t.Output()
	out := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it is killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// browse runs a browser without a screen and returns what it prints. It has a profile of its own, and asks for nothing but
// the page.
func browse(t *testing.T, browser, url string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir(),
	}, append(args, url)...)...)
	cmd.WaitDelay = 5 * time.Second // of what the browser has started
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", browser, err)
	}
	return string(out)
}
