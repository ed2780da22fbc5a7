package serving

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"orrery/options/serving"
)

// tlsState gives each new connection the certificates and the client authorities that are valid now.
type tlsState struct {
	base      *tls.Config
	byDefault *keyPair
	sni       []*keyPair
	bundles   []*caBundle // whose subjects are named to clients as acceptable issuers

	rebuilding sync.Mutex // orders rebuilds, so that the last one stored saw the last change
	current    atomic.Pointer[tls.Config]
}

func newTLSState(o serving.SecureOptions, bundles []*caBundle) (*tlsState, error) {
	byDefault, err := defaultPair(o)
	if err != nil {
		return nil, err
	}
	sni, err := sniPairs(o)
	if err != nil {
		return nil, err
	}
	base, err := baseTLSConfig(o)
	if err != nil {
		return nil, err
	}
	if len(bundles) > 0 {
		// Ask for a certificate but verify none here: a caller may just as well bring a token,
		// and which authority vouches for what is the authenticators' business.
		base.ClientAuth = tls.RequestClientCert
	}
	s := &tlsState{base: base, byDefault: byDefault, sni: sni, bundles: bundles}
	s.rebuild()
	return s, nil
}

// baseTLSConfig returns what never changes while the daemon runs.
func baseTLSConfig(o serving.SecureOptions) (*tls.Config, error) {
	version, err := cliflag.TLSVersion(o.MinTLSVersion)
	if err != nil {
		return nil, err
	}
	suites, err := cliflag.TLSCipherSuites(o.CipherSuites)
	if err != nil {
		return nil, err
	}
	curves, err := cliflag.TLSCurvePreferences(o.CurvePreferences)
	if err != nil {
		return nil, err
	}
	insecure := cliflag.InsecureTLSCiphers()
	for _, name := range o.CipherSuites {
		if _, ok := insecure[name]; ok {
			klog.InfoS("Insecure cipher suite is allowed", "flag", "--tls-cipher-suites", "suite", name)
		}
	}
	protos := []string{"h2", "http/1.1"}
	if o.DisableHTTP2 {
		protos = protos[1:]
	}
	return &tls.Config{MinVersion: version, CipherSuites: suites, CurvePreferences: curves, NextProtos: protos}, nil
}

// rebuild makes the configuration for connections to come from what the sources hold now.
func (s *tlsState) rebuild() {
	s.rebuilding.Lock()
	defer s.rebuilding.Unlock()
	config := s.base.Clone()
	config.ClientCAs = x509.NewCertPool()
	for _, bundle := range s.bundles {
		for _, cert := range bundle.certificates() {
			config.ClientCAs.AddCert(cert)
		}
	}
	named := certificatesByName(s.sni)
	byDefault := s.byDefault.pair.Current()
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if cert := pickCertificate(named, hello.ServerName, hello.Conn.LocalAddr()); cert != nil {
			return cert, nil
		}
		return byDefault, nil
	}
	s.current.Store(config)
}

// listenerConfig returns the configuration for the listener, which asks rebuild's latest at each handshake.
func (s *tlsState) listenerConfig() *tls.Config {
	config := s.base.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current.Load(), nil }
	return config
}

// certificatesByName maps lower-case host names, wildcards and IPs to certificates.
// Names given with a pair beat names found in a certificate, and earlier pairs later ones.
func certificatesByName(pairs []*keyPair) map[string]*tls.Certificate {
	named := map[string]*tls.Certificate{}
	add := func(names []string, cert *tls.Certificate) {
		for _, name := range names {
			name = strings.ToLower(name)
			if named[name] == nil {
				named[name] = cert
			}
		}
	}
	for _, p := range pairs {
		add(p.names, p.pair.Current())
	}
	for _, p := range pairs {
		if cert := p.pair.Current(); len(p.names) == 0 && cert != nil {
			add(namesIn(cert.Leaf), cert)
		}
	}
	return named
}

// namesIn returns the host names a certificate is for. IPs are left out: clients
// send none as server name, so they would only catch connections by accident.
func namesIn(cert *x509.Certificate) []string {
	var names []string
	cn := cert.Subject.CommonName
	if net.ParseIP(cn) == nil && (cn == "*" || len(validation.IsDNS1123Subdomain(strings.TrimPrefix(cn, "*."))) == 0) {
		names = append(names, cn)
	}
	return append(names, cert.DNSNames...)
}

// pickCertificate finds the certificate for a server name, exact before wildcard.
// A client that names no server gets what is there for the address it connected to.
func pickCertificate(named map[string]*tls.Certificate, serverName string, local net.Addr) *tls.Certificate {
	if len(named) == 0 {
		return nil
	}
	if serverName == "" {
		host, _, err := net.SplitHostPort(local.String())
		if err != nil {
			return nil
		}
		return named[host]
	}
	name := strings.ToLower(strings.TrimSuffix(serverName, "."))
	if cert := named[name]; cert != nil {
		return cert
	}
	if _, rest, ok := strings.Cut(name, "."); ok {
		return named["*."+rest]
	}
	return named["*"]
}
