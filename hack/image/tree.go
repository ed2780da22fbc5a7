package main

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// entry is a file of the layer.
type entry struct {
	header *tar.Header
	data   []byte
}

// tree returns the files of a folder as they are to be in the image, in the order of their names. Of their modes only
// counts whether they may be run. Folders that are there already are left out.
func tree(root string, have map[string]bool) ([]entry, error) {
	var found []entry
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		e := entry{header: &tar.Header{Name: filepath.ToSlash(rel), Mode: 0o644}}
		switch d.Type() {
		case fs.ModeDir:
			if have[path.Join("/", rel)] {
				return nil
			}
			have[path.Join("/", rel)] = true
			e.header.Typeflag, e.header.Mode = tar.TypeDir, 0o755
			e.header.Name += "/"
		case fs.ModeSymlink:
			e.header.Typeflag, e.header.Mode = tar.TypeSymlink, 0o777
			if e.header.Linkname, err = os.Readlink(file); err != nil {
				return err
			}
		case 0:
			if e.data, err = os.ReadFile(file); err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			e.header.Typeflag, e.header.Size = tar.TypeReg, int64(len(e.data))
			if info.Mode()&0o100 != 0 {
				e.header.Mode = 0o755
			}
		default:
			return fmt.Errorf("%s is neither a file, a folder nor a link", file)
		}
		found = append(found, e)
		return nil
	})
	return found, err
}
