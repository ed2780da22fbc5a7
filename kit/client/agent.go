package client

import "k8s.io/client-go/rest"

// AddAgent appends a part to the user agent of config, and returns config. The server takes what stands before the first
// slash of the user agent for the field manager of writes that name none.
func AddAgent(config *rest.Config, part string) *rest.Config {
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	config.UserAgent += "/" + part
	return config
}
