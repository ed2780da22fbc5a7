package options

import (
	_ "embed" // for the tables below
	"slices"
	"strings"
)

// The tables hold facts of kube-controller-manager 1.37: every flag, controller and feature gate, and the fields
// of the configuration file.
var (
	//go:embed tables/flags.tsv
	flagTable string
	//go:embed tables/controllers.tsv
	controllerTable string
	//go:embed tables/gates.tsv
	gateTable string
	//go:embed tables/configfields.tsv
	configFieldTable string
)

// flagRow is a flag: its type as --help names it, and its default as --help shows it, empty for a zero value.
type flagRow struct{ name, kind, value, section string }

// controllerRow is a controller of upstream, built here or not.
type controllerRow struct {
	name           string
	aliases        []string
	serviceAccount string
	off            bool
	gates          []string
	summary        string
}

// gateRow is a feature gate and the gates that it cannot be on without.
type gateRow struct {
	name     string
	stage    string
	on       bool
	requires []string
}

// configField maps a field of the configuration type, as field names joined by dots, to its flag. second is the field for
// what follows the first comma in the flag's value; mostly there is none.
type configField struct{ path, flag, second string }

func flagRows() []flagRow {
	var rows []flagRow
	for f := range records(flagTable) {
		rows = append(rows, flagRow{f[0], f[1], f[2], strings.ToLower(f[3])})
	}
	return rows
}

func controllerRows() []controllerRow {
	var rows []controllerRow
	for f := range records(controllerTable) {
		rows = append(rows, controllerRow{
			name: f[0], aliases: list(f[1]), serviceAccount: f[2], off: f[3] == "off", gates: list(f[4]), summary: f[5],
		})
	}
	return rows
}

func gateRows() []gateRow {
	var rows []gateRow
	for f := range records(gateTable) {
		rows = append(rows, gateRow{name: f[0], stage: f[1], on: f[2] == "true", requires: list(f[3])})
	}
	return rows
}

func configFields() []configField {
	var fields []configField
	for f := range records(configFieldTable) {
		fields = append(fields, configField{f[0], f[1], strings.Trim(f[2], "-")})
	}
	return fields
}

// records yields the fields of each line after the header.
func records(table string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for i, line := range strings.Split(strings.TrimSuffix(table, "\n"), "\n") {
			if i > 0 && !yield(strings.Split(line, "\t")) {
				return
			}
		}
	}
}

// list splits a field of names; a dash stands for none.
func list(field string) []string {
	if field == "-" {
		return nil
	}
	return slices.Clip(strings.Split(field, ","))
}
