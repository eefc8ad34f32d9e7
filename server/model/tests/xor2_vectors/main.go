// Makes vectors.bin, float samples and the XOR2 chunks that Prometheus' own appender made of them; and a block of such
// chunks, as Prometheus' own database writes one.
//
// Each series is random, by the seed below: times that are regular, jitter, or leap; values that count, stay, or are any
// bits; start timestamps that are unset, stay, change now and then, or with each sample. README.md says how to run it.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"log/slog"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

const (
	seed    = 20261125
	startMs = 1_700_000_000_000
	ulid    = "01BX5ZZKBKACTAV9WEVGEMMVRZ"
)

type sample struct {
	startMs, timestampMs int64
	value                float64
}

// How far the next sample's time is from the last one's, and its value.
type step func(rng *rand.Rand, deltaMs int64) int64
type values func(rng *rand.Rand, last float64) float64
type starts func(rng *rand.Rand, n int, lastMs int64, before int64) int64

var steps = []step{
	// Regular.
	func(_ *rand.Rand, _ int64) int64 { return 15_000 },
	// Some milliseconds off.
	func(rng *rand.Rand, _ int64) int64 { return 15_000 + rng.Int63n(21) - 10 },
	// At the edges of 13, 20 and 64 bits, on both sides.
	func(rng *rand.Rand, deltaMs int64) int64 {
		edges := []int64{0, 1, 4095, 4096, 4097, 524_287, 524_288, 524_289, 3_000_000}
		edge := edges[rng.Intn(len(edges))]
		if rng.Intn(2) == 0 || deltaMs-edge < 1 {
			return deltaMs + edge
		}
		return deltaMs - edge
	},
	// Any gap.
	func(rng *rand.Rand, _ int64) int64 { return 1 + rng.Int63n(1<<uint(1+rng.Intn(40))) },
}

func stale() float64 { return math.Float64frombits(value.StaleNaN) }

var valuesOf = []values{
	// A counter.
	func(rng *rand.Rand, last float64) float64 { return last + float64(rng.Intn(50)) },
	// The same, but seldom another.
	func(rng *rand.Rand, last float64) float64 {
		if rng.Intn(10) == 0 {
			return float64(rng.Intn(3))
		}
		return last
	},
	// A gauge of two decimals.
	func(rng *rand.Rand, _ float64) float64 { return float64(rng.Intn(10_000)) / 100 },
	// Few bits at any place: windows are reused, narrowed, widened and left.
	func(rng *rand.Rand, last float64) float64 {
		changed := uint64(1+rng.Intn(255)) << uint(rng.Intn(64))
		return math.Float64frombits(math.Float64bits(last) ^ changed)
	},
	// Any bits: infinities and NaNs of many payloads among them, the staleness marker and its neighbours too.
	func(rng *rand.Rand, _ float64) float64 {
		switch rng.Intn(4) {
		case 0:
			return math.Float64frombits(0x7ff0_0000_0000_0000 | uint64(rng.Intn(6)))
		case 1:
			return math.Float64frombits(0x7ff8_0000_0000_0000 | rng.Uint64())
		default:
			return math.Float64frombits(rng.Uint64())
		}
	},
}

var startsOf = []starts{
	// None.
	func(_ *rand.Rand, _ int, _ int64, _ int64) int64 { return 0 },
	// The same for all.
	func(_ *rand.Rand, n int, lastMs int64, before int64) int64 {
		if n == 0 {
			return lastMs - 5000
		}
		return before
	},
	// Known only from some sample on, and changed now and then.
	func(rng *rand.Rand, n int, lastMs int64, before int64) int64 {
		if n > 0 && rng.Intn(20) == 0 {
			return lastMs + rng.Int63n(300) - 150
		}
		return before
	},
	// With each sample, as deltas have them: where the one before ended.
	func(_ *rand.Rand, n int, lastMs int64, _ int64) int64 {
		if n == 0 {
			return lastMs - 15_000
		}
		return lastMs
	},
	// Anything, and sometimes nothing.
	func(rng *rand.Rand, _ int, lastMs int64, _ int64) int64 {
		if rng.Intn(5) == 0 {
			return 0
		}
		return lastMs - rng.Int63n(1<<uint(1+rng.Intn(60)))
	},
}

var counts = []int{1, 2, 3, 120, 127, 128, 129, 260}
var firstTimes = []int64{startMs, 0, -startMs, -7}

