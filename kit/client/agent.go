package client

import "k8s.io/client-go/rest"

// AddAgent adds a part to the user agent of a configuration, which it returns. What stands before the first slash of it
// is the name under which the server notes who manages a field.
func AddAgent(config *rest.Config, part string) *rest.Config {
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	config.UserAgent += "/" + part
	return config
}
