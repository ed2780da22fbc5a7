package options

// configKind and configVersion are what a configuration file has to say it is.
const (
	configKind    = "KubeControllerManagerConfiguration"
	configVersion = "kubecontrollermanager.config.k8s.io/v1alpha1"
)

func (s *CMServer) loadConfig(path string) error { return nil }
