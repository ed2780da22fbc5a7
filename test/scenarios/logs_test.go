package scenarios

import (
	"regexp"
	"strings"
	"testing"
)

// crash matches the traces of a crash, but not a flag that begins with --panic.
var crash = regexp.MustCompile(`(?:^|[^-\w])[Pp]anic\b|WARNING: DATA RACE|^goroutine \d+ \[|fatal error:`)

// denied matches the error message of a missing permission. The number can also be that of an object, as in "load-403", of a
// line of code, or of milliseconds.
var denied = regexp.MustCompile(`[Ff]orbidden|(?:[\s"(=]|[Cc]ode\W{1,3})403(?:$|[^\w.]|\.$|\.\D)|Unauthorized`)

// byAdmission matches rejections by quotas and policies, which have the same words but are no missing permission.
var byAdmission = regexp.MustCompile(`is forbidden: (exceeded quota:|ValidatingAdmissionPolicy \S+ with binding \S+ denied request:)`)

// errorLine matches the header of an error in the text log format.
var errorLine = regexp.MustCompile(`^[EF]\d{4} \d\d:\d\d:\d\d`)

// faultsInLog returns the lines that a healthy daemon does not write. Expected errors can be allowed; crashes and missing
// permissions cannot.
func faultsInLog(text string, allowed []*regexp.Regexp) (bad []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case crash.MatchString(line), denied.MatchString(line) && !byAdmission.MatchString(line):
			bad = append(bad, line)
		case errorLine.MatchString(line) && !matchesAny(line, allowed):
			bad = append(bad, line)
		}
	}
	return bad
}

func matchesAny(line string, patterns []*regexp.Regexp) bool {
	for _, p := range patterns {
		if p.MatchString(line) {
			return true
		}
	}
	return false
}

func TestFaultsInLogAreFound(t *testing.T) {
	const head = " 12:00:00.000000      17 x.go:1] "
	allowed := []*regexp.Regexp{regexp.MustCompile("connection refused")}
	for line, want := range map[string]bool{
		"I1129" + head + `"Started controller" controller="x"`:                                                                             false,
		"E1129" + head + `"Reconcile failed" err="boom"`:                                                                                   true,
		"E1129" + head + `"x" err="dial: connection refused"`:                                                                              false,
		"I1129" + head + `"x" err="pods is forbidden: User ..."`:                                                                           true,
		"E1129" + head + `"x" err="pods is forbidden: exceeded quota: connection refused"`:                                                 false,
		"E1129" + head + `"x" err="pods is forbidden: exceeded quota: x"`:                                                                  true,
		"E1129" + head + `"x" err="nodes is forbidden: ValidatingAdmissionPolicy 'a' with binding 'b' denied request: connection refused"`: false,
		"I1129" + head + `"Caught a panic" panic="x"`:                                                                                      true,
		"goroutine 7 [running]:":                 true,
		"WARNING: DATA RACE":                     true,
		"panic: nil map":                         true,
		"fatal error: all goroutines are asleep": true,
		"I1129" + head + `"Starting" flags="--unauthorized-ttl=1s"`:                                              false,
		"I1129" + head + `"Starting" flags=["--panic-policy=isolate"]`:                                           false,
		"I1129" + head + `"Too few replicas" object="default/load-403"`:                                          false,
		"I1129 12:00:00.000000      17 x.go:403] \"Synced\"":                                                     false,
		"I1129" + head + `"Refused" err="the server responded with the status code 403 but did not return more"`: true,
		"I1129" + head + `"Refused" status="403 Forbidden"`:                                                      true,
		"I1129" + head + `"Fetched service account tokens" identities=17 took="403.898485ms"`:                    false,
		"I1129" + head + `"Refused" err="answered with 403. Try again"`:                                          true,
		"I1129" + head + `"Refused" code=403`:                                                                    true,
		`{"msg":"Refused","code":403}`:                                                                           true,
	} {
		if got := len(faultsInLog(line, allowed)) > 0; got != want {
			t.Errorf("%s: found %v, want %v", line, got, want)
		}
	}
}
