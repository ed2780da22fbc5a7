package merge

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/nodepool/record"
)

// BenchmarkNext is what it costs to see that a node is as it has to be: the record is read, and all is compared.
func BenchmarkNext(b *testing.B) {
	p := &Pool{Name: "p", UID: "00000000-0000-4000-8000-000000000001", Selector: labels.SelectorFromSet(labels.Set{"pool": ""}), Values: map[record.Key]string{}}
	for i := range 8 {
		p.Values[record.Key{Kind: record.Label, Name: fmt.Sprintf("example.com/label-%d", i)}] = "value"
	}
	p.Values[record.Key{Kind: record.Taint, Name: "t", Effect: "NoSchedule"}] = ""
	in := Input{Node: "n", Pools: []*Pool{p}, Now: time.Unix(1_800_000_000, 0), Gone: func(types.UID) bool { return false }}
	out := Next(record.State{Labels: map[string]string{"pool": ""}}, record.Record{}, in)
	text := out.Record.Text()
	b.ReportAllocs()
	for b.Loop() {
		rec, err := record.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		if out := Next(out.State, rec, in); !out.Same() {
			b.Fatal("it is not the same")
		}
	}
}
