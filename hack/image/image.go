package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

// image is what is packed.
type image struct {
	name       string   // as given
	user       string   // uid:gid
	entries    []string // paths in the image: the first is the binary, the others are links to it
	entrypoint []string
	arguments  []string
	root       string // a folder with further files, or none

	full         string // name with registry and tag
	binary       []byte
	architecture string
}

var (
	numericUser = regexp.MustCompile(`^[0-9]+(:[0-9]+)?$`)
	repository  = regexp.MustCompile(`^[a-z0-9]+([._:/-]+[a-z0-9]+)*$`)
	tag         = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
)

// complete checks what was given, reads the binary and fills in what follows from both.
func (i *image) complete(binary string) error {
	var err error
	if i.full, err = fullName(i.name); err != nil {
		return err
	}
	if !numericUser.MatchString(i.user) {
		return fmt.Errorf("user %q: an image from scratch knows users by number only", i.user)
	}
	seen := map[string]bool{}
	for n, entry := range i.entries {
		if !strings.Contains(entry, "/") {
			entry = "/usr/local/bin/" + entry
		}
		entry = path.Clean(entry)
		if !path.IsAbs(entry) || strings.HasSuffix(entry, "/") || path.Base(i.entries[n]) == "." || seen[entry] {
			return fmt.Errorf("entry %q: want a name, or an absolute path, once", i.entries[n])
		}
		seen[entry] = true
		i.entries[n] = entry
	}
	if len(i.entrypoint) == 0 {
		i.entrypoint = i.entries[:1]
	}
	if i.binary, err = os.ReadFile(binary); err != nil {
		return err
	}
	i.architecture, err = architecture(i.binary)
	return err
}

// fullName adds the registry and the folder that a runtime adds to a short name, so that what is imported is found under
// the name that a manifest gives.
func fullName(name string) (string, error) {
	at := strings.LastIndex(name, ":")
	if at < 0 || strings.Contains(name[at:], "/") || !tag.MatchString(name[at+1:]) || !repository.MatchString(name[:at]) {
		return "", fmt.Errorf("name %q: want NAME:TAG", name)
	}
	first, _, deep := strings.Cut(name[:at], "/")
	switch {
	case !deep:
		return "docker.io/library/" + name, nil
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		return "docker.io/" + name, nil
	}
	return name, nil
}

// architecture reads from the binary for which machine it is, and refuses one that cannot run without files of a system.
func architecture(binary []byte) (string, error) {
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return "", fmt.Errorf("read as a Linux program: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("not a static binary: it wants a loader, which an image from scratch lacks")
		}
	}
	names := map[elf.Machine]string{
		elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x", elf.EM_RISCV: "riscv64",
	}
	name, ok := names[f.Machine]
	if !ok {
		return "", fmt.Errorf("no image name for machine %s", f.Machine)
	}
	return name, nil
}
