package policy

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Field is a place in the specs of one kind, for lists to be filtered by.
type Field struct {
	path  string
	steps []string
}

// FieldOf finds a dotted path, such as "spec.region" or "spec.limits.kind", in the specs of a kind.
// Lists are looked through, and below a map any name may stand. The error names what there is.
func FieldOf(kind Kind, path string) (Field, error) {
	spec := NewSpec(kind)
	if spec == nil {
		return Field{}, fmt.Errorf("there is no kind %.40q", kind)
	}
	steps := strings.Split(path, ".")
	if steps[0] != "spec" || len(steps) == 1 {
		return Field{}, fmt.Errorf("%.80q does not begin with spec., as in spec.%s", path, fieldNames(reflect.TypeOf(spec).Elem())[0])
	}
	t := reflect.TypeOf(spec)
	for i, step := range steps[1:] {
		t = inside(t)
		switch t.Kind() {
		case reflect.Map:
			t = t.Elem()
		case reflect.Struct:
			at := fieldIndex(t, step)
			if at < 0 {
				return Field{}, fmt.Errorf("%.80q: %s has %s", path, strings.Join(steps[:i+1], "."), strings.Join(fieldNames(t), ", "))
			}
			t = t.Field(at).Type
		default:
			return Field{}, fmt.Errorf("%.80q: there is nothing below %s", path, strings.Join(steps[:i+1], "."))
		}
	}
	switch t = inside(t); t.Kind() {
	case reflect.Struct:
		return Field{}, fmt.Errorf("%.80q holds fields itself: %s", path, strings.Join(fieldNames(t), ", "))
	case reflect.Map:
		return Field{}, fmt.Errorf("%.80q is a map: add the name of an entry", path)
	}
	return Field{path: path, steps: steps[1:]}, nil
}

// Values are what stands there in a resource of that kind, as text, with defaults: nothing where there
// is none, several where a list was looked through.
func (f Field) Values(r *Resource) []string {
	if f.path == "" || r.Spec == nil {
		return nil
	}
	return values(reflect.ValueOf(r.Spec), f.steps)
}

func values(v reflect.Value, steps []string) []string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return values(v.Elem(), steps)
	case reflect.Slice:
		var all []string
		for i := range v.Len() {
			all = append(all, values(v.Index(i), steps)...)
		}
		return all
	case reflect.Map:
		if e := v.MapIndex(reflect.ValueOf(steps[0]).Convert(v.Type().Key())); e.IsValid() {
			return values(e, steps[1:])
		}
		return nil
	case reflect.Struct:
		if at := fieldIndex(v.Type(), steps[0]); at >= 0 {
			return values(v.Field(at), steps[1:])
		}
		return nil
	case reflect.String:
		return []string{v.String()}
	case reflect.Bool:
		return []string{strconv.FormatBool(v.Bool())}
	case reflect.Float64:
		return []string{strconv.FormatFloat(v.Float(), 'g', -1, 64)}
	}
	return []string{fmt.Sprint(v.Interface())}
}

// inside is the type that a value has once pointers and lists are looked through.
func inside(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}
