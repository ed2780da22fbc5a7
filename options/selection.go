package options

import (
	"fmt"
	"slices"
	"strings"

	"orrery/kit"
)

// KnownControllers returns the names of the controllers in this build, in their order.
func (s *CMServer) KnownControllers() []string {
	var names []string
	for _, d := range s.Controllers {
		names = append(names, d.Name)
	}
	return names
}

// DisabledByDefault returns the names of the controllers in this build that run only if --controllers names them.
func (s *CMServer) DisabledByDefault() []string {
	var names []string
	for _, d := range s.Controllers {
		if d.OffByDefault {
			names = append(names, d.Name)
		}
	}
	return names
}

// IsEnabled reports whether a controller should run.
func (s *CMServer) IsEnabled(d kit.Descriptor) bool { return s.DisabledReason(d) == "" }

// DisabledReason returns why a controller is disabled; empty if it is enabled. The first entry of --controllers with its name
// or an alias decides. If there is none, '*' enables all controllers that are on by default.
func (s *CMServer) DisabledReason(d kit.Descriptor) string {
	if len(d.FeatureGates) > 0 {
		gate := s.Gates.FeatureGate()
		for _, name := range d.FeatureGates {
			if !on(gate, name) {
				return fmt.Sprintf("feature gate %s is off", name)
			}
		}
	}
	names, star := s.controllerNames(nil), false
	for _, entry := range s.Selection {
		name, minus := strings.CutPrefix(entry, "-")
		switch {
		case entry == "*":
			star = true
		case name != d.Name && names[name].canonical != d.Name:
		case minus:
			return "--controllers has " + entry
		default:
			return s.leftTo(d.Name)
		}
	}
	switch {
	case !star:
		return "--controllers does not name it"
	case d.OffByDefault:
		return "it is off by default"
	}
	return s.leftTo(d.Name)
}

// leftTo says which other component runs a controller; empty if this one does.
func (s *CMServer) leftTo(name string) string {
	if other := s.migration.elsewhere(name); other != "" {
		return "--leader-migration-config leaves it to " + other
	}
	return ""
}

// controllerName is what a name in --controllers stands for.
type controllerName struct {
	canonical string
	built     bool
}

// controllerNames returns all names and aliases, of this build and of upstream.
func (s *CMServer) controllerNames(known []string) map[string]controllerName {
	names := map[string]controllerName{}
	for _, row := range controllerRows() {
		for _, name := range append(row.aliases, row.name) {
			names[name] = controllerName{row.name, slices.Contains(known, row.name)}
		}
	}
	for _, d := range s.Controllers {
		for _, name := range d.Aliases {
			names[name] = controllerName{d.Name, slices.Contains(known, d.Name)}
		}
	}
	for _, name := range known {
		names[name] = controllerName{name, true}
	}
	return names
}

// checkSelection returns the errors in --controllers, and warnings.
func (s *CMServer) checkSelection(known []string) (errs []error, warnings []string) {
	names := s.controllerNames(known)
	for _, entry := range s.Selection {
		if entry == "*" {
			continue
		}
		name := strings.TrimPrefix(entry, "-")
		switch found, ok := names[name]; {
		case !ok:
			problem := fmt.Sprintf("--controllers: %q is not the name of a controller", name)
			if near := s.nearestController(name, names); near != "" {
				problem += fmt.Sprintf("; did you mean %q?", near)
			}
			if s.IgnoreUnknownControllers {
				warnings = append(warnings, problem)
			} else {
				errs = append(errs, fmt.Errorf("%s (--ignore-unknown-controllers makes this a warning)", problem))
			}
		case !found.built && entry == name:
			warnings = append(warnings, fmt.Sprintf("--controllers: %s is not in this build and does not run", found.canonical))
		case !found.built:
			warnings = append(warnings, fmt.Sprintf("--controllers: %s has no effect: %s is not in this build", entry, found.canonical))
		}
	}
	return errs, warnings
}

func (s *CMServer) nearestController(name string, names map[string]controllerName) string {
	var all []string
	for known := range names {
		all = append(all, known)
	}
	slices.Sort(all)
	return nearest(name, all)
}
