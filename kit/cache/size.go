package cache

import (
	"reflect"

	"orrery/kit/client"
)

// sampleSize is about how many objects of a kind Bytes measures.
const sampleSize = 24

// Bytes returns about how much memory the objects of the cache take, without indexes: it measures a few objects and
// multiplies. What several objects share, as some strings, is counted for each.
func (i *Informer) Bytes() int64 {
	objects := i.all()
	if len(objects) == 0 {
		return 0
	}
	step := max(1, len(objects)/sampleSize)
	var sum int64
	n := 0
	for at := 0; at < len(objects); at += step {
		if obj, ok := objects[at].(client.Object); ok {
			sum += int64(deepSize(reflect.ValueOf(obj)))
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / int64(n) * int64(len(objects))
}

const (
	mapEntry = 10 // bytes that a map takes per entry beside key and value, roughly
	perMap   = 48 // bytes that an empty map takes
)

// deepSize returns the memory that a value holds on to beyond its own words, and for a pointer that of what it points to.
func deepSize(v reflect.Value) uintptr {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return v.Type().Elem().Size() + deepSize(v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return 0
		}
		e := v.Elem()
		if e.Kind() == reflect.Pointer {
			return deepSize(e)
		}
		return e.Type().Size() + deepSize(e)
	case reflect.String:
		return uintptr(v.Len())
	case reflect.Slice:
		n := uintptr(v.Cap()) * v.Type().Elem().Size()
		return n + elements(v)
	case reflect.Array:
		return elements(v)
	case reflect.Map:
		return mapSize(v)
	case reflect.Struct:
		var n uintptr
		for i := range v.NumField() {
			n += deepSize(v.Field(i))
		}
		return n
	}
	return 0
}

// elements sums up a slice or array; the elements of most hold on to nothing.
func elements(v reflect.Value) (n uintptr) {
	switch v.Type().Elem().Kind() {
	case reflect.Pointer, reflect.Interface, reflect.String, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
		for i := range v.Len() {
			n += deepSize(v.Index(i))
		}
	}
	return n
}

func mapSize(v reflect.Value) uintptr {
	if v.IsNil() {
		return 0
	}
	t := v.Type()
	n := perMap + uintptr(v.Len())*(t.Key().Size()+t.Elem().Size()+mapEntry)
	for entries := v.MapRange(); entries.Next(); {
		n += deepSize(entries.Key()) + deepSize(entries.Value())
	}
	return n
}
