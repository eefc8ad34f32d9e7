// Makes vectors.bin: native histograms, and the chunks that Prometheus' own head made of them.
//
// Each series is random, by the seed below, and changes as real ones do: buckets that come and go, resets,
// other schemas and thresholds, staleness markers, gaps in time. One head takes one series in, a sample at a
// time, so that the chunks are cut where Prometheus cuts them. README.md says how to run it.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

const (
	seed            = 20261124
	startMs         = 1_700_000_000_000
	samplesEach     = 60
	seriesOfEach    = 6
	bucketsMax      = 24
	customBoundsMax = 16
)

// What the histograms of a series are.
type kind struct {
	name                        string
	float, gauge, custom, mixed bool
}

var kinds = []kind{
	{name: "integer"},
	{name: "float", float: true},
	{name: "integer gauge", gauge: true},
	{name: "float gauge", float: true, gauge: true},
	{name: "integer custom", custom: true},
	{name: "float custom", float: true, custom: true},
	{name: "integer custom gauge", custom: true, gauge: true},
	{name: "mixed", mixed: true},
}

// The state of a series: counts by bucket index.
type series struct {
	kind
	rng                *rand.Rand
	timestampMs        int64
	intervalMs         int64
	schema             int32
	zeroThreshold      float64
	zeroCount          int64
	positive, negative map[int]int64
	bounds             []float64
	sum                float64
	calm               bool
}

func newSeries(k kind, n int) *series {
	s := &series{kind: k, rng: rand.New(rand.NewSource(seed + int64(n)))}
	s.timestampMs = startMs + s.rng.Int63n(7_200_000)
	s.intervalMs = []int64{1_000, 15_000, 60_000, 300_000}[s.rng.Intn(4)]
	// Every third series does nothing but grow, so that its chunks get full.
	s.calm = n%3 == 0
	s.changeLayout()
	return s
}

// Another schema, threshold or bounds, and empty buckets.
func (s *series) changeLayout() {
	s.positive, s.negative = map[int]int64{}, map[int]int64{}
	s.zeroCount = 0
	s.schema = int32(s.rng.Intn(13) - 4)
	s.zeroThreshold = []float64{0, 0x1p-128, 0x1p-243, 0x1p-244, 1024, 2048, 0.001, 1e-128}[s.rng.Intn(8)]
	if !s.custom {
		return
	}
	s.schema, s.zeroThreshold = histogram.CustomBucketsSchema, 0
	s.bounds = nil
	bound := float64(s.rng.Intn(20)-10) / 4
	for range 1 + s.rng.Intn(customBoundsMax) {
		s.bounds = append(s.bounds, bound)
		step := []float64{0.001, 0.25, 1, 1.0 / 3, 40_000}[s.rng.Intn(5)]
		bound = math.Round((bound+step)*1e6) / 1e6
	}
}

// One bucket's index, of those that this series uses.
func (s *series) index() int {
	if s.custom {
		return s.rng.Intn(len(s.bounds) + 1)
	}
	return int(s.rng.NormFloat64()*bucketsMax/4) - 3
}

// Observations since the last sample.
func (s *series) observe() {
	for range s.rng.Intn(12) {
		n := int64(1 + s.rng.Intn(5))
		if s.rng.Intn(40) == 0 {
			n = s.rng.Int63n(1 << 40)
		}
		switch side := s.rng.Intn(6); {
		case side == 0 && !s.custom:
			s.zeroCount += n
		case side == 1 && !s.custom:
			s.negative[s.index()] += n
		default:
			s.positive[s.index()] += n
		}
		s.sum += s.rng.Float64() * float64(n)
	}
}

