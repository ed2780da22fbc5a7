// Package options holds every setting of the daemon in one value, CMServer: flags, defaults, validation and the
// configuration file. It knows the kit and no controller; controllers bring their own flags in their descriptors.
package options
