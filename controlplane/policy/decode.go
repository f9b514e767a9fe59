package policy

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder fills Go values from a tree and collects everything that does not fit.
type decoder struct {
	problems []Problem
}

func (d *decoder) problem(n *node, field, reason, fix string) {
	if len(d.problems) >= MaxProblems {
		return
	}
	d.problems = append(d.problems, Problem{Field: field, Reason: reason, Fix: fix, Line: n.line})
}

var timeType = reflect.TypeFor[time.Time]()

// into decodes n into v, which is settable. Null means "nothing said" where nothing can be said.
func (d *decoder) into(n *node, path string, v reflect.Value) {
	if v.Type() == timeType {
		return // the store's own; a client's is ignored
	}
	if n.shape == isNull {
		switch v.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Struct, reflect.Interface:
		default:
			d.problem(n, path, "is null", "leave the field out, or give "+wanted(v))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.into(n, path, v.Elem())
	case reflect.Struct:
		d.object(n, path, v)
	case reflect.Slice:
		d.list(n, path, v)
	case reflect.Map:
		d.dict(n, path, v)
	case reflect.Interface: // status: whatever it is, it is the control plane's
	default:
		d.scalar(n, path, v)
	}
}

func (d *decoder) scalar(n *node, path string, v reflect.Value) {
	switch {
	case v.Kind() == reflect.String && n.shape == isText:
		v.SetString(n.text)
	case v.Kind() == reflect.Bool && n.shape == isBool:
		v.SetBool(n.text == "true")
	case v.CanFloat() && n.shape == isNumber:
		f, err := strconv.ParseFloat(n.text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			d.problem(n, path, n.text+" is not a finite number", "give a finite number")
			return
		}
		v.SetFloat(f)
	case (v.CanInt() || v.CanUint()) && n.shape == isNumber:
		d.whole(n, path, v)
	default:
		fix := "give " + wanted(v)
		if v.Kind() == reflect.String && (n.shape == isNumber || n.shape == isBool) {
			fix = fmt.Sprintf("put it in quotes: %q", n.text)
		}
		d.problem(n, path, fmt.Sprintf("is %s, must be %s", n.shape, wanted(v)), fix)
	}
}

func (d *decoder) whole(n *node, path string, v reflect.Value) {
	i, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(n.text, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			d.problem(n, path, n.text+" is not a whole number within ± 2^53", "give a whole number")
			return
		}
		i = int64(f)
		n.text = strconv.FormatInt(i, 10) // 1e5: what is stored must read back as an integer
	}
	if v.CanUint() {
		if i < 0 {
			d.problem(n, path, n.text+" is negative", "give a number from 0")
			return
		}
		v.SetUint(uint64(i))
		return
	}
	v.SetInt(i)
}

func (d *decoder) object(n *node, path string, v reflect.Value) {
	if n.shape != isObject {
		d.problem(n, path, fmt.Sprintf("is %s, must be an object", n.shape), "give fields: "+strings.Join(fieldNames(v.Type()), ", "))
		return
	}
	d.members(n, path, func(m member) {
		i := fieldIndex(v.Type(), m.key)
		if i < 0 {
			d.unknown(m, path, fieldNames(v.Type()))
			return
		}
		d.into(m.value, join(path, m.key), v.Field(i))
	})
}

// members calls f for the first member of each key and complains of repeated ones.
func (d *decoder) members(n *node, path string, f func(member)) {
	seen := make(map[string]int, len(n.members))
	for _, m := range n.members {
		if first, dup := seen[m.key]; dup {
			d.problem(&node{line: m.line}, join(path, m.key), fmt.Sprintf("appears twice (first on line %d)", first), "keep one of them")
			continue
		}
		seen[m.key] = m.line
		f(m)
	}
}

func (d *decoder) unknown(m member, path string, legal []string) {
	fix := "remove it; legal here: " + strings.Join(legal, ", ")
	if near := nearest(m.key, legal); near != "" {
		fix = fmt.Sprintf("did you mean %q? legal here: %s", near, strings.Join(legal, ", "))
	}
	d.problem(&node{line: m.line}, join(path, clip(m.key)), "is not a field of "+orDocument(path), fix)
}

func orDocument(path string) string {
	if path == "" {
		return "a resource"
	}
	return path
}

func (d *decoder) list(n *node, path string, v reflect.Value) {
	if n.shape != isList {
		d.problem(n, path, fmt.Sprintf("is %s, must be a list", n.shape), "give a list, also for a single entry")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if item.shape == isNull {
			d.problem(item, at, "is null", "remove the entry, or give "+wanted(v.Index(i)))
			continue
		}
		d.into(item, at, v.Index(i))
	}
}

func (d *decoder) dict(n *node, path string, v reflect.Value) {
	if n.shape != isObject {
		d.problem(n, path, fmt.Sprintf("is %s, must be an object", n.shape), "give an object of names and values")
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.members)))
	d.members(n, path, func(m member) {
		e := reflect.New(v.Type().Elem()).Elem()
		at := fmt.Sprintf("%s[%s]", path, clip(m.key))
		if m.value.shape == isNull {
			d.problem(m.value, at, "is null", "remove it, or give "+wanted(e))
			return
		}
		d.into(m.value, at, e)
		v.SetMapIndex(reflect.ValueOf(m.key), e)
	})
}

func wanted(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.String:
		return "text"
	case v.Kind() == reflect.Bool:
		return "true or false"
	case v.CanInt() || v.CanUint():
		return "a whole number"
	case v.CanFloat():
		return "a number"
	case v.Kind() == reflect.Slice:
		return "a list"
	}
	return "an object"
}

func fieldIndex(t reflect.Type, name string) int {
	for i := range t.NumField() {
		if n := fieldName(t.Field(i)); n != "" && n == name {
			return i
		}
	}
	return -1
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if n := fieldName(t.Field(i)); n != "" {
			names = append(names, n)
		}
	}
	return names
}

// fieldName is the field's name in documents; empty: it has none.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// clip bounds what an error repeats of a document.
func clip(s string) string {
	const longest = 64
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// nearest gives the candidate that is at most two typing errors away, or "".
func nearest(s string, candidates []string) string {
	if len(s) > 64 {
		return ""
	}
	best, at := "", 3
	for _, c := range candidates {
		if d := distance(strings.ToLower(s), strings.ToLower(c)); d < at && d < len(c) {
			best, at = c, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j+1]+1, row[j]+1, prev[j]+cost)
		}
	}
	return row[len(b)]
}
