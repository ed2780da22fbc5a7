package options

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// validateMetrics runs component-base's validation, and names flags in place of its fields.
func (s *CMServer) validateMetrics() []error {
	flags := map[string]string{
		"metrics.showHiddenMetricsForVersion": "show-hidden-metrics-for-version",
		"metrics.disabledMetrics":             "disabled-metrics",
		"metrics.allowListMapping":            "allow-metric-labels",
		"metrics.allowListMappingManifest":    "allow-metric-labels-manifest",
	}
	var errs []error
	for _, err := range s.Metrics.Validate() {
		var problem *field.Error
		switch {
		case !errors.As(err, &problem):
		case flags[problem.Field] != "":
			err = flagError(flags[problem.Field], problem)
		default:
			err = fmt.Errorf("--allow-metric-labels and --allow-metric-labels-manifest must not be given together, got %q", s.Metrics.AllowListMappingManifest)
		}
		errs = append(errs, err)
	}
	return errs
}

// validateLogs does the same for logging.
func (s *CMServer) validateLogs() []error {
	flags := map[string]string{
		"format": "logging-format", "flushFrequency": "log-flush-frequency", "verbosity": "v",
		"options.text.splitStream": "log-text-split-stream", "options.text.infoBufferSize": "log-text-info-buffer-size",
		"options.json.splitStream": "log-json-split-stream", "options.json.infoBufferSize": "log-json-info-buffer-size",
	}
	var errs []error
	for _, err := range logsapi.Validate(s.Logs, s.Gates.FeatureGate(), nil) {
		name := flags[err.Field]
		if name == "" {
			name, _, _ = strings.Cut(err.Field, "[") // vmodule[0]
		}
		errs = append(errs, flagError(name, err))
	}
	return errs
}

// flagError turns the error about a field into one about its flag.
func flagError(flag string, err *field.Error) error {
	switch {
	case flag == "logging-format":
		return fmt.Errorf("--%s must be text or json, got %q", flag, err.BadValue)
	case flag == "log-flush-frequency":
		return fmt.Errorf("--%s must be greater than 0, got 0s or less", flag)
	case err.Type == field.ErrorTypeForbidden:
		return fmt.Errorf("--%s must not be set: %s", flag, err.Detail)
	}
	return fmt.Errorf("--%s must not be %q: %s", flag, fmt.Sprint(err.BadValue), err.Detail)
}
