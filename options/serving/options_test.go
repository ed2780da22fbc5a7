package serving

import (
	"encoding/csv"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// section is what the three option structs have in common.
type section interface {
	AddFlags(*pflag.FlagSet)
	Validate() []error
}

func sections() map[string]section {
	secure, authn, authz := NewSecureOptions(), NewAuthenticationOptions(), NewAuthorizationOptions()
	return map[string]section{"Secure serving": &secure, "Authentication": &authn, "Authorization": &authz}
}

// TestFlagsEqualKubeControllerManager compares names, types and defaults with
// testdata/flags.tsv, which was taken from kube-controller-manager 1.37.
func TestFlagsEqualKubeControllerManager(t *testing.T) {
	file, err := os.Open("testdata/flags.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	reader.Comma = '\t'
	rows, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}

	type flag struct{ typ, def string }
	want := map[string]map[string]flag{}
	for _, row := range rows[1:] {
		if want[row[3]] == nil {
			want[row[3]] = map[string]flag{}
		}
		want[row[3]][row[0]] = flag{row[1], row[2]}
	}
	got := map[string]map[string]flag{}
	for name, s := range sections() {
		fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
		s.AddFlags(fs)
		got[name] = map[string]flag{}
		fs.VisitAll(func(f *pflag.Flag) { got[name][f.Name] = flag{typeInHelp(f), defaultInHelp(f)} })
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("flags differ\n got %v\nwant %v", got, want)
	}
}

// typeInHelp is how --help names the type, which is what the table records.
func typeInHelp(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	if name == "" {
		return "bool"
	}
	return name
}

// defaultInHelp leaves out what --help leaves out: zero values and, for string lists, the brackets' emptiness.
func defaultInHelp(f *pflag.Flag) string {
	switch f.DefValue {
	case "false", "0":
		return ""
	case "[]":
		if f.Value.Type() == "stringSlice" {
			return ""
		}
	}
	return f.DefValue
}

func TestDefaultsAreValid(t *testing.T) {
	for name, s := range sections() {
		if errs := s.Validate(); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	authn := NewAuthenticationOptions()
	if w := authn.Warnings(); len(w) > 0 {
		t.Errorf("the defaults warn: %v", w)
	}
}

func TestValidateNamesFlagAndValue(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want [][]string // one entry per problem: the words its message must have
	}{
		{[]string{"--secure-port=70000"}, [][]string{{"--secure-port", "70000", "between 0 and 65535"}}},
		{[]string{"--secure-port=-1"}, [][]string{{"--secure-port", "-1"}}},
		{[]string{"--tls-cert-file=a.crt"}, [][]string{{"--tls-cert-file", "--tls-private-key-file", `"a.crt"`, "together"}}},
		{[]string{"--tls-cipher-suites=TLS_AES_128_GCM_SHA256,RC5"}, [][]string{{"--tls-cipher-suites", `"RC5"`, "TLS_AES_256_GCM_SHA384"}}},
		{[]string{"--tls-curve-preferences=29,29"}, [][]string{{"--tls-curve-preferences", "[29 29]", "distinct"}}},
		{[]string{"--tls-min-version=SSL3"}, [][]string{{"--tls-min-version", `"SSL3"`, "VersionTLS12"}}},
		{[]string{"--http2-max-streams-per-connection=-5"}, [][]string{{"--http2-max-streams-per-connection", "-5", "at least 0"}}},
		{[]string{"--tls-sni-cert-key=a.crt,"}, [][]string{{"--tls-sni-cert-key", "a.crt,"}}},
		{[]string{"--authentication-token-webhook-cache-ttl=-1s"}, [][]string{{"--authentication-token-webhook-cache-ttl", "-1s"}}},
		{[]string{"--requestheader-username-headers=X-Remote-User, "}, [][]string{{"--requestheader-username-headers", "empty"}}},
		{[]string{"--requestheader-uid-headers=X-My-Uid"}, [][]string{{"--requestheader-uid-headers", "X-Remote-Uid", "X-My-Uid"}}},
		{[]string{"--requestheader-uid-headers=x-remote-uid,X-My-Uid"}, nil},
		{[]string{"--authorization-always-allow-paths=/a*b,/ok/*,*"}, [][]string{{"--authorization-always-allow-paths", `"/a*b"`, "end"}}},
		{[]string{"--authorization-webhook-cache-authorized-ttl=-2s", "--authorization-webhook-cache-unauthorized-ttl=-3s"},
			[][]string{{"authorized-ttl", "-2s"}, {"unauthorized-ttl", "-3s"}}},
		{[]string{"--secure-port=0", "--tls-min-version=", "--bind-address=::"}, nil},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			all := sections()
			for _, s := range all {
				s.AddFlags(fs)
			}
			if err := fs.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			var errs []error
			for _, name := range []string{"Secure serving", "Authentication", "Authorization"} {
				errs = append(errs, all[name].Validate()...)
			}
			if len(errs) != len(tc.want) {
				t.Fatalf("got %d problems, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, words := range tc.want {
				for _, word := range words {
					if !strings.Contains(errs[i].Error(), word) {
						t.Errorf("%q does not say %q", errs[i], word)
					}
				}
			}
		})
	}
}

func TestFlagsSetTheFields(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	secure, authn, authz := NewSecureOptions(), NewAuthenticationOptions(), NewAuthorizationOptions()
	secure.AddFlags(fs)
	authn.AddFlags(fs)
	authz.AddFlags(fs)
	if err := fs.Parse([]string{
		"--bind-address=127.0.0.1", "--secure-port=1234", "--tls-sni-cert-key=a,b:x.y", "--tls-sni-cert-key=c,d",
		"--permit-port-sharing", "--client-ca-file=ca", "--requestheader-allowed-names=front-proxy-client",
		"--authorization-always-allow-paths=/x", "--authorization-webhook-cache-unauthorized-ttl=3s",
	}); err != nil {
		t.Fatal(err)
	}
	if secure.BindAddress.String() != "127.0.0.1" || secure.Port != 1234 || !secure.PermitPortSharing || secure.PermitAddressSharing {
		t.Errorf("secure = %+v", secure)
	}
	if want := []cliflag.NamedCertKey{{Names: []string{"x.y"}, CertFile: "a", KeyFile: "b"}, {CertFile: "c", KeyFile: "d"}}; !reflect.DeepEqual(secure.SNICerts, want) {
		t.Errorf("SNICerts = %+v, want %+v", secure.SNICerts, want)
	}
	if authn.ClientCAFile != "ca" || !reflect.DeepEqual(authn.RequestHeader.AllowedNames, []string{"front-proxy-client"}) {
		t.Errorf("authn = %+v", authn)
	}
	if !reflect.DeepEqual(authz.AlwaysAllowPaths, []string{"/x"}) || authz.DeniedTTL != 3*time.Second || authz.AllowedTTL != 10*time.Second {
		t.Errorf("authz = %+v", authz)
	}
}

func TestWarningsForNonstandardProxyHeaders(t *testing.T) {
	authn := NewAuthenticationOptions()
	authn.RequestHeader.GroupHeaders = []string{"X-My-Group"}
	if w := authn.Warnings(); len(w) != 1 || !strings.Contains(w[0], "--requestheader-group-headers") {
		t.Errorf("Warnings() = %q", w)
	}
}
