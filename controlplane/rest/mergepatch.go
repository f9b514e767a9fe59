package rest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// mergePatch is what makes one value the other, as a JSON merge patch (RFC 7396) of what encoding/json writes of
// them; nil: they are the same. Both are structs, or maps by text, of one type; structs and such maps inside are
// gone into, all else is told whole where it differs. Pointers and maps that are the same are not looked into.
func mergePatch(before, after any) (json.RawMessage, error) {
	a, b := reflect.ValueOf(before), reflect.ValueOf(after)
	if a.Type() != b.Type() {
		return nil, fmt.Errorf("patch of a %s to a %s", a.Type(), b.Type())
	}
	p := patcher{}
	if changed := p.value(a, b); !changed || p.err != nil {
		return nil, p.err
	}
	return p.out, nil
}

// patcher writes a patch.
type patcher struct {
	out []byte
	err error
}

// value appends the patch of one value, and says whether there is any.
func (p *patcher) value(a, b reflect.Value) bool {
	switch {
	case patchable(b.Type()):
		if b.Kind() == reflect.Map {
			return p.entries(a, b)
		}
		return p.fields(a, b)
	case b.Type().Comparable() && b.Kind() != reflect.Pointer && b.Kind() != reflect.Interface:
		if a.Equal(b) {
			return false
		}
	case reflect.DeepEqual(a.Interface(), b.Interface()):
		return false
	}
	p.whole(b)
	return true
}

func patchable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Map:
		return t.Key().Kind() == reflect.String
	case reflect.Struct:
		return !t.Implements(marshaler)
	}
	return false
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func (p *patcher) whole(v reflect.Value) {
	text, err := json.Marshal(v.Interface())
	if err != nil && p.err == nil {
		p.err = err
	}
	p.out = append(p.out, text...)
}

// object writes members as each gives them to it, and takes them back if none is left.
func (p *patcher) object(each func(member func(name string, write func() bool))) bool {
	start := len(p.out)
	p.out = append(p.out, '{')
	first := len(p.out)
	each(func(name string, write func() bool) {
		at := len(p.out)
		if at > first {
			p.out = append(p.out, ',')
		}
		key, err := json.Marshal(name)
		if err != nil && p.err == nil {
			p.err = err
		}
		p.out = append(append(p.out, key...), ':')
		if !write() {
			p.out = p.out[:at]
		}
	})
	if len(p.out) == first {
		p.out = p.out[:start]
		return false
	}
	p.out = append(p.out, '}')
	return true
}

func (p *patcher) null() bool {
	p.out = append(p.out, "null"...)
	return true
}

// entries patches maps.
func (p *patcher) entries(a, b reflect.Value) bool {
	if a.UnsafePointer() == b.UnsafePointer() {
		return false
	}
	return p.object(func(member func(string, func() bool)) {
		for it := b.MapRange(); it.Next(); {
			is, was := it.Value(), a.MapIndex(it.Key())
			member(it.Key().String(), func() bool {
				if !was.IsValid() {
					p.whole(is)
					return true
				}
				return p.value(was, is)
			})
		}
		for it := a.MapRange(); it.Next(); {
			if !b.MapIndex(it.Key()).IsValid() {
				member(it.Key().String(), p.null)
			}
		}
	})
}

// fields patches structs. What encoding/json leaves out is null.
func (p *patcher) fields(a, b reflect.Value) bool {
	return p.object(func(member func(string, func() bool)) {
		for _, f := range fieldsOf(b.Type()) {
			was, is := a.FieldByIndex(f.index), b.FieldByIndex(f.index)
			switch absent := f.absent(is); {
			case absent && f.absent(was):
			case absent:
				member(f.name, p.null)
			case f.absent(was):
				member(f.name, func() bool { p.whole(is); return true })
			default:
				member(f.name, func() bool { return p.value(was, is) })
			}
		}
	})
}

// jsonField is a field as encoding/json writes it.
type jsonField struct {
	name                string
	index               []int
	omitempty, omitzero bool
}

func (f jsonField) absent(v reflect.Value) bool {
	if f.omitzero && v.IsZero() {
		return true
	}
	if !f.omitempty {
		return false
	}
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

var knownFields sync.Map // of a type's jsonFields

// fieldsOf lists the fields of a struct that stand in JSON, those of embedded structs among them.
func fieldsOf(t reflect.Type) []jsonField {
	if known, ok := knownFields.Load(t); ok {
		return known.([]jsonField)
	}
	var all []jsonField
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				all = append(all, inner)
			}
		case f.IsExported() && name != "-":
			if name == "" {
				name = f.Name
			}
			all = append(all, jsonField{name: name, index: []int{i}, omitempty: strings.Contains(options, "omitempty"), omitzero: strings.Contains(options, "omitzero")})
		}
	}
	all = shallowest(all)
	known, _ := knownFields.LoadOrStore(t, all)
	return known.([]jsonField)
}

// shallowest leaves of fields of one name the one that encoding/json writes: the least embedded.
func shallowest(all []jsonField) []jsonField {
	depth := map[string]int{}
	for _, f := range all {
		if d, known := depth[f.name]; !known || len(f.index) < d {
			depth[f.name] = len(f.index)
		}
	}
	return slices.DeleteFunc(all, func(f jsonField) bool { return len(f.index) > depth[f.name] })
}
