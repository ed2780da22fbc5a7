// Package options holds every setting of the daemon in one value, CMServer: flags, defaults, validation and the
// configuration file. It knows the kit and no controller; controllers bring their own flags in their descriptors.
//
// Flags are those of kube-controller-manager 1.37, by name, type, default and section, so that its manifests can be
// used unchanged. tables/ lists them with the controllers and feature gates of that version. A flag of a controller that is
// not in the build is accepted with a warning. --kube-api-qps differs in its default, which does not limit requests.
//
// The configuration file is just another way to set flags: one table maps the fields of KubeControllerManagerConfiguration
// v1alpha1 to flags, in both directions, for the file and for /configz.
package options
