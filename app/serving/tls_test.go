package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	cliflag "k8s.io/component-base/cli/flag"

	"orrery/options/serving"
)

// TestRotation changes every certificate file under a running server.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	oldCA, newCA := newAuthority(t, "old"), newAuthority(t, "new")
	put := func(ca *authority, name, host string) (certFile, keyFile string) {
		cert, key := ca.issue(pkix.Name{CommonName: host}, host)
		return writeFile(t, dir, name+".crt", cert), writeFile(t, dir, name+".key", key)
	}
	c := testConfig(t)
	c.ReloadInterval = 20 * time.Millisecond
	c.Secure.CertFile, c.Secure.KeyFile = put(oldCA, "main", "orrery.test")
	sniCert, sniKey := put(oldCA, "sni", "other.test")
	c.Secure.SNICerts = []cliflag.NamedCertKey{{CertFile: sniCert, KeyFile: sniKey}}
	c.Authentication.ClientCAFile = writeFile(t, dir, "client-ca.crt", oldCA.pem)
	addr := start(t, c)

	oldAdmin, newAdmin := caller{cert: oldCA.client("root", "system:masters")}, caller{cert: newCA.client("root", "system:masters")}
	may := func(c caller) bool {
		status, _, _ := c.get(t, addr, "/metrics")
		return status == http.StatusOK
	}
	if err := errors.Join(trusts(oldCA, addr, "orrery.test"), trusts(oldCA, addr, "other.test")); err != nil || !may(oldAdmin) || may(newAdmin) {
		t.Fatalf("before the rotation: %v", err)
	}

	// The certificate arrives before its key: the old pair must stay until both are there.
	cert, key := newCA.issue(pkix.Name{CommonName: "orrery.test"}, "orrery.test")
	writeFile(t, dir, "main.crt", cert)
	time.Sleep(5 * c.ReloadInterval)
	if err := trusts(oldCA, addr, "orrery.test"); err != nil {
		t.Errorf("with half a rotation: %v", err)
	}
	writeFile(t, dir, "main.key", key)
	eventually(t, "the new serving certificate", func() bool { return trusts(newCA, addr, "orrery.test") == nil })

	put(newCA, "sni", "other.test")
	eventually(t, "the new SNI certificate", func() bool { return trusts(newCA, addr, "other.test") == nil })

	writeFile(t, dir, "client-ca.crt", []byte("broken"))
	time.Sleep(5 * c.ReloadInterval)
	if !may(oldAdmin) {
		t.Error("a broken client CA file displaced the good one")
	}
	writeFile(t, dir, "client-ca.crt", newCA.pem)
	eventually(t, "the new client CA", func() bool { return may(newAdmin) })
	if may(oldAdmin) {
		t.Error("the old client CA is still trusted")
	}
	// The TLS configuration is rebuilt just after the authenticators have the new CA.
	eventually(t, "the new CA as the issuer that clients are asked for", func() bool {
		issuers := acceptedIssuers(t, addr)
		return len(issuers) == 1 && strings.Contains(issuers[0], "new")
	})
}

// acceptedIssuers returns the authorities the server asks client certificates from.
func acceptedIssuers(t *testing.T, addr string) (issuers []string) {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for _, raw := range info.AcceptableCAs {
			issuers = append(issuers, string(raw))
		}
		return &tls.Certificate{}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	return issuers
}

func TestPickCertificate(t *testing.T) {
	ca := newAuthority(t, "ca")
	pair := func(names []string, cn string, dns ...string) *keyPair {
		p := &keyPair{names: names}
		if _, err := p.pair.Set(ca.issue(pkix.Name{CommonName: cn}, dns...)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	explicit := pair([]string{"*.foo.com", "foo.com", "10.0.0.7"}, "ignored.com", "ignored.com")
	wild := pair(nil, "*.bar.com")
	first := pair(nil, "bar.com", "x.bar.com", "x.foo.com")
	second := pair(nil, "127.0.0.1", "bar.com", "only-second.com")
	named := certificatesByName([]*keyPair{first, second, wild, explicit})

	addr := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, tc := range []struct {
		server string
		local  net.Addr
		want   *keyPair
	}{
		{"foo.com", addr("127.0.0.1"), explicit},
		{"FOO.com.", addr("127.0.0.1"), explicit},
		{"a.foo.com", addr("127.0.0.1"), explicit},
		{"x.foo.com", addr("127.0.0.1"), first}, // an exact name in a certificate beats a wildcard of a flag
		{"a.b.foo.com", addr("127.0.0.1"), nil}, // a wildcard stands for one label
		{"ignored.com", addr("127.0.0.1"), nil}, // names in the certificate do not count next to those of the flag
		{"bar.com", addr("127.0.0.1"), first},   // earlier flags win
		{"only-second.com", addr("127.0.0.1"), second},
		{"x.bar.com", addr("127.0.0.1"), first},
		{"y.bar.com", addr("127.0.0.1"), wild},
		{"", addr("10.0.0.7"), explicit},
		{"", addr("127.0.0.1"), nil}, // an IP as common name catches nothing
		{"unknown", addr("127.0.0.1"), nil},
	} {
		var want *tls.Certificate
		if tc.want != nil {
			want = tc.want.pair.Current()
		}
		if got := pickCertificate(named, tc.server, tc.local); got != want {
			t.Errorf("server name %q on %s: wrong certificate", tc.server, tc.local)
		}
	}
}

func TestGeneratedCertificate(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		addr := start(t, testConfig(t))
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		leaf := conn.ConnectionState().PeerCertificates[0]
		roots := x509.NewCertPool()
		roots.AddCert(leaf)
		for _, name := range []string{"localhost", "127.0.0.1"} {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: time.Now().Add(360 * 24 * time.Hour)}); err != nil {
				t.Errorf("not good for %s for a year: %v", name, err)
			}
		}
	})
	t.Run("kept in --cert-dir", func(t *testing.T) {
		o := serving.NewSecureOptions()
		o.CertDir = filepath.Join(t.TempDir(), "pki")
		o.BindAddress = net.IPv4(127, 0, 0, 1)
		first, err := defaultPair(o)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(o.CertDir, "kube-controller-manager.key"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("key file: %v, %v", info, err)
		}
		second, err := defaultPair(o)
		if err != nil || !second.pair.Current().Leaf.Equal(first.pair.Current().Leaf) {
			t.Errorf("not used again: %v", err)
		}
		if err := os.Remove(filepath.Join(o.CertDir, "kube-controller-manager.key")); err != nil {
			t.Fatal(err)
		}
		if _, err := defaultPair(o); err == nil || !strings.Contains(err.Error(), "--cert-dir") {
			t.Errorf("with half a pair: %v", err)
		}
	})
}

