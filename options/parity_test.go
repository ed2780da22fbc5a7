package options

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestEveryUpstreamFlagIsAccepted compares names, types, defaults and sections with the table of upstream's flags.
func TestEveryUpstreamFlagIsAccepted(t *testing.T) {
	s := NewCMServer()
	fss := s.Flags()
	seen := map[string]bool{}
	for _, row := range flagRows() {
		if row.section == "global" {
			continue
		}
		seen[row.name] = true
		f := fss.FlagSet(row.section).Lookup(row.name)
		if f == nil {
			t.Errorf("--%s is not in section %q", row.name, row.section)
			continue
		}
		want := flagRow{row.name, row.kind, row.value, row.section}
		switch row.name {
		case "kube-api-qps": // differs on purpose
			want.value = "-1"
		case "controllers": // upstream's table leaves it out, as it follows a list
			want.value = "[*]"
		}
		if got := (flagRow{f.Name, typeInHelp(f), defaultInHelp(f), row.section}); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	own := map[string]bool{"config": true, "ignore-unknown-controllers": true, "allow-untagged-cloud": true, "node-sync-period": true,
		"webhook-cert-dir": true, "webhook-bind-address": true, "webhook-port": true,
		"panic-policy": true, "warm-standby": true, "dry-run": true}
	s.visitFlags(func(f *pflag.Flag) {
		if !seen[f.Name] && !own[f.Name] {
			t.Errorf("--%s is neither upstream's nor one of ours", f.Name)
		}
	})
}

// typeInHelp is how --help names the type, which is what the table records.
func typeInHelp(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	if name == "" {
		return "bool"
	}
	return name
}

// defaultInHelp leaves out zero values, as --help does.
func defaultInHelp(f *pflag.Flag) string {
	switch f.DefValue {
	case "false", "0", "0s":
		return ""
	case "[]":
		if f.Value.Type() == "stringSlice" {
			return ""
		}
	}
	return f.DefValue
}
