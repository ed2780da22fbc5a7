// Package options holds every setting of the daemon in one value, CMServer: flags, defaults, validation and the
// configuration file. It knows the kit and no controller; controllers bring their own flags in their descriptors.
//
// Flags are those of kube-controller-manager 1.37, by name, type, default and section, so that its manifests can be
// taken over as they are. tables/ lists them with the controllers and feature gates of that version. A flag of a
// controller that is not in the build is accepted with a warning. Own flags are --config and
// --ignore-unknown-controllers; --kube-api-qps differs in its default, which does not limit requests.
//
// The configuration file is not a second way to set things but a way to give flags: one table pairs the fields of
// KubeControllerManagerConfiguration v1alpha1 with flags, in both directions, for the file and for /configz.
package options
