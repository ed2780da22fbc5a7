// Package ask has the commands that ask a running daemon what it is doing: orrery status and orrery explain.
//
// They talk to the daemon's HTTPS port with the credentials of a kubeconfig. The API server can not pass such a request on:
// it would come without credentials, and a static pod listens on 127.0.0.1 of its node as kubeadm writes it.
package ask