func TestProtocolSettings(t *testing.T) {
	c := testConfig(t)
	c.Secure.MinTLSVersion = "VersionTLS13"
	c.Secure.DisableHTTP2 = true
	addr := start(t, c)
	if _, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 accepted")
	}
	if _, _, response := (caller{}).get(t, addr, "/healthz"); response.ProtoMajor != 1 {
		t.Errorf("HTTP/%d", response.ProtoMajor)
	}
}

// TestBadFilesAndPorts shows that each broken input is one error that names the flag and what it was given.
func TestBadFilesAndPorts(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue(pkix.Name{CommonName: "a"})
	_, otherKey := ca.issue(pkix.Name{CommonName: "b"})
	good, goodKey := writeFile(t, dir, "a.crt", cert), writeFile(t, dir, "a.key", key)
	wrongKey, junk, missing := writeFile(t, dir, "b.key", otherKey), writeFile(t, dir, "junk", []byte("junk")), filepath.Join(dir, "missing")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port

	for _, tc := range []struct {
		name string
		set  func(*Config)
		want []string
	}{
		{"missing certificate", func(c *Config) { c.Secure.CertFile, c.Secure.KeyFile = missing, goodKey }, []string{"--tls-cert-file", missing}},
		{"missing key", func(c *Config) { c.Secure.CertFile, c.Secure.KeyFile = good, missing }, []string{"--tls-private-key-file", missing}},
		{"broken certificate", func(c *Config) { c.Secure.CertFile, c.Secure.KeyFile = junk, goodKey }, []string{"--tls-cert-file", junk}},
		{"broken key", func(c *Config) { c.Secure.CertFile, c.Secure.KeyFile = good, junk }, []string{"--tls-private-key-file", junk}},
		{"key of another certificate", func(c *Config) { c.Secure.CertFile, c.Secure.KeyFile = good, wrongKey }, []string{"--tls-cert-file", "--tls-private-key-file", good, wrongKey, "match"}},
		{"broken SNI certificate", func(c *Config) { c.Secure.SNICerts = []cliflag.NamedCertKey{{CertFile: junk, KeyFile: goodKey}} }, []string{"--tls-sni-cert-key", junk}},
		{"missing client CA", func(c *Config) { c.Authentication.ClientCAFile = missing }, []string{"--client-ca-file", missing}},
		{"broken client CA", func(c *Config) { c.Authentication.ClientCAFile = junk }, []string{"--client-ca-file", junk}},
		{"broken proxy CA", func(c *Config) { c.Authentication.RequestHeader.ClientCAFile = junk }, []string{"--requestheader-client-ca-file", junk}},
		{"missing kubeconfig", func(c *Config) { c.Authentication.Kubeconfig = missing }, []string{"--authentication-kubeconfig", missing}},
		{"broken kubeconfig", func(c *Config) { c.Authorization.Kubeconfig = junk }, []string{"--authorization-kubeconfig", junk}},
		{"port in use", func(c *Config) { c.Listener, c.Secure.BindAddress, c.Secure.Port = nil, net.IPv4(127, 0, 0, 1), port },
			[]string{"--secure-port " + strconv.Itoa(port), "--bind-address 127.0.0.1", "another process", "address already in use"}},
		{"address of another machine", func(c *Config) { c.Listener, c.Secure.BindAddress = nil, net.IPv4(192, 0, 2, 1) },
			[]string{"--bind-address 192.0.2.1", "does not have the address"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := testConfig(t)
			tc.set(&c)
			_, err := New(t.Context(), c)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, word := range tc.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestPortSharing(t *testing.T) {
	o := serving.NewSecureOptions()
	o.BindAddress, o.PermitPortSharing, o.PermitAddressSharing = net.IPv4(127, 0, 0, 1), true, true
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Port = free.Addr().(*net.TCPAddr).Port
	free.Close()
	for range 2 {
		listener, err := listen(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
}

func TestPortZeroTurnsServingOff(t *testing.T) {
	c := testConfig(t)
	c.Listener = nil
	c.Secure.Port = 0
	if server, err := New(context.Background(), c); server != nil || err != nil {
		t.Errorf("New = %v, %v", server, err)
	}
}
