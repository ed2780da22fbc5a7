package scenarios

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery/hack/localcluster/cluster"
)

// refusal is the daemon's reaction to invalid input.
type refusal struct {
	code     int
	messages []string // lines of stderr but for those of the log that are no errors
	stderr   string
}

// harmless matches lines that are not meant for the user: those of the log, and those that the election library prints if
// the process ends during a request.
var harmless = regexp.MustCompile(`^[IW]\d{4} |"Error retrieving lease lock" err="context canceled"`)

// refuse runs the daemon until it exits by itself.
func refuse(t *testing.T, args ...string) refusal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, orreryBin, args...)
	cmd.Dir, cmd.Stderr = t.TempDir(), &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("still running after %v:\n%s", patience, stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := refusal{code: cmd.ProcessState.ExitCode(), stderr: stderr.String()}
	for line := range strings.Lines(r.stderr) {
		if line = strings.TrimSpace(line); line != "" && !harmless.MatchString(line) {
			r.messages = append(r.messages, strings.ReplaceAll(line, `\"`, `"`)) // quoted once more by the log
		}
	}
	return r
}

// want checks that the exit code is 1, that there is no trace of a crash, and that there is one message with all words.
func (r refusal) want(t *testing.T, words ...string) {
	t.Helper()
	if r.code != 1 {
		t.Errorf("exit code %d, want 1", r.code)
	}
	if strings.Contains(r.stderr, "goroutine ") || crash.MatchString(r.stderr) {
		t.Errorf("a stack trace:\n%s", r.stderr)
	}
	if len(r.messages) != 1 {
		t.Errorf("%d messages, want one:\n%s", len(r.messages), strings.Join(r.messages, "\n"))
	}
	message := strings.Join(r.messages, "\n")
	for _, w := range words {
		if !strings.Contains(message, w) {
			t.Errorf("message lacks %q:\n%s", w, message)
		}
	}
}

// TestBadFlags needs no API server: invalid flags are detected before it is contacted.
func TestBadFlags(t *testing.T) {
	nonsense := writeFile(t, filepath.Join(t.TempDir(), "nonsense"), []byte("{ this is not: [yaml"))
	for name, c := range map[string]struct {
		args  []string
		words []string
	}{
		"unknown flag":             {[]string{"--use-service-acount-credentials"}, []string{"use-service-acount-credentials", "did you mean --use-service-account-credentials?"}},
		"unknown controller":       {[]string{"--controllers=*,deploymnet"}, []string{"--controllers", `"deploymnet"`, `did you mean "deployment"?`}},
		"unknown disabled":         {[]string{"--controllers=*,-garbage-colector-controller"}, []string{`"garbage-colector-controller"`, `"garbage-collector-controller"`}},
		"bad CIDR":                 {[]string{"--allocate-node-cidrs=true", "--cluster-cidr=10.0.0.0/33"}, []string{"--cluster-cidr", "10.0.0.0/33"}},
		"not a number":             {[]string{"--concurrent-deployment-syncs=many"}, []string{"concurrent-deployment-syncs", "many"}},
		"no workers":               {[]string{"--concurrent-deployment-syncs=0"}, []string{"--concurrent-deployment-syncs", "0"}},
		"contradictory lease":      {[]string{"--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=10s"}, []string{"--leader-elect-renew-deadline", "--leader-elect-lease-duration"}},
		"port out of range":        {[]string{"--secure-port=70000"}, []string{"--secure-port", "70000"}},
		"missing kubeconfig":       {[]string{"--kubeconfig=/does/not/exist", "--secure-port=0"}, []string{"--kubeconfig", "/does/not/exist", "no such file"}},
		"unreadable kubeconfig":    {[]string{"--kubeconfig=" + nonsense, "--secure-port=0"}, []string{"--kubeconfig", nonsense}},
		"certificate without key":  {[]string{"--tls-cert-file=" + nonsense}, []string{"--tls-cert-file", "--tls-private-key-file"}},
		"argument":                 {[]string{"run"}, []string{`"run"`}},
		"unknown log format":       {[]string{"--logging-format=xml"}, []string{"xml"}},
		"missing config file":      {[]string{"--config=/does/not/exist"}, []string{"--config", "/does/not/exist"}},
		"config file is not valid": {[]string{"--config=" + nonsense}, []string{nonsense, "line 1"}},
	} {
		t.Run(name, func(t *testing.T) { refuse(t, c.args...).want(t, c.words...) })
	}
}

// TestBadSurroundings starts the daemon with valid flags on a machine or cluster that has a problem.
func TestBadSurroundings(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{NoKwok: true})
	good := []string{"--kubeconfig=" + e.ControllerManagerKubeconfig(), "--bind-address=127.0.0.1", "--secure-port=0", "--service-account-private-key-file=" + e.PKI().ServiceAccountKey}
	with := func(args ...string) []string { return append(append([]string{}, good...), args...) }

	t.Run("wrong CA", func(t *testing.T) {
		path := kubeconfig(t, e.ControllerManagerKubeconfig(), func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData, c.CertificateAuthority = nil, e.PKI().FrontProxyCACert
		})
		refuse(t, with("--kubeconfig="+path)...).want(t, e.Server(), "certificate", "CA")
	})
	t.Run("user without permissions", func(t *testing.T) {
		user := e.issue(t, "nobody-in-particular")
		path := kubeconfig(t, e.ControllerManagerKubeconfig(), func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
			a.ClientCertificateData, a.ClientKeyData = user.cert, user.key
		})
		begin := time.Now()
		refuse(t, with("--kubeconfig="+path)...).want(t, "permission", "nobody-in-particular", "system:kube-controller-manager")
		if took := time.Since(begin); took > time.Minute*slowness(t) {
			t.Errorf("took %v to say so", took)
		}
	})
	t.Run("user of another cluster", func(t *testing.T) {
		path := kubeconfig(t, e.ControllerManagerKubeconfig(), func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
			a.ClientCertificateData, a.ClientKeyData, a.Token = nil, nil, "not-a-token"
		})
		refuse(t, with("--kubeconfig="+path)...).want(t, "credentials")
	})
	t.Run("port in use", func(t *testing.T) {
		listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		refuse(t, with("--secure-port="+port)...).want(t, "--secure-port", port, "in use")
	})
	t.Run("broken certificate", func(t *testing.T) {
		broken := writeFile(t, filepath.Join(t.TempDir(), "broken.crt"), []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
		refuse(t, with("--secure-port=1", "--tls-cert-file="+broken, "--tls-private-key-file="+e.PKI().APIServerKey)...).want(t, broken)
	})
	t.Run("missing certificate", func(t *testing.T) {
		refuse(t, with("--secure-port=1", "--tls-cert-file=/does/not/exist", "--tls-private-key-file=/does/not/exist")...).want(t, "/does/not/exist")
	})
	t.Run("certificate and key do not belong together", func(t *testing.T) {
		refuse(t, with("--secure-port=1", "--tls-cert-file="+e.PKI().APIServerCert, "--tls-private-key-file="+e.PKI().CAKey)...).want(t, e.PKI().APIServerCert)
	})
	t.Run("key for tokens is not a key", func(t *testing.T) {
		refuse(t, with("--service-account-private-key-file="+e.PKI().CACert)...).want(t, "--service-account-private-key-file", e.PKI().CACert)
	})
	t.Run("root CA file is missing", func(t *testing.T) {
		refuse(t, with("--root-ca-file=/does/not/exist")...).want(t, "--root-ca-file", "/does/not/exist")
	})
}