// What befalls a series now and then.
func (s *series) happen() {
	if s.calm {
		return
	}
	switch s.rng.Intn(24) {
	case 0: // A reset.
		s.positive, s.negative, s.zeroCount, s.sum = map[int]int64{}, map[int]int64{}, 0, 0
	case 1:
		s.changeLayout()
	case 2: // A bucket in use disappears.
		for _, index := range sorted(s.positive) {
			delete(s.positive, index)
			break
		}
	case 3: // Buckets become empty, and stay.
		for _, index := range sorted(s.positive) {
			if s.rng.Intn(3) == 0 {
				s.positive[index] = 0
			}
		}
	case 4: // Empty buckets come.
		s.positive[s.index()] += 0
	case 5: // Empty ones go.
		for _, index := range sorted(s.positive) {
			if s.positive[index] == 0 {
				delete(s.positive, index)
			}
		}
	case 6:
		s.timestampMs += s.rng.Int63n(10_000_000)
	case 7:
		s.zeroCount = 0
	case 8:
		if s.gauge {
			for _, index := range sorted(s.positive) {
				s.positive[index] = s.rng.Int63n(100)
			}
		}
	}
}

func sorted(buckets map[int]int64) []int {
	indexes := make([]int, 0, len(buckets))
	for index := range buckets {
		indexes = append(indexes, index)
	}
	sort.Ints(indexes)
	return indexes
}

// Spans and absolute counts of the buckets. Small gaps may become empty buckets, and spans may be empty.
func (s *series) side(buckets map[int]int64) (spans []histogram.Span, counts []int64) {
	indexes := sorted(buckets)
	next := 0
	for i, index := range indexes {
		gap := index - next
		switch {
		case i == 0:
			spans = append(spans, histogram.Span{Offset: int32(index)})
		case gap > 0 && gap <= s.rng.Intn(3):
			for range gap {
				counts = append(counts, 0)
				spans[len(spans)-1].Length++
			}
		case gap > 1 && s.rng.Intn(30) == 0:
			spans = append(spans, histogram.Span{Offset: 1}, histogram.Span{Offset: int32(gap - 1)})
		case gap > 0:
			spans = append(spans, histogram.Span{Offset: int32(gap)})
		}
		spans[len(spans)-1].Length++
		counts = append(counts, buckets[index])
		next = index + 1
	}
	return spans, counts
}

func deltas(counts []int64) (deltas []int64) {
	last := int64(0)
	for _, count := range counts {
		deltas = append(deltas, count-last)
		last = count
	}
	return deltas
}

func (s *series) floats(counts []int64) (floats []float64) {
	for _, count := range counts {
		f := float64(count)
		if count != 0 && s.rng.Intn(8) == 0 && s.gauge {
			f += s.rng.Float64()
		}
		floats = append(floats, f)
	}
	return floats
}

func (s *series) hint() histogram.CounterResetHint {
	switch {
	case s.gauge:
		return histogram.GaugeType
	case !s.calm && s.rng.Intn(60) == 0:
		return histogram.CounterReset
	case s.rng.Intn(8) == 0:
		return histogram.NotCounterReset
	}
	return histogram.UnknownCounterReset
}

