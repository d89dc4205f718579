package main

import (
	"encoding/json"
	"regexp"
	"text/template"

	"sigs.k8s.io/yaml"
)

// functions do what Helm's do, and remember what they read: in each call the same expressions and tables.
var functions = template.FuncMap{
	"regexMatch": func(form, text string) bool {
		expression := remembered("regexp "+form, func() *regexp.Regexp {
			found, _ := regexp.Compile(form)
			return found
		})
		return expression != nil && expression.MatchString(text)
	},
	"fromYaml": func(text string) map[string]any {
		return read("yaml ", text, func(data []byte, into any) error { return yaml.Unmarshal(data, into) })
	},
	"fromJson": func(text string) map[string]any { return read("json ", text, json.Unmarshal) },
}

// read returns a copy, since templates change maps.
func read(form, text string, unmarshal func([]byte, any) error) map[string]any {
	return values(remembered(form+text, func() map[string]any {
		found := map[string]any{}
		if err := unmarshal([]byte(text), &found); err != nil {
			found["Error"] = err.Error()
		}
		return found
	})).(map[string]any)
}

var known = map[string]any{}

func remembered[T any](key string, read func() T) T {
	if _, ok := known[key]; !ok {
		if len(known) >= 1000 { // values that are fuzzed make new texts
			clear(known)
		}
		known[key] = read()
	}
	return known[key].(T)
}
