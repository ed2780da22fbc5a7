// Command image packs one static binary as a container image, without a container engine and without a registry.
//
//	image -binary bin/orrery -name orrery:v1 -entry orrery,kube-controller-manager -o orrery.tar
//
// The image has one layer, made from scratch: the binary in /usr/local/bin under its first entry, and a symbolic link to
// it for every further one. An entry with a slash is a path of its own, such as /bin/sh. What runs it is the first entry,
// or what -entrypoint says, as the user that -user gives. What a test image needs beside it, such as a shell, -root adds.
//
// The archive is an OCI image layout that is a docker archive as well, so that `ctr images import`, `docker load`,
// `podman load` and `kind load image-archive` all take it, under the name given. Nothing in it depends on when, where or
// by whom it was made: the same binary and flags give the same bytes, and the digest that is printed.
package main
