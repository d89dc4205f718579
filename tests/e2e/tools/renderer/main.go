// renderer does what `helm template` does, for many values in one process: a line of JSON in,
// a line of JSON out. tests/chart/renderer.py starts it; tests compare its answers with Helm's own.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	ci "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// Question is one call of `helm template NAME CHART --values - [--is-upgrade] [--skip-schema-validation]`.
type Question struct {
	Name      string `json:"name"`
	Chart     string `json:"chart"`
	IsUpgrade bool   `json:"isUpgrade"`
	// SkipSchema leaves out the chart's values.schema.json.
	SkipSchema bool `json:"skipSchema"`
	// Values is the text of standard input.
	Values string `json:"values"`
	// Over are the texts of further values files, Sets the assignments of --set.
	Over []string `json:"over"`
	Sets []string `json:"sets"`
}

// Answer is what Helm prints, or why it refuses.
type Answer struct {
	// Text is the manifests as written.
	Text string `json:"text"`
	// Notes are what `helm install` prints of NOTES.txt.
	Notes string `json:"notes"`
	// Stderr is everything that Helm prints there.
	Stderr string `json:"stderr"`
	// Objects are the manifests, read strictly: a key that is there twice is an error.
	// Without schemas they are neither read nor checked.
	Objects []any `json:"objects"`
	// Refusal is Helm's error; with it, Helm ends with code 1.
	Refusal string `json:"refusal"`
	// Broken says that the chart itself is at fault: a Go panic, text that is no YAML, or objects
	// that the API server would refuse.
	Broken []string `json:"broken"`
}

// refused is what Helm prints of values by the schema `false`, which stands for one that is compiled.
const refused = "- at '': false schema"

var separator = regexp.MustCompile(`(?m)^---$`)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: renderer KUBERNETES_VERSION [SCHEMAS], questions on stdin")
		os.Exit(64)
	}
	kube, err := common.ParseKubeVersion(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
	debug.SetGCPercent(400) // a third less time for 100 MB
	var known Schemas
	if len(os.Args) == 3 {
		if known, err = compile(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(66)
		}
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if err := out.Encode(answer(line, kube, known)); err != nil {
			os.Exit(74)
		}
	}
}

func answer(line []byte, kube *common.KubeVersion, known Schemas) (found Answer) {
	defer func() {
		if fault := recover(); fault != nil {
			found.Broken = append(found.Broken, fmt.Sprintf("panic: %v\n%s", fault, debug.Stack()))
		}
	}()
	var question Question
	if err := json.Unmarshal(line, &question); err != nil {
		found.Broken = append(found.Broken, err.Error())
		return found
	}
	// As Helm's internal/logging: everything but debugging, without times.
	var printed bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&printed, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	made, err := render(question, kube)
	if err != nil {
		found.Refusal = err.Error()
		found.Stderr = printed.String() + "Error: " + found.Refusal + "\n"
		return found
	}
	text := charts.whole(manifests(made), question.Chart)
	found.Text, found.Notes, found.Stderr = text, made.Info.Notes, printed.String()
	if known == nil {
		return found
	}
	for _, document := range separator.Split(text, -1) {
		var object any
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			found.Broken = append(found.Broken, fmt.Sprintf("no YAML: %v", err))
		} else if object != nil {
			found.Objects = append(found.Objects, object)
			found.Broken = append(found.Broken, known.mistakes(object)...)
		}
	}
	return found
}

// render mirrors pkg/cmd/template.go and install.go of Helm: a dry run of the client.
func render(question Question, kube *common.KubeVersion) (*release.Release, error) {
	values, err := loader.LoadValues(strings.NewReader(question.Values))
	if err != nil {
		return nil, fmt.Errorf("failed to parse -: %w", err)
	}
	for _, text := range question.Over {
		layer, err := loader.LoadValues(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("failed to parse -: %w", err)
		}
		values = loader.MergeMaps(values, layer)
	}
	for _, set := range question.Sets {
		if err := strvals.ParseInto(set, values); err != nil {
			return nil, fmt.Errorf("failed parsing --set data: %w", err)
		}
	}
	known, err := charts.load(question.Chart)
	if err != nil {
		return nil, err
	}
	chart := known.chart
	if chart.Metadata.Type == "library" {
		return nil, fmt.Errorf("%s charts are not installable", chart.Metadata.Type)
	}
	if dependencies := chart.Metadata.Dependencies; len(dependencies) > 0 {
		required := make([]ci.Dependency, len(dependencies))
		for i, each := range dependencies {
			required[i] = each
		}
		if err := action.CheckDependencies(chart, required); err != nil {
			return nil, fmt.Errorf("an error occurred while checking for chart dependencies. You may need to run "+
				"'helm dependency build' to fetch missing dependencies: %w", err)
		}
	}
	configuration := action.NewConfiguration()
	configuration.CustomTemplateFuncs = functions
	client := action.NewInstall(configuration)
	client.DryRunStrategy = action.DryRunClient
	client.IsUpgrade = question.IsUpgrade
	client.ReleaseName = question.Name
	client.Namespace = "default"
	client.Replace = true
	client.KubeVersion = kube
	client.SkipSchemaValidation = question.SkipSchema
	mistakes := refused
	if !question.SkipSchema {
		wrong, judged := known.judge(values)
		client.SkipSchemaValidation = judged && wrong == nil
		if wrong != nil {
			chart.Schema = []byte("false")
			_, mistakes, _ = strings.Cut(wrong.Error(), "\n")
		}
	}
	made, err := client.Run(chart, values)
	if err != nil && mistakes != refused {
		err = errors.New(strings.Replace(err.Error(), refused, mistakes, 1))
	}
	rendered, ok := made.(*release.Release)
	if err != nil && rendered != nil {
		return nil, fmt.Errorf("%w\n\nUse --debug flag to render out invalid YAML", err)
	} else if err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("helm returned %T", made)
	}
	return rendered, nil
}

// manifests returns what `helm template` prints: hooks after the manifest.
func manifests(rendered *release.Release) string {
	text := bytes.NewBufferString(strings.TrimSpace(rendered.Manifest) + "\n")
	for _, hook := range rendered.Hooks {
		fmt.Fprintf(text, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return text.String()
}
