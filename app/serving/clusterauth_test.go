package serving

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// settingsOf is what an API server publishes that trusts these authorities.
func settingsOf(users, proxies *authority, userHeader string) map[string]string {
	return map[string]string{
		"client-ca-file":                     string(users.pem),
		"requestheader-client-ca-file":       string(proxies.pem),
		"requestheader-username-headers":     `["` + userHeader + `"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		"requestheader-allowed-names":        `["front-proxy-client"]`,
	}
}

func TestSettingsOfTheClusterAreReadAndFollowed(t *testing.T) {
	k := newKube(t)
	users, proxies, newUsers := newAuthority(t, "users"), newAuthority(t, "proxies"), newAuthority(t, "new users")
	k.publish("1", settingsOf(users, proxies, "X-Remote-User"))
	c := testConfig(t)
	c.Authentication.Kubeconfig = k.kubeconfig
	addr := start(t, c)

	may := func(c caller) bool {
		status, _, _ := c.get(t, addr, "/metrics")
		return status == http.StatusOK
	}
	user := caller{cert: users.client("root", "system:masters")}
	proxied := func(header string) caller {
		return caller{cert: proxies.client("front-proxy-client"), header: http.Header{header: {"root"}, "X-Remote-Group": {"system:masters"}}}
	}
	newUser := caller{cert: newUsers.client("root", "system:masters")}
	if !may(user) || !may(proxied("X-Remote-User")) || may(newUser) {
		t.Fatal("the settings were not read at the start")
	}
	if may(caller{cert: proxies.client("someone"), header: http.Header{"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}}}) {
		t.Error("the list of allowed proxies is not kept")
	}

	eventually(t, "a watch", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.watchers) > 0
	})
	k.publish("2", settingsOf(newUsers, proxies, "X-Other-User"))
	eventually(t, "the new client CA", func() bool { return may(newUser) })
	eventually(t, "the new user header", func() bool { return may(proxied("X-Other-User")) })
	if may(user) || may(proxied("X-Remote-User")) {
		t.Error("the old settings still hold")
	}

	// Settings that are broken or gone leave the last ones in force.
	k.publish("3", map[string]string{"client-ca-file": "broken", "requestheader-username-headers": "broken"})
	k.publish("4", map[string]string{})
	time.Sleep(200 * time.Millisecond)
	if !may(newUser) {
		t.Error("a broken client CA displaced the good one")
	}
}

func TestLookupFailure(t *testing.T) {
	for _, tc := range []struct {
		name     string
		set      func(*Config)
		failWith int
		refused  bool
	}{
		{name: "forbidden", failWith: http.StatusForbidden, refused: true},
		{name: "forbidden but tolerated", failWith: http.StatusForbidden, set: func(c *Config) { c.Authentication.TolerateLookupFailure = true }},
		{name: "forbidden but not needed", failWith: http.StatusForbidden, set: func(c *Config) { c.Authentication.SkipLookup = true }},
		{name: "server stays broken", failWith: http.StatusServiceUnavailable, refused: true, set: func(c *Config) { c.LookupTimeout = 200 * time.Millisecond }},
		{name: "not published yet"}, // 404
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKube(t)
			k.failWith = tc.failWith
			c := testConfig(t)
			c.Authentication.Kubeconfig = k.kubeconfig
			if tc.set != nil {
				tc.set(&c)
			}
			if !tc.refused {
				addr := start(t, c)
				if status, _, _ := (caller{}).get(t, addr, "/healthz"); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
				return
			}
			_, err := New(t.Context(), c)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, word := range []string{"kube-system/extension-apiserver-authentication", "--requestheader-client-ca-file", "--authentication-tolerate-lookup-failure"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}

func TestLookupWaitsForTheAPIServer(t *testing.T) {
	k := newKube(t)
	users, proxies := newAuthority(t, "users"), newAuthority(t, "proxies")
	k.publish("1", settingsOf(users, proxies, "X-Remote-User"))
	k.failWith = http.StatusServiceUnavailable
	time.AfterFunc(500*time.Millisecond, func() { k.with(func() { k.failWith = 0 }) })
	c := testConfig(t)
	c.Authentication.Kubeconfig = k.kubeconfig
	addr := start(t, c)
	if status, _, _ := (caller{cert: users.client("root", "system:masters")}).get(t, addr, "/metrics"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

func TestParseProxyHeaders(t *testing.T) {
	got, err := parseProxyHeaders(map[string]string{usernameHeadersKey: `["A","B"]`, groupHeadersKey: "", allowedNamesKey: `[]`, "other": "x"})
	if want := (map[string][]string{usernameHeadersKey: {"A", "B"}, allowedNamesKey: {}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := parseProxyHeaders(map[string]string{uidHeadersKey: `"A"`}); err == nil || !strings.Contains(err.Error(), uidHeadersKey) {
		t.Errorf("a value that is no list: %v", err)
	}
}