func run(rng *rand.Rand, count int, firstMs int64, next step, value values, start starts, withStale bool) (all []sample) {
	at, deltaMs, last, startMs := firstMs, int64(15_000), 1.5, int64(0)
	for n := range count {
		s := sample{timestampMs: at}
		if n > 0 {
			deltaMs = next(rng, deltaMs)
			s.timestampMs = at + deltaMs
		}
		startMs = start(rng, n, at, startMs)
		s.startMs = startMs
		last = value(rng, last)
		s.value = last
		if withStale && rng.Intn(6) == 0 {
			s.value = stale()
		}
		at = s.timestampMs
		all = append(all, s)
	}
	return all
}

// A chunk of all samples. From `takenUpAt` on, unless that is 0, another appender goes on, as after a restart.
func encode(samples []sample, takenUpAt int) []byte {
	chunk := chunkenc.NewXOR2Chunk()
	appender, err := chunk.Appender()
	must(err)
	for n, s := range samples {
		if takenUpAt > 0 && n == takenUpAt {
			appender, err = chunk.Appender()
			must(err)
		}
		appender.Append(s.startMs, s.timestampMs, s.value)
	}
	return chunk.Bytes()
}

func check(encoded []byte, samples []sample) {
	chunk, err := chunkenc.FromData(chunkenc.EncXOR2, encoded)
	must(err)
	iterator := chunk.Iterator(nil)
	for n, s := range samples {
		if iterator.Next() != chunkenc.ValFloat {
			log.Fatalf("sample %d of %d: %v", n, len(samples), iterator.Err())
		}
		t, v := iterator.At()
		same := math.Float64bits(v) == math.Float64bits(s.value)
		if t != s.timestampMs || !same || iterator.AtST() != s.startMs {
			log.Fatalf("sample %d of %d is read as another", n, len(samples))
		}
	}
}

func put(out []byte, samples []sample, takenUpAt int) []byte {
	out = binary.AppendUvarint(out, uint64(len(samples)))
	for _, s := range samples {
		out = binary.BigEndian.AppendUint64(out, uint64(s.startMs))
		out = binary.BigEndian.AppendUint64(out, uint64(s.timestampMs))
		out = binary.BigEndian.AppendUint64(out, math.Float64bits(s.value))
	}
	for _, encoded := range [][]byte{encode(samples, 0), encode(samples, takenUpAt)} {
		check(encoded, samples)
		out = binary.AppendUvarint(out, uint64(len(encoded)))
		out = append(out, encoded...)
	}
	return out
}

func vectors() {
	rng := rand.New(rand.NewSource(seed))
	out, series := put(nil, nil, 0), 1
	for _, next := range steps {
		for _, value := range valuesOf {
			for _, start := range startsOf {
				count, firstMs := counts[series%len(counts)], firstTimes[series%len(firstTimes)]
				samples := run(rng, count, firstMs, next, value, start, series%3 == 0)
				out = put(out, samples, rng.Intn(count))
				series++
			}
		}
	}
	must(os.WriteFile("vectors.bin", out, 0o644))
	fmt.Printf("%d series, %d bytes\n", series, len(out))
}

// Three series of 250 samples each, the last with start timestamps, of two resets.
func block(into string) {
	dir, err := os.MkdirTemp("", "xor2-vectors")
	must(err)
	defer os.RemoveAll(dir)
	options := tsdb.DefaultOptions()
	options.FloatChunkEncoding = chunkenc.EncXOR2
	options.EnableSTStorage = true
	options.RetentionDuration = math.MaxInt64
	db, err := tsdb.Open(filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), nil, options, nil)
	must(err)
	appender := db.AppenderV2(context.Background())
	for n := range int64(3) {
		name := labels.FromStrings("__name__", "xor2", "series", fmt.Sprint(n))
		for i := range int64(250) {
			at, value, start := startMs+15_000*i+i%7*(i%2), float64(i*n)/4, int64(0)
			if i%50 == 49 {
				value = stale()
			}
			if n == 2 {
				start = startMs - 1000 + i/100*1_500_000
			}
			_, err := appender.Append(0, name, start, at, value, nil, nil, storage.AOptions{})
			must(err)
		}
	}
	must(appender.Commit())
	must(db.Snapshot(filepath.Join(dir, "blocks"), true))
	must(db.Close())
	written, err := filepath.Glob(filepath.Join(dir, "blocks", "*"))
	must(err)
	if len(written) != 1 {
		log.Fatalf("blocks: %v", written)
	}
	must(os.MkdirAll(filepath.Join(into, "chunks"), 0o755))
	for _, file := range []string{"index", "chunks/000001", "meta.json"} {
		bytes, err := os.ReadFile(filepath.Join(written[0], file))
		must(err)
		// Its name is of the time when it was written.
		text := strings.ReplaceAll(string(bytes), filepath.Base(written[0]), ulid)
		must(os.WriteFile(filepath.Join(into, file), []byte(text), 0o644))
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	vectors()
	block("block")
}
