// Makes vectors.txt: native histograms, and the quantiles and fractions that Prometheus finds in them.
//
// Each histogram is random, by the seed below: buckets that are empty among others and alone on their side, a zero
// bucket that reaches into buckets, bounds of its own, counts that don't add up. README.md says how to run it.
package main

import (
	"bufio"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

const (
	seed       = 20261126
	histograms = 240
	customMax  = 5
)

var (
	quantiles = []float64{0, 0.001, 0.2, 0.4999, 0.5, 0.75, 0.9, 0.999, 1}
	fractions = [][2]float64{{math.Inf(-1), 0}, {-1, 1}, {0, 0.3}, {0.1, math.Inf(1)}, {-2.5, -0.01}}
)

// Spans and counts of one side: runs of buckets, a third of which are empty.
func side(rng *rand.Rand, least int32) ([]histogram.Span, []float64) {
	var spans []histogram.Span
	var counts []float64
	for n := range rng.Intn(4) {
		offset := int32(rng.Intn(4))
		if n == 0 {
			offset = least + int32(rng.Intn(6))
		}
		length := uint32(1 + rng.Intn(3))
		spans = append(spans, histogram.Span{Offset: offset, Length: length})
		for range length {
			counts = append(counts, count(rng))
		}
	}
	return spans, counts
}

func count(rng *rand.Rand) float64 {
	if rng.Intn(3) == 0 {
		return 0
	}
	return float64(1 + rng.Intn(20))
}

func random(rng *rand.Rand) *histogram.FloatHistogram {
	h := &histogram.FloatHistogram{Sum: rng.NormFloat64() * 10}
	if rng.Intn(4) == 0 {
		h.Schema = histogram.CustomBucketsSchema
		bound := float64(rng.Intn(5) - 3)
		for range 1 + rng.Intn(customMax) {
			h.CustomValues = append(h.CustomValues, bound)
			bound += 0.25 * float64(1+rng.Intn(4))
		}
		length := uint32(len(h.CustomValues) + rng.Intn(2))
		h.PositiveSpans = []histogram.Span{{Length: length}}
		for range length {
			h.PositiveBuckets = append(h.PositiveBuckets, count(rng))
		}
	} else {
		h.Schema = int32(rng.Intn(5) - 1)
		h.ZeroThreshold = []float64{0, 1e-128, 0.001, 0.3, 2}[rng.Intn(5)]
		h.ZeroCount = count(rng)
		h.PositiveSpans, h.PositiveBuckets = side(rng, -5)
		h.NegativeSpans, h.NegativeBuckets = side(rng, -5)
	}
	h.Count = h.ZeroCount
	for _, counts := range [][]float64{h.PositiveBuckets, h.NegativeBuckets} {
		for _, one := range counts {
			h.Count += one
		}
	}
	switch rng.Intn(8) {
	case 0: // Some observations were NaN.
		h.Sum = math.NaN()
		h.Count += float64(rng.Intn(4))
	case 1: // What arithmetic may leave.
		h.Count *= 1.5
	}
	return h
}

func number(value float64) string {
	return fmt.Sprintf("%016x", math.Float64bits(value))
}

// Index and count of each bucket of a side.
func buckets(it histogram.BucketIterator[float64]) string {
	var text string
	for it.Next() {
		text += fmt.Sprintf(" %d:%s", it.At().Index, number(it.At().Count))
	}
	return text
}

func main() {
	file, err := os.Create("vectors.txt")
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(file)
	rng := rand.New(rand.NewSource(seed))
	for range histograms {
		h := random(rng)
		fmt.Fprintf(out, "h %d %s %s %s %s\n", h.Schema, number(h.ZeroThreshold), number(h.ZeroCount), number(h.Count), number(h.Sum))
		fmt.Fprintf(out, "p%s\n", buckets(h.PositiveBucketIterator()))
		fmt.Fprintf(out, "n%s\n", buckets(h.NegativeBucketIterator()))
		fmt.Fprint(out, "b")
		for _, bound := range h.CustomValues {
			fmt.Fprintf(out, " %s", number(bound))
		}
		fmt.Fprint(out, "\nq")
		for _, q := range quantiles {
			value, _ := promql.HistogramQuantile(q, h, "", posrange.PositionRange{})
			fmt.Fprintf(out, " %s:%s", number(q), number(value))
		}
		fmt.Fprint(out, "\nf")
		for _, f := range fractions {
			value, _ := promql.HistogramFraction(f[0], f[1], h, "", posrange.PositionRange{})
			fmt.Fprintf(out, " %s:%s:%s", number(f[0]), number(f[1]), number(value))
		}
		fmt.Fprintln(out)
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}
}
