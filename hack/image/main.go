package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// searchPath is the PATH of the containers. Static pods name their command without a folder.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	binary := flags.String("binary", "", "the static binary to pack")
	name := flags.String("name", "", "name and tag of the image, as a pod would give it")
	entry := flags.String("entry", "", "names of the binary in the image, separated by commas; the base name of -binary if not given")
	entrypoint := flags.String("entrypoint", "", "what runs it, separated by spaces; the first entry if not given")
	root := flags.String("root", "", "a folder whose files go into the image beside the binary, if there is more to it")
	arguments := flags.String("cmd", "", "arguments, separated by spaces, if the pod gives none")
	user := flags.String("user", "65532:65532", "user and group, as numbers, that the container runs as")
	out := flags.String("o", "", "the archive to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *binary == "" || *name == "" || *out == "" || flags.NArg() > 0 {
		return errors.New("usage: image -binary FILE -name NAME:TAG [-entry NAME,...] [-entrypoint COMMAND] [-user UID:GID] [-cmd ARGUMENTS] [-root FOLDER] -o FILE")
	}
	if *entry == "" {
		*entry = filepath.Base(*binary)
	}
	img := image{name: *name, user: *user, entries: strings.Split(*entry, ","), entrypoint: strings.Fields(*entrypoint), root: *root, arguments: strings.Fields(*arguments)}
	reference, err := pack(img, *binary, *out)
	if err != nil {
		return fmt.Errorf("pack %s: %w", *binary, err)
	}
	_, err = fmt.Fprintln(stdout, reference)
	return err
}

// pack writes the archive, whole or not at all, and returns the image's full name with its digest.
func pack(img image, binary, out string) (string, error) {
	if err := img.complete(binary); err != nil {
		return "", err
	}
	archive, digest, err := img.archive()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", err
	}
	part := out + ".part"
	if err := os.WriteFile(part, archive, 0o644); err != nil {
		return "", errors.Join(err, os.Remove(part))
	}
	return img.full + "@" + digest, os.Rename(part, out)
}
