package serving

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// DefaultPort is the HTTPS port of a controller manager, on which probes and scrape
// configurations rely.
const DefaultPort = 10257

// SecureOptions says where and how HTTPS is served.
type SecureOptions struct {
	// BindAddress is the IP to listen on. Nil or an unspecified address means all interfaces and families.
	BindAddress net.IP
	// Port is the TCP port; 0 turns HTTPS off.
	Port int
	// CertDir is where a generated certificate is kept between runs. Empty keeps it in memory.
	CertDir string
	// CertFile and KeyFile are the PEM files of the default certificate; both or none are given.
	CertFile, KeyFile string
	// SNICerts are further certificates, chosen by the name the client asks for.
	SNICerts []cliflag.NamedCertKey
	// CipherSuites are crypto/tls constant names; empty means Go's choice.
	CipherSuites []string
	// CurvePreferences are crypto/tls CurveID numbers; empty means Go's choice.
	CurvePreferences []int32
	// MinTLSVersion is a name such as VersionTLS12, which is also what empty means.
	MinTLSVersion string
	// DisableHTTP2 restricts connections to HTTP/1.1.
	DisableHTTP2 bool
	// HTTP2MaxStreams limits the open streams of one connection; 0 means the server's default of 100.
	HTTP2MaxStreams int
	// PermitAddressSharing sets SO_REUSEADDR on the listening socket.
	PermitAddressSharing bool
	// PermitPortSharing sets SO_REUSEPORT on the listening socket.
	PermitPortSharing bool
}

// NewSecureOptions returns the defaults: all interfaces, port 10257, a certificate made in memory.
func NewSecureOptions() SecureOptions {
	return SecureOptions{BindAddress: net.IPv4zero, Port: DefaultPort}
}

// Enabled reports whether HTTPS is served at all.
func (o *SecureOptions) Enabled() bool { return o.Port != 0 }

// AddFlags registers the flags of the section "Secure serving".
func (o *SecureOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IPVar(&o.BindAddress, "bind-address", o.BindAddress,
		"IP address to listen on for the port given by --secure-port. It must be reachable by probes and by metrics scrapers. "+
			"Blank or an unspecified address (0.0.0.0 or ::) means all interfaces and IP families.")
	fs.IntVar(&o.Port, "secure-port", o.Port,
		"Port on which to serve HTTPS with authentication and authorization. 0 turns HTTPS off.")
	fs.StringVar(&o.CertDir, "cert-dir", o.CertDir,
		"Directory that keeps the generated serving certificate between runs. Ignored when --tls-cert-file and --tls-private-key-file are given.")
	fs.StringVar(&o.CertFile, "tls-cert-file", o.CertFile,
		"PEM file with the serving certificate, followed by its intermediate certificates if any. Without it a self-signed certificate "+
			"is generated, and kept in --cert-dir if that is given. The file is read again when it changes.")
	fs.StringVar(&o.KeyFile, "tls-private-key-file", o.KeyFile,
		"PEM file with the private key that belongs to --tls-cert-file.")
	fs.Var(cliflag.NewNamedCertKeyArray(&o.SNICerts), "tls-sni-cert-key",
		"Pair of certificate and key file, optionally followed by the host names it is for; without names those in the certificate are used. "+
			"Names may start with a wildcard label. Exact names win over wildcards, names given here over names in a certificate. "+
			"May be given several times. Examples: \"example.crt,example.key\" or \"foo.crt,foo.key:*.foo.com,foo.com\".")
	fs.StringSliceVar(&o.CipherSuites, "tls-cipher-suites", o.CipherSuites,
		"Comma-separated cipher suites of the server; Go's default suites if empty.\n"+
			"Preferred values: "+strings.Join(cliflag.PreferredTLSCipherNames(), ", ")+".\n"+
			"Insecure values: "+strings.Join(cliflag.InsecureTLSCipherNames(), ", ")+".")
	fs.Int32SliceVar(&o.CurvePreferences, "tls-curve-preferences", o.CurvePreferences,
		"Comma-separated numbers of the key exchange mechanisms the server allows, as Go's crypto/tls CurveID has them; "+
			"the order does not matter. Go's default set if empty.")
	fs.StringVar(&o.MinTLSVersion, "tls-min-version", o.MinTLSVersion,
		"Lowest TLS version accepted. Possible values: "+strings.Join(cliflag.TLSPossibleVersions(), ", ")+".")
	fs.BoolVar(&o.DisableHTTP2, "disable-http2-serving", o.DisableHTTP2,
		"Serve HTTP/1.1 only.")
	fs.IntVar(&o.HTTP2MaxStreams, "http2-max-streams-per-connection", o.HTTP2MaxStreams,
		"Number of streams a client may have open in one HTTP/2 connection. 0 means the default.")
	fs.BoolVar(&o.PermitAddressSharing, "permit-address-sharing", o.PermitAddressSharing,
		"Set SO_REUSEADDR on the listening socket, so that wildcard and specific addresses can be bound in parallel and "+
			"sockets in TIME_WAIT do not block a restart.")
	fs.BoolVar(&o.PermitPortSharing, "permit-port-sharing", o.PermitPortSharing,
		"Set SO_REUSEPORT on the listening socket, so that several processes can listen on the same address and port.")
}

// Validate reports every problem, each with flag, value and what would be right.
func (o *SecureOptions) Validate() []error {
	var errs []error
	if o.Port < 0 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port must be between 0 and 65535, where 0 turns HTTPS off, got %d", o.Port))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, fmt.Errorf("--tls-cert-file and --tls-private-key-file must be given together or not at all, got %q and %q", o.CertFile, o.KeyFile))
	}
	for _, sni := range o.SNICerts {
		if sni.CertFile == "" || sni.KeyFile == "" {
			errs = append(errs, fmt.Errorf("--tls-sni-cert-key must name a certificate file and a key file, as in \"a.crt,a.key\", got %q", sni.String()))
		}
	}
	for _, name := range o.CipherSuites {
		if _, err := cliflag.TLSCipherSuites([]string{name}); err != nil {
			errs = append(errs, fmt.Errorf("--tls-cipher-suites must be among %s, got %q", strings.Join(cliflag.TLSCipherPossibleValues(), ", "), name))
		}
	}
	if _, err := cliflag.TLSCurvePreferences(o.CurvePreferences); err != nil {
		errs = append(errs, fmt.Errorf("--tls-curve-preferences must be distinct crypto/tls CurveID numbers this build knows, got %v: %w", o.CurvePreferences, err))
	}
	if _, err := cliflag.TLSVersion(o.MinTLSVersion); err != nil {
		errs = append(errs, fmt.Errorf("--tls-min-version must be one of %s, got %q", strings.Join(cliflag.TLSPossibleVersions(), ", "), o.MinTLSVersion))
	}
	if o.HTTP2MaxStreams < 0 {
		errs = append(errs, fmt.Errorf("--http2-max-streams-per-connection must be at least 0, where 0 means the default, got %d", o.HTTP2MaxStreams))
	}
	return errs
}
