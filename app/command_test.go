package app

import "testing"

func TestEmptyArgumentsAreNone(t *testing.T) {
	cmd := NewControllerManagerCommand()
	for _, tc := range []struct {
		args []string
		ok   bool
	}{
		{nil, true}, {[]string{""}, true}, {[]string{"", "--profiling=false", ""}, true},
		{[]string{"run"}, false}, {[]string{"", "run"}, false},
	} {
		found, rest, err := cmd.Find(tc.args)
		if err == nil {
			if err = found.ParseFlags(rest); err == nil {
				err = found.ValidateArgs(found.Flags().Args())
			}
		}
		if (err == nil) != tc.ok || err == nil && found != cmd {
			t.Errorf("%q: %v, want it taken: %t", tc.args, err, tc.ok)
		}
	}
}
