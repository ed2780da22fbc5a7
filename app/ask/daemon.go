package ask

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orrery/kit/status"
)

const (
	defaultServer = "https://127.0.0.1:10257"
	timeout       = 15 * time.Second
	answerLimit   = 64 << 20
	// nodeKubeconfig is the administrator's on a node that kubeadm has set up.
	nodeKubeconfig = "/etc/kubernetes/admin.conf"
)

// daemon says where a daemon is and who asks it.
type daemon struct {
	Server     string
	Kubeconfig string
	Context    string
	Token      string
	CAFile     string
	Insecure   bool
}

func (d *daemon) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&d.Server, "server", defaultServer, "address of the daemon (not of the API server), as https://host:port")
	fs.StringVar(&d.Kubeconfig, "kubeconfig", "", "file with the credentials to use; empty: $KUBECONFIG, ~/.kube/config or "+nodeKubeconfig)
	fs.StringVar(&d.Context, "context", "", "context of the kubeconfig; empty: the current one")
	fs.StringVar(&d.Token, "token", "", "bearer token to use instead of the kubeconfig")
	fs.StringVar(&d.CAFile, "certificate-authority", "", "file with the CA that signed the daemon's certificate")
	fs.BoolVar(&d.Insecure, "insecure-skip-tls-verify", false,
		"do not verify the daemon's certificate, which is self-signed unless it was given one. On a loopback address this is the default if "+
			"the credentials are a client certificate, which an impostor cannot steal")
}

// config returns how the daemon is reached.
func (d *daemon) config() (*rest.Config, error) {
	address, err := url.Parse(d.Server)
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return nil, fmt.Errorf("--server: %q is not an address of the form %s", d.Server, defaultServer)
	}
	c := &rest.Config{BearerToken: d.Token}
	if d.Token == "" {
		if c, err = d.credentials(); err != nil {
			return nil, err
		}
	}
	// The authority of the kubeconfig is that of the API server, which may or may not have signed for the daemon, too.
	c.Host, c.APIPath, c.Timeout = d.Server, "", timeout
	c.TLSClientConfig.ServerName, c.TLSClientConfig.Insecure = "", false
	switch {
	case d.CAFile != "":
		if c.TLSClientConfig.CAData, err = os.ReadFile(d.CAFile); err != nil {
			return nil, fmt.Errorf("--certificate-authority: %w", err)
		}
		c.TLSClientConfig.CAFile = ""
	case d.Insecure || loopback(address.Hostname()) && onlyCertificate(c):
		c.TLSClientConfig.CAData, c.TLSClientConfig.CAFile, c.TLSClientConfig.Insecure = nil, "", true
	}
	return c, nil
}

// credentials returns those of the kubeconfig.
func (d *daemon) credentials() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if d.Kubeconfig != "" {
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: d.Kubeconfig}
	} else if found := existing(rules.Precedence); len(found) == 0 {
		if len(existing([]string{nodeKubeconfig})) == 0 {
			return nil, fmt.Errorf("no credentials: none of %s, %s exists; give --kubeconfig or --token", strings.Join(rules.Precedence, ", "), nodeKubeconfig)
		}
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: nodeKubeconfig}
	}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: d.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return c, nil
}

func existing(paths []string) (found []string) {
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			found = append(found, p)
		}
	}
	return found
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// onlyCertificate reports whether nothing is sent that whoever answers could use elsewhere.
func onlyCertificate(c *rest.Config) bool {
	return c.BearerToken == "" && c.BearerTokenFile == "" && c.Username == "" && c.Password == "" && c.ExecProvider == nil && c.AuthProvider == nil
}

// get asks the daemon for a page, as JSON.
func (d *daemon) get(ctx context.Context, query url.Values) ([]byte, error) {
	config, err := d.config()
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the credentials: %w", err)
	}
	address := strings.TrimSuffix(d.Server, "/") + status.Path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	answer, err := client.Do(req)
	if err != nil {
		return nil, d.unreached(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
	if err != nil {
		return nil, fmt.Errorf("read the response of %s: %w", d.Server, err)
	}
	return body, d.refused(answer, body)
}

// unreached explains why no daemon responds.
func (d *daemon) unreached(err error) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s. The daemon serves on port 10257, and with kubeadm's manifest only on 127.0.0.1 of its node; "+
			"run this command there, or give --server: %w", d.Server, err)
	case errors.As(err, &authority):
		return fmt.Errorf("the certificate of %s is self-signed, or signed by a CA that is not known here. Give --certificate-authority or, if you "+
			"trust the network in between, --insecure-skip-tls-verify: %w", d.Server, err)
	case errors.As(err, &host):
		return fmt.Errorf("the certificate of %s is for other names; give one of these in --server: %w", d.Server, err)
	}
	return fmt.Errorf("query the daemon at %s: %w", d.Server, err)
}

// refused explains why a response is not the requested data, and returns nil if it is.
func (d *daemon) refused(answer *http.Response, body []byte) error {
	text := strings.TrimSpace(string(body))
	switch {
	case answer.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s does not accept these credentials (401). It accepts certificates and tokens of its own cluster; give --kubeconfig "+
			"with the credentials of that cluster", d.Server)
	case answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s accepts these credentials, but they may not read %s (403). They need a ClusterRole with nonResourceURLs [%q, %q] and verb get: %s",
			d.Server, status.Path, status.Path, status.Path+"/*", message(text))
	case answer.StatusCode == http.StatusNotFound && strings.HasPrefix(text, "404 page not found"):
		return fmt.Errorf("the server at %s has no %s: it is not Orrery, but kube-controller-manager or something else", d.Server, status.Path)
	case answer.StatusCode != http.StatusOK:
		return errors.New(cmp.Or(message(text), answer.Status))
	case !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json"):
		return fmt.Errorf("the server at %s does not respond as Orrery does", d.Server)
	}
	return nil
}