// The next sample.
func (s *series) next() (int64, *histogram.Histogram, *histogram.FloatHistogram) {
	s.timestampMs += s.intervalMs + s.rng.Int63n(20)
	s.happen()
	s.observe()
	float := s.float || s.mixed && s.rng.Intn(3) == 0
	if !s.calm && s.rng.Intn(25) == 0 {
		stale := math.Float64frombits(value.StaleNaN)
		hint := s.hint()
		if float {
			return s.timestampMs, nil, &histogram.FloatHistogram{Sum: stale, CounterResetHint: hint}
		}
		return s.timestampMs, &histogram.Histogram{Sum: stale, CounterResetHint: hint}, nil
	}
	sum := s.sum
	nan := !s.calm && s.rng.Intn(20) == 0
	if nan {
		sum = math.Float64frombits(0x7ff8_0000_0000_0001 + uint64(s.rng.Intn(3)))
	}
	positiveSpans, positive := s.side(s.positive)
	negativeSpans, negative := s.side(s.negative)
	count := s.zeroCount
	for _, n := range append(append([]int64{}, positive...), negative...) {
		count += n
	}
	if nan {
		count += s.rng.Int63n(3)
	}
	if float {
		return s.timestampMs, nil, &histogram.FloatHistogram{
			CounterResetHint: s.hint(), Schema: s.schema, ZeroThreshold: s.zeroThreshold,
			ZeroCount: float64(s.zeroCount), Count: float64(count), Sum: sum,
			PositiveSpans: positiveSpans, PositiveBuckets: s.floats(positive),
			NegativeSpans: negativeSpans, NegativeBuckets: s.floats(negative), CustomValues: s.bounds,
		}
	}
	return s.timestampMs, &histogram.Histogram{
		CounterResetHint: s.hint(), Schema: s.schema, ZeroThreshold: s.zeroThreshold,
		ZeroCount: uint64(s.zeroCount), Count: uint64(count), Sum: sum,
		PositiveSpans: positiveSpans, PositiveBuckets: deltas(positive),
		NegativeSpans: negativeSpans, NegativeBuckets: deltas(negative), CustomValues: s.bounds,
	}, nil
}

// The samples of a series as remote write has them, and the chunks that a head made of them.
func run(s *series, dir string) (samples [][]byte, encoded [][]byte) {
	options := tsdb.DefaultHeadOptions()
	options.ChunkDirRoot = dir
	options.StripeSize = 4
	head, err := tsdb.NewHead(nil, nil, nil, nil, options, nil)
	must(err)
	defer head.Close()
	must(head.Init(math.MinInt64))
	name := labels.FromStrings("__name__", "h")
	for range samplesEach {
		t, h, fh := s.next()
		var message prompb.Histogram
		if h != nil {
			must(h.Validate())
			message = prompb.FromIntHistogram(t, h)
		} else {
			must(fh.Validate())
			message = prompb.FromFloatHistogram(t, fh)
		}
		bytes, err := message.Marshal()
		must(err)
		samples = append(samples, bytes)
		appender := head.Appender(context.Background())
		_, err = appender.AppendHistogram(0, name, t, h, fh)
		must(err)
		must(appender.Commit())
	}
	return samples, chunksOf(head)
}

func chunksOf(head *tsdb.Head) (encoded [][]byte) {
	index, err := head.Index()
	must(err)
	defer index.Close()
	reader, err := head.Chunks()
	must(err)
	defer reader.Close()
	postings, err := index.Postings(context.Background(), "__name__", "h")
	must(err)
	if !postings.Next() {
		log.Fatal("the series is gone")
	}
	var (
		builder labels.ScratchBuilder
		metas   []chunks.Meta
		ref     storage.SeriesRef = postings.At()
	)
	must(index.Series(ref, &builder, &metas))
	for _, meta := range metas {
		chunk, _, err := reader.ChunkOrIterable(meta)
		must(err)
		encoded = append(encoded, append([]byte{byte(chunk.Encoding())}, chunk.Bytes()...))
	}
	return encoded
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func appendAll(out []byte, pieces [][]byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(pieces)))
	for _, piece := range pieces {
		out = binary.AppendUvarint(out, uint64(len(piece)))
		out = append(out, piece...)
	}
	return out
}

func main() {
	var out []byte
	all := 0
	for n := range len(kinds) * seriesOfEach {
		dir, err := os.MkdirTemp("", "histogram-vectors")
		must(err)
		k := kinds[n%len(kinds)]
		samples, encoded := run(newSeries(k, n), dir)
		must(os.RemoveAll(dir))
		out = appendAll(appendAll(out, samples), encoded)
		fmt.Printf("%s: %d chunks\n", k.name, len(encoded))
		all += len(encoded)
	}
	must(os.WriteFile("vectors.bin", out, 0o644))
	fmt.Printf("%d chunks, %d bytes\n", all, len(out))
}
