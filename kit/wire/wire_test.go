package wire

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// message puts fields together: pairs of a number and a content, which is a uint64, a string, or a message made before.
func message(parts ...any) []byte {
	var out []byte
	for i := 0; i < len(parts); i += 2 {
		number := uint64(parts[i].(int))
		switch content := parts[i+1].(type) {
		case int:
			out = binary.AppendUvarint(binary.AppendUvarint(out, number<<3|varint), uint64(content))
		case uint64:
			out = binary.LittleEndian.AppendUint64(binary.AppendUvarint(out, number<<3|fixed8), content)
		case uint32:
			out = binary.LittleEndian.AppendUint32(binary.AppendUvarint(out, number<<3|fixed4), content)
		case string:
			out = append(binary.AppendUvarint(binary.AppendUvarint(out, number<<3|text), uint64(len(content))), content...)
		case []byte:
			out = append(binary.AppendUvarint(binary.AppendUvarint(out, number<<3|text), uint64(len(content))), content...)
		}
	}
	return out
}

func TestFilter(t *testing.T) {
	long := string(make([]byte, 300))
	for name, c := range map[string]struct {
		message  Message
		in, want []byte
	}{
		"nothing":                       {Message{}, message(1, "a", 2, 5), message(1, "a", 2, 5)},
		"a field of each type":          {Message{Drop: []int{2, 3, 4, 5}}, message(1, "a", 2, 300, 3, "b", 4, uint64(9), 5, uint32(9), 6, 1), message(1, "a", 6, 1)},
		"a repeated field":              {Message{Drop: []int{2}}, message(2, "a", 1, "b", 2, "c", 1, "d", 2, "e"), message(1, "b", 1, "d")},
		"all but some":                  {Message{Keep: []int{1}}, message(2, "a", 1, "b", 3, 7), message(1, "b")},
		"unknown fields stay":           {Message{Keep: []int{1}}, message(1, "b", 70, "later", 1000, 7), message(1, "b", 70, "later", 1000, 7)},
		"in a message":                  {Message{In: map[int]Message{1: {Drop: []int{2}}}}, message(1, message(1, "a", 2, "b"), 2, "c"), message(1, message(1, "a"), 2, "c")},
		"in all of several":             {Message{In: map[int]Message{1: {Drop: []int{2}}}}, message(1, message(2, "b"), 1, message(1, "a")), message(1, "", 1, message(1, "a"))},
		"the length gets narrower":      {Message{In: map[int]Message{1: {Drop: []int{2}}}}, message(1, message(1, "a", 2, long), 3, "c"), message(1, message(1, "a"), 3, "c")},
		"In counts as kept":             {Message{Keep: []int{3}, In: map[int]Message{1: {Drop: []int{2}}}}, message(1, message(1, "a", 2, "b"), 2, "x", 3, "c"), message(1, message(1, "a"), 3, "c")},
		"a number where a message goes": {Message{In: map[int]Message{1: {Drop: []int{2}}}}, message(1, 7, 2, "c"), message(1, 7, 2, "c")},
		"without what it needs": {
			Message{In: map[int]Message{1: {Needs: []int{2}, In: map[int]Message{2: {Needs: []int{10}}}}}},
			message(1, message(1, "a", 2, message(6, "s")), 1, message(1, "b", 2, message(10, "c")), 1, message(1, "d")),
			message(1, message(1, "b", 2, message(10, "c"))),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := New(c.message).Append([]byte("before"), c.in)
			if want := append([]byte("before"), c.want...); !ok || !bytes.Equal(got, want) {
				t.Errorf("got %q, %v\nwant %q", got, ok, want)
			}
		})
	}
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	filter := New(Message{Drop: []int{2}, In: map[int]Message{1: {Drop: []int{1}}}})
	for name, in := range map[string][]byte{
		"a tag without a content":      {2 << 3},
		"a tag that does not end":      {0x80},
		"a number that does not end":   {2 << 3, 0x80},
		"a string that is cut off":     {3<<3 | text, 5, 'a'},
		"a length that is out of this": {3<<3 | text, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"eight bytes that are seven":   {2<<3 | fixed8, 1, 2, 3, 4, 5, 6, 7},
		"a type that is not used":      {2<<3 | 3},
		"a message that is none":       message(1, "\xff"),
	} {
		if got, ok := filter.Append(nil, in); ok {
			t.Errorf("%s: %q became %q", name, in, got)
		}
	}
}

// Whatever the bytes are, there is no panic and nothing is written beyond the place of the message.
func TestAnyBytes(t *testing.T) {
	filter := New(Message{Drop: []int{2}, In: map[int]Message{1: {Keep: []int{1}, Needs: []int{1}}, 3: {In: map[int]Message{3: {Drop: []int{1}}}}}})
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		in := make([]byte, r.IntN(24))
		for i := range in {
			in[i] = byte(r.IntN(32)) // small numbers are likely tags and lengths
		}
		before := slices.Clone(in)
		if out, ok := filter.Append(make([]byte, 0, len(in)), in); ok && len(out) > len(in) {
			t.Fatalf("%q grew to %q", in, out)
		}
		if !bytes.Equal(in, before) {
			t.Fatalf("the message %q was changed to %q", before, in)
		}
	}
}

func TestField(t *testing.T) {
	in := message(1, 7, 2, "first", 2, "second", 3, message(1, "x"))
	if got := Field(in, 2); string(got) != "first" {
		t.Errorf("field 2 = %q", got)
	}
	if got := Field(Field(in, 3), 1); string(got) != "x" {
		t.Errorf("field 1 of field 3 = %q", got)
	}
	for _, number := range []uint64{1, 9} {
		if got := Field(in, number); got != nil {
			t.Errorf("field %d = %q", number, got)
		}
	}
}
