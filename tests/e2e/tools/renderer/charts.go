package main

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"

	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// Charts are the parsed charts by path. One is read again when one of its files has changed.
type Charts map[string]loaded

type loaded struct {
	files string
	chart *v2.Chart
}

var charts = Charts{}

// load returns a copy of a chart, which Helm changes when it processes dependencies.
func (c Charts) load(path string) (*v2.Chart, error) {
	files, err := filesOf(path)
	if err != nil { // no folder: an archive, or nothing
		return loader.Load(path)
	}
	known, ok := c[path]
	if !ok || known.files != files {
		chart, err := loader.Load(path)
		if err != nil {
			return nil, err
		}
		known = loaded{files, chart}
		c[path] = known
	}
	return copied(known.chart), nil
}

// filesOf lists the files of a folder with their sizes and times.
func filesOf(folder string) (string, error) {
	var found strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if path == folder && !info.IsDir() {
			return fmt.Errorf("%s is no folder", folder)
		}
		fmt.Fprintln(&found, path, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	return found.String(), err
}

func copied(chart *v2.Chart) *v2.Chart {
	result := *chart
	metadata := *chart.Metadata
	metadata.Dependencies = nil
	for _, each := range chart.Metadata.Dependencies {
		dependency := *each
		metadata.Dependencies = append(metadata.Dependencies, &dependency)
	}
	result.Metadata = &metadata
	result.Values = values(chart.Values).(map[string]any)
	result.SetDependencies()
	for _, each := range chart.Dependencies() {
		result.AddDependency(copied(each))
	}
	return &result
}

func values(value any) any {
	switch value := value.(type) {
	case map[string]any:
		found := maps.Clone(value)
		for key, each := range value {
			found[key] = values(each)
		}
		return found
	case []any:
		found := make([]any, len(value))
		for i, each := range value {
			found[i] = values(each)
		}
		return found
	}
	return value
}
