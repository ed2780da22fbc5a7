package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Media types and annotations of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"

	annotationTag  = "org.opencontainers.image.ref.name"
	annotationName = "io.containerd.image.name" // containerd's own: the whole name
)

// created stands for the time of everything. A real one would make every image differ.
var created = time.Unix(0, 0).UTC()

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type config struct {
	platform
	Created time.Time       `json:"created"`
	Config  containerConfig `json:"config"`
	RootFS  rootFS          `json:"rootfs"`
	History []history       `json:"history"`
}

type containerConfig struct {
	User       string
	Env        []string
	Entrypoint []string
	Cmd        []string `json:",omitempty"`
	WorkingDir string
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// dockerManifest is the line of manifest.json that docker reads; its files are the blobs of the layout.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// file is a file of the archive.
type file struct {
	name string
	data []byte
}

// archive returns the image layout as a tar file, and the digest of the image's manifest.
func (i *image) archive() ([]byte, string, error) {
	plain, err := i.layer()
	if err != nil {
		return nil, "", fmt.Errorf("write the layer: %w", err)
	}
	compressed, err := compress(plain)
	if err != nil {
		return nil, "", fmt.Errorf("compress the layer: %w", err)
	}
	configuration, err := json.Marshal(i.config(digestOf(plain)))
	if err != nil {
		return nil, "", err
	}
	configured, layered := describe(typeConfig, configuration), describe(typeLayer, compressed)
	head, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: typeManifest, Config: configured, Layers: []descriptor{layered}})
	if err != nil {
		return nil, "", err
	}
	described := describe(typeManifest, head)
	described.Platform = &platform{Architecture: i.architecture, OS: "linux"}
	described.Annotations = map[string]string{annotationName: i.full, annotationTag: i.full[strings.LastIndex(i.full, ":")+1:]}
	top, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{described}})
	if err != nil {
		return nil, "", err
	}
	docker, err := json.Marshal([]dockerManifest{{Config: blob(configured.Digest), RepoTags: []string{i.name}, Layers: []string{blob(layered.Digest)}}})
	if err != nil {
		return nil, "", err
	}
	data, err := archiveOf([]file{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", top}, {"manifest.json", docker},
		{blob(described.Digest), head}, {blob(configured.Digest), configuration}, {blob(layered.Digest), compressed},
	})
	return data, described.Digest, err
}

func (i *image) config(layer string) config {
	return config{
		platform: platform{Architecture: i.architecture, OS: "linux"},
		Created:  created,
		Config:   containerConfig{User: i.user, Env: []string{searchPath}, Entrypoint: i.entrypoint, Cmd: i.arguments, WorkingDir: "/"},
		RootFS:   rootFS{Type: "layers", DiffIDs: []string{layer}},
		History:  []history{{Created: created, CreatedBy: "hack/image: " + strings.Join(i.entries, " ")}},
	}
}

// layer returns the root file system: the folders, the binary, the links to it and what was given beside it, all of them
// root's.
func (i *image) layer() ([]byte, error) {
	headers := []*tar.Header{}
	folders := map[string]bool{"/": true}
	for n, entry := range i.entries {
		missing := []string{}
		for dir := path.Dir(entry); !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
			missing = append(missing, dir)
		}
		slices.Reverse(missing)
		for _, dir := range missing {
			headers = append(headers, &tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755})
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: entry[1:], Mode: 0o755, Size: int64(len(i.binary))}
		if n > 0 {
			header = &tar.Header{Typeflag: tar.TypeSymlink, Name: entry[1:], Mode: 0o777, Linkname: i.entries[0]}
		}
		headers = append(headers, header)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, header := range headers {
		var data []byte
		if header.Typeflag == tar.TypeReg {
			data = i.binary
		}
		if err := writeEntry(w, header, data); err != nil {
			return nil, err
		}
	}
	if i.root != "" {
		others, err := tree(i.root, folders)
		if err != nil {
			return nil, err
		}
		for _, e := range others {
			if err := writeEntry(w, e.header, e.data); err != nil {
				return nil, err
			}
		}
	}
	err := w.Close() // writes what it still holds
	return b.Bytes(), err
}

func archiveOf(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := writeEntry(w, &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.data))}, f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes what it still holds
	return b.Bytes(), err
}

func writeEntry(w *tar.Writer, header *tar.Header, data []byte) error {
	header.ModTime = created
	header.Format = tar.FormatUSTAR
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// compress leaves the header without a time and a name.
func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err := w.Close() // writes what it still holds
	return b.Bytes(), err
}

func describe(mediaType string, data []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digestOf(data), Size: len(data)}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// blob returns where in the layout the content with that digest is.
func blob(digest string) string {
	return "blobs/" + strings.Replace(digest, ":", "/", 1)
}
