package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schemas are what an API server checks, by kind.
type Schemas map[string]*jsonschema.Schema

// compile reads KIND.json of a folder.
func compile(folder string) (Schemas, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no schemas in %s", folder)
	}
	found := Schemas{}
	for _, file := range files {
		compiler := jsonschema.NewCompiler()
		compiler.DefaultDraft(jsonschema.Draft7)
		schema, err := compiler.Compile(file)
		if err != nil {
			return nil, err
		}
		found[strings.TrimSuffix(filepath.Base(file), ".json")] = schema
	}
	return found, nil
}

// mistakes judges an object, and of a JobSet the Jobs that it would make: its CRD leaves the
// metadata of jobs and pods open, the API's own Job does not.
func (s Schemas) mistakes(object any) []string {
	root, _ := object.(map[string]any)
	kind, _ := root["kind"].(string)
	found := s.check(kind, object)
	spec, _ := root["spec"].(map[string]any)
	jobs, _ := spec["replicatedJobs"].([]any)
	for _, job := range jobs {
		made, _ := job.(map[string]any)
		template, _ := made["template"].(map[string]any)
		template["apiVersion"], template["kind"] = "batch/v1", "Job"
		found = append(found, s.check("Job", template)...)
		delete(template, "apiVersion")
		delete(template, "kind")
	}
	return found
}

func (s Schemas) check(kind string, object any) []string {
	schema, ok := s[kind]
	if !ok {
		return []string{fmt.Sprintf("no such kind: %q", kind)}
	}
	err := schema.Validate(object)
	var invalid *jsonschema.ValidationError
	if err == nil {
		return nil
	} else if !errors.As(err, &invalid) {
		return []string{err.Error()}
	}
	return leaves(kind, invalid)
}

// leaves returns the innermost causes: `JobSet /spec/suspend: got string, want boolean`.
func leaves(kind string, wrong *jsonschema.ValidationError) []string {
	if len(wrong.Causes) == 0 {
		words := wrong.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		path := strings.Join(wrong.InstanceLocation, "/")
		return []string{fmt.Sprintf("%s /%s: %s", kind, path, words)}
	}
	var found []string
	for _, cause := range wrong.Causes {
		found = append(found, leaves(kind, cause)...)
	}
	return found
}
