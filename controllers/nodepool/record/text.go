package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// version of the format. Other versions are not understood.
const version = 1

type recordText struct {
	Version int        `json:"v"`
	Node    types.UID  `json:"node"`
	Pools   []poolText `json:"pools"`
}

type poolText struct {
	Name        string               `json:"name"`
	UID         types.UID            `json:"uid"`
	Hash        string               `json:"hash,omitempty"`
	At          *metav1.Time         `json:"at,omitempty"`
	Joined      bool                 `json:"joined,omitempty"`
	Labels      map[string]entryText `json:"labels,omitempty"`
	Annotations map[string]entryText `json:"annotations,omitempty"`
	Taints      map[string]entryText `json:"taints,omitempty"`
}

type entryText struct {
	Set   string       `json:"set"`
	Was   *string      `json:"was,omitempty"`
	Added *metav1.Time `json:"added,omitempty"`
}

// Parse parses the text of a record; an empty text is an empty record.
func Parse(text string) (Record, error) {
	if text == "" {
		return Record{}, nil
	}
	var in recordText
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return Record{}, fmt.Errorf("read the record of pools: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("read the record of pools: more text follows it")
	}
	if in.Version != version {
		return Record{}, fmt.Errorf("read the record of pools: version %d is not known here, only %d", in.Version, version)
	}
	out := Record{Node: in.Node}
	owners := map[Key]types.UID{}
	for _, p := range in.Pools {
		pool, err := p.parse()
		if err != nil {
			return Record{}, fmt.Errorf("read the record of pools: pool %q: %w", p.Name, err)
		}
		for k := range pool.Keys {
			if _, twice := owners[k]; twice {
				return Record{}, fmt.Errorf("read the record of pools: two pools own %s", k)
			}
			owners[k] = pool.UID
		}
		if out.Find(pool.UID) != nil {
			return Record{}, fmt.Errorf("read the record of pools: pool %q is there twice", p.Name)
		}
		out.Pools = append(out.Pools, pool)
	}
	slices.SortFunc(out.Pools, comparePools)
	return out, nil
}

func (p poolText) parse() (Pool, error) {
	out := Pool{Name: p.Name, UID: p.UID, Hash: p.Hash, Joined: p.Joined, Keys: map[Key]Entry{}}
	if p.UID == "" || len(validation.IsDNS1123Subdomain(p.Name)) > 0 {
		return out, errors.New("it has no uid, or a name that no pool can have")
	}
	if p.At != nil {
		out.At = p.At.UTC()
	}
	for name, e := range p.Labels {
		out.Keys[Key{Kind: Label, Name: name}] = e.parse()
	}
	for name, e := range p.Annotations {
		out.Keys[Key{Kind: Annotation, Name: name}] = e.parse()
	}
	for text, e := range p.Taints {
		k, ok := parseTaint(text)
		if !ok {
			return out, fmt.Errorf("taint %q is not key:effect", text)
		}
		out.Keys[k] = e.parse()
	}
	for _, k := range slices.SortedFunc(maps.Keys(out.Keys), Compare) {
		if !k.ownable() {
			return out, fmt.Errorf("%s is nothing that a pool can own", k)
		}
	}
	return out, nil
}

func (e entryText) parse() Entry {
	out := Entry{Set: e.Set}
	if e.Was != nil {
		out.Was = &Value{Text: *e.Was, Added: e.Added}
	}
	return out
}

// Text returns the record as the annotation holds it, keys sorted; empty if there is nothing to remember.
func (r Record) Text() string {
	if len(r.Pools) == 0 {
		return ""
	}
	out := recordText{Version: version, Node: r.Node}
	for _, p := range r.Pools {
		out.Pools = append(out.Pools, p.text())
	}
	data, err := json.Marshal(out)
	if err != nil {
		return "" // unreachable: strings, booleans and times can be marshalled
	}
	return string(data)
}

func (p Pool) text() poolText {
	out := poolText{Name: p.Name, UID: p.UID, Hash: p.Hash, Joined: p.Joined}
	if !p.At.IsZero() {
		at := metav1.NewTime(p.At)
		out.At = &at
	}
	put := func(into *map[string]entryText, name string, e Entry) {
		if *into == nil {
			*into = map[string]entryText{}
		}
		t := entryText{Set: e.Set}
		if e.Was != nil {
			t.Was, t.Added = &e.Was.Text, e.Was.Added
		}
		(*into)[name] = t
	}
	for k, e := range p.Keys {
		switch k.Kind {
		case Label:
			put(&out.Labels, k.Name, e)
		case Annotation:
			put(&out.Annotations, k.Name, e)
		case Taint:
			put(&out.Taints, taintText(k), e)
		}
	}
	return out
}
