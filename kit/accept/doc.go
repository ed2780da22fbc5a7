// Package accept reads the Accept header of a request: for pages that answer in the form that is asked for.
package accept
