// Package controllers is the one list of the daemon's controllers. Every folder beside internal holds one.
package controllers
