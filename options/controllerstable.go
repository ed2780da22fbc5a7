package options

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"orrery/kit"
)

// ControllerInfo is what "orrery controllers" prints about a controller.
type ControllerInfo struct {
	// Name is the canonical name; Aliases are other names that --controllers accepts.
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	// Default is "on" or "off".
	Default string `json:"default"`
	// ServiceAccount in kube-system is the controller's identity; empty means the daemon's own.
	ServiceAccount string `json:"serviceAccount"`
	// FeatureGates must all be on.
	FeatureGates []string `json:"featureGates"`
	// Built is false for controllers of kube-controller-manager that this build does not have.
	Built bool `json:"built"`
	// Summary describes the controller.
	Summary string `json:"summary"`
}

// ControllerInfos returns the controllers of this build in their order, then upstream's others.
func ControllerInfos(built []kit.Descriptor) []ControllerInfo {
	upstream := map[string]controllerRow{}
	for _, row := range controllerRows() {
		upstream[row.name] = row
	}
	var infos []ControllerInfo
	for _, d := range built {
		info := ControllerInfo{
			Name: d.Name, Aliases: append([]string{}, d.Aliases...), Default: onOff(!d.OffByDefault),
			ServiceAccount: d.ServiceAccount, FeatureGates: []string{}, Built: true, Summary: d.Summary,
		}
		for _, gate := range d.FeatureGates {
			info.FeatureGates = append(info.FeatureGates, string(gate))
		}
		if info.Summary == "" {
			info.Summary = upstream[d.Name].summary
		}
		infos = append(infos, info)
		delete(upstream, d.Name)
	}
	for _, row := range controllerRows() {
		if _, left := upstream[row.name]; left {
			infos = append(infos, ControllerInfo{
				Name: row.name, Aliases: append([]string{}, row.aliases...), Default: onOff(!row.off),
				ServiceAccount: row.serviceAccount, FeatureGates: append([]string{}, row.gates...), Summary: row.summary,
			})
		}
	}
	return infos
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// ControllersTable writes the table of all controllers, whether in this build or not, as text or as JSON.
func ControllersTable(w io.Writer, built []kit.Descriptor, format string) error {
	infos := ControllerInfos(built)
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(infos)
	case "", "text":
	default:
		return fmt.Errorf("--output must be text or json, got %q", format)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tALIASES\tDEFAULT\tSERVICE ACCOUNT\tBUILT\tWHAT IT DOES")
	for _, i := range infos {
		built := "yes"
		if !i.Built {
			built = "no"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", i.Name, dash(strings.Join(i.Aliases, ",")), i.Default, dash(i.ServiceAccount), built, i.Summary)
	}
	return t.Flush()
}

// dash stands for an empty cell, so that columns can be extracted with cut or awk.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
