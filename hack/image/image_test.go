package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// header is the smallest thing that is a static Linux program for the machine, to those who only read it.
func header(machine elf.Machine) []byte {
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(b[16:], uint16(elf.ET_EXEC))
	binary.LittleEndian.PutUint16(b[18:], uint16(machine))
	binary.LittleEndian.PutUint32(b[20:], uint32(elf.EV_CURRENT))
	return b
}

// program writes such a file.
func program(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// loaded is a program that asks for a loader, as those do that are linked with a C library.
func loaded() []byte {
	b := header(elf.EM_X86_64)
	binary.LittleEndian.PutUint64(b[32:], 64) // where the program headers begin
	binary.LittleEndian.PutUint16(b[54:], 56) // size of one
	binary.LittleEndian.PutUint16(b[56:], 1)  // how many
	segment := make([]byte, 56)
	binary.LittleEndian.PutUint32(segment, uint32(elf.PT_INTERP))
	return append(b, segment...)
}

// packed runs the tool, and returns what it printed and the files of the archive.
func packed(t *testing.T, args ...string) (string, map[string][]byte) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	var printed bytes.Buffer
	if err := run(append(args, "-o", out), &printed, io.Discard); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"": data}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return strings.TrimSpace(printed.String()), files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

func TestSameInputSameDigest(t *testing.T) {
	path := program(t, header(elf.EM_X86_64))
	args := []string{"-binary", path, "-name", "orrery:v1", "-entry", "orrery,kube-controller-manager"}
	first, archive := packed(t, args...)
	if err := os.Chtimes(path, created, created.AddDate(50, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	second, again := packed(t, args...)
	if first != second || !bytes.Equal(archive[""], again[""]) {
		t.Errorf("the same binary gave %s, then %s", first, second)
	}
	args[5] = "orrery"
	if other, _ := packed(t, args...); other == first {
		t.Errorf("other entries gave the same digest, %s", other)
	}
}

func TestLayoutIsConsistent(t *testing.T) {
	reference, files := packed(t, "-binary", program(t, header(elf.EM_X86_64)), "-name", "orrery:v1", "-entry", "orrery,kube-controller-manager")
	for name, data := range files {
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && digestOf(data) != "sha256:"+sum {
			t.Errorf("%s holds %s", name, digestOf(data))
		}
	}
	top := decode[index](t, files["index.json"]).Manifests[0]
	if want := "docker.io/library/orrery:v1@" + top.Digest; reference != want {
		t.Errorf("printed %s, want %s", reference, want)
	}
	if want := map[string]string{annotationName: "docker.io/library/orrery:v1", annotationTag: "v1"}; !reflect.DeepEqual(top.Annotations, want) {
		t.Errorf("annotations %v, want %v", top.Annotations, want)
	}
	m := decode[manifest](t, files[blob(top.Digest)])
	c := decode[config](t, files[blob(m.Config.Digest)])
	want := containerConfig{User: "65532:65532", Env: []string{searchPath}, Entrypoint: []string{"/usr/local/bin/orrery"}, WorkingDir: "/"}
	if !reflect.DeepEqual(c.Config, want) {
		t.Errorf("config %+v, want %+v", c.Config, want)
	}
	r, err := gzip.NewReader(bytes.NewReader(files[blob(m.Layers[0].Digest)]))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := digestOf(plain); got != c.RootFS.DiffIDs[0] {
		t.Errorf("the layer holds %s and the config says %s", got, c.RootFS.DiffIDs)
	}
	docker := decode[[]dockerManifest](t, files["manifest.json"])[0]
	if files[docker.Config] == nil || files[docker.Layers[0]] == nil || docker.RepoTags[0] != "orrery:v1" {
		t.Errorf("manifest.json names what is not there: %+v", docker)
	}
}

func TestLayerHoldsTheBinaryOnce(t *testing.T) {
	img := image{entries: []string{"/usr/local/bin/orrery", "/usr/local/bin/kube-controller-manager", "/bin/sh"}, binary: []byte("program")}
	data, err := img.layer()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 {
			t.Errorf("%s has an owner or a time: %+v", h.Name, h)
		}
		got = append(got, strings.TrimSpace(h.FileInfo().Mode().String()+" "+h.Name+" "+h.Linkname))
	}
	want := []string{
		"drwxr-xr-x usr/", "drwxr-xr-x usr/local/", "drwxr-xr-x usr/local/bin/", "-rwxr-xr-x usr/local/bin/orrery",
		"Lrwxrwxrwx usr/local/bin/kube-controller-manager /usr/local/bin/orrery",
		"drwxr-xr-x bin/", "Lrwxrwxrwx bin/sh /usr/local/bin/orrery",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("layer holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"orrery:v1":                     "docker.io/library/orrery:v1",
		"me/orrery:v1":                  "docker.io/me/orrery:v1",
		"registry.k8s.io/pause:3.10.1":  "registry.k8s.io/pause:3.10.1",
		"localhost/orrery:a_b":          "localhost/orrery:a_b",
		"localhost:5000/a/b:v1.2-3.xyz": "localhost:5000/a/b:v1.2-3.xyz",
		"orrery":                        "",
		"localhost:5000/orrery":         "",
		"orrery:feature/x":              "",
		"Orrery:v1":                     "",
		"orrery:":                       "",
	} {
		if got, err := fullName(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	path := program(t, header(elf.EM_X86_64))
	for what, args := range map[string][]string{
		"not a Linux program": {"-binary", "image_test.go", "-name", "a:b"},
		"no name for machine": {"-binary", program(t, header(elf.EM_SPARC)), "-name", "a:b"},
		"needs a loader":      {"-binary", program(t, loaded()), "-name", "a:b"},
		"not there":           {"-binary", "nothing", "-name", "a:b"},
		"user by name":        {"-binary", path, "-name", "a:b", "-user", "nobody"},
		"same entry twice":    {"-binary", path, "-name", "a:b", "-entry", "a,a"},
		"empty entry":         {"-binary", path, "-name", "a:b", "-entry", "a,"},
		"relative entry":      {"-binary", path, "-name", "a:b", "-entry", "a/b"},
		"no name":             {"-binary", path},
	} {
		out := filepath.Join(t.TempDir(), "x.tar")
		if err := run(append(args, "-o", out), io.Discard, io.Discard); err == nil {
			t.Errorf("%s: no error", what)
		}
		if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
			t.Errorf("%s: left %s", what, left)
		}
	}
	other := program(t, header(elf.EM_AARCH64))
	_, files := packed(t, "-binary", other, "-name", "a:b")
	if m := decode[index](t, files["index.json"]).Manifests[0]; m.Platform.Architecture != "arm64" {
		t.Errorf("a binary for arm64 became an image for %s", m.Platform.Architecture)
	}
}

func TestAFolderAndArgumentsGoBesideTheBinary(t *testing.T) {
	root := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o700, "etc/passwd": 0o600} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("tool", filepath.Join(root, "bin", "link")); err != nil {
		t.Fatal(err)
	}
	args := []string{"-binary", program(t, header(elf.EM_X86_64)), "-name", "a:v1", "-entry", "/bin/main", "-root", root, "-cmd", "pause long"}
	_, files := packed(t, args...)
	top := decode[index](t, files["index.json"]).Manifests[0]
	compressed, err := gzip.NewReader(bytes.NewReader(files[blob(decode[manifest](t, files[blob(top.Digest)]).Layers[0].Digest)]))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(compressed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.FileInfo().Mode().String()+" "+h.Name+" "+h.Linkname)
	}
	configuration := decode[config](t, files[blob(decode[manifest](t, files[blob(top.Digest)]).Config.Digest)])
	if got := configuration.Config.Cmd; !reflect.DeepEqual(got, []string{"pause", "long"}) {
		t.Errorf("arguments %q", got)
	}
	want := []string{
		"drwxr-xr-x bin/ ", "-rwxr-xr-x bin/main ", "Lrwxrwxrwx bin/link tool", "-rwxr-xr-x bin/tool ", "drwxr-xr-x etc/ ", "-rw-r--r-- etc/passwd ",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the layer has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
