// Command promql reads one scrape as Prometheus does and evaluates queries over it with Prometheus' own
// engine. It reads {"scrape", "content_type", "queries"} as JSON from stdin, and prints for each query
// its samples, or the error of the parser.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

type request struct {
	Scrape      string   `json:"scrape"`
	ContentType string   `json:"content_type"`
	Queries     []string `json:"queries"`
}

type result struct {
	Error   string   `json:"error"`
	Samples []series `json:"samples"`
}

type series struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

// sample is a number at a time in milliseconds.
type sample struct {
	time  int64
	value float64
}

func (s sample) T() int64                      { return s.time }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// set iterates over series.
type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                        { s.at++; return s.at <= len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at-1] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

// scraped holds the series of one scrape.
type scraped []storage.Series

func (s scraped) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: s.matching}, nil
}

func (s scraped) matching(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := []storage.Series{}
	for _, each := range s {
		matches := true
		for _, matcher := range matchers {
			matches = matches && matcher.Matches(each.Labels().Get(matcher.Name))
		}
		if matches {
			found = append(found, each)
		}
	}
	return &set{series: found}
}

// parse returns the series of a scrape, each with one sample.
func parse(asked request, when time.Time) (scraped, error) {
	lines, err := textparse.New([]byte(asked.Scrape), asked.ContentType, nil, textparse.ParserOptions{})
	if err != nil {
		return nil, err
	}
	found := scraped{}
	for {
		entry, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := lines.Series()
		var name labels.Labels
		lines.Labels(&name)
		found = append(found, storage.NewListSeries(name, []chunks.Sample{sample{when.UnixMilli(), value}}))
	}
}

func evaluate(engine *promql.Engine, held scraped, query string, when time.Time) result {
	asked, err := engine.NewInstantQuery(context.Background(), held, nil, query, when)
	if err != nil {
		return result{Error: err.Error()}
	}
	defer asked.Close()
	answer := asked.Exec(context.Background())
	if answer.Err != nil {
		return result{Error: answer.Err.Error()}
	}
	vector, err := answer.Vector()
	if err != nil {
		return result{Error: err.Error()}
	}
	found := []series{}
	for _, each := range vector {
		found = append(found, series{Labels: each.Metric.Map(), Value: each.F})
	}
	return result{Samples: found}
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	when := time.Now()
	held, err := parse(asked, when)
	if err != nil {
		return fmt.Errorf("the scrape: %w", err)
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6,
		Timeout:    10 * time.Second,
		Parser:     parser.NewParser(parser.Options{}),
	})
	results := []result{}
	for _, query := range asked.Queries {
		results = append(results, evaluate(engine, held, query, when))
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"series": len(held), "results": results})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
