//! The ingest path with a shared reference count: one cloned for each sample, one for each series, and none.
//!
//! The path is the node's own, from a compressed body to chunks and the log's next group: decompress,
//! decode, split, append. Each core has a shard of its own; what is shared is one count, as a tenant's or
//! a configuration's would be. Beside the time is how many atomic read-modify-writes a processor
//! executes for each further sample and each further series.

mod atomics;
mod path;

use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::{Arc, Barrier};
use std::thread;

use serde::{Deserialize, Serialize};
use silverback_load::replay::pin::pin_to;

use super::meter::{Figures, Meter, figure};
use super::results::{Column, Comparison, Results, Row};
use super::{Job, OURS, Size, cpus};
use crate::rebalance::verdict::{Bound, Kind};

use path::{Bodies, Path, Shape};

/// One row's work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    side: Side,
    cores: usize,
    requests: usize,
}

/// One request, to be executed step by step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stepped {
    side: Side,
    shape: Shape,
}

/// What is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Side {
    /// A count, cloned for each sample.
    EachSample,
    /// A count, cloned for each series of a request.
    EachSeries,
    /// Nothing.
    Nothing,
}

impl Side {
    const ALL: [Self; 3] = [Self::EachSample, Self::EachSeries, Self::Nothing];

    fn name(self) -> &'static str {
        match self {
            Self::EachSample => "an Arc for each sample",
            Self::EachSeries => "an Arc for each series",
            Self::Nothing => OURS,
        }
    }
}

/// Of the requests that time is taken of.
const SHAPE: Shape = Shape { series: 250, samples: 8 };

const PER_SAMPLE: &str = "atomics_per_sample";
const PER_SERIES: &str = "atomics_per_series";

/// The comparison. More than two cores are compared as well where there are more.
pub fn comparison(size: Size, cores: usize) -> Comparison {
    let mut counts = vec![1, 2, cores];
    counts.sort_unstable();
    counts.dedup();
    let row = |cores: usize, side: Side| Row {
        setting: setting(cores),
        side: side.name().to_owned(),
        job: Job::Refcounts(Work { side, cores, requests: size.pick(1000, 20) }),
    };
    let column = |figure, head, digits| Column { figure, head, unit: 1.0, digits };
    Comparison {
        name: "refcounts",
        title: "The ingest path with a shared reference count",
        rows: counts.into_iter().flat_map(|cores| Side::ALL.map(|side| row(cores, side))).collect(),
        columns: vec![
            column(figure::CPU_NS, "CPU ns a sample", 1),
            column(PER_SAMPLE, "atomic read-modify-writes a sample", 2),
            column(PER_SERIES, "and a series", 2),
        ],
        plotted: 0,
        counts_events: false,
        judge,
    }
}

fn setting(cores: usize) -> String {
    if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") }
}

fn judge(results: &Results) -> Vec<Bound> {
    let ours = results.median(&setting(1), OURS, PER_SAMPLE);
    // Not measured where a processor's steps can't be read.
    let ours = (!ours.is_nan()).then_some(ours);
    let words =
        |count| format!("our path executes {count:.2} atomic read-modify-writes for each sample (none)");
    ours.map(|count| Bound::new(Kind::Soundness, count == 0.0, words(count))).into_iter().collect()
}

impl Work {
    /// Does it.
    pub fn run(&self) -> Result<Figures, Box<dyn Error>> {
        let (bodies, shared) = (&Bodies::new(SHAPE, self.requests)?, &Arc::default());
        let (meter, begin) = (&Meter::default(), &Barrier::new(self.cores));
        thread::scope(|scope| {
            let threads: Vec<_> = cpus(self.cores)?
                .into_iter()
                .map(|cpu| {
                    scope.spawn(move || self.take_all_in(cpu, Path::new(shared), bodies, meter, begin))
                })
                .collect();
            let ended = threads.into_iter().map(|thread| thread.join().expect("a core doesn't panic"));
            ended.collect::<io::Result<Vec<()>>>()
        })?;
        let samples = self.requests * SHAPE.series * SHAPE.samples * self.cores;
        let mut figures = meter.figures(samples as u64);
        if self.cores == 1 {
            figures.extend(self.count_atomics()?);
        }
        Ok(figures)
    }

    fn take_all_in(
        &self,
        cpu: usize,
        mut path: Path,
        bodies: &Bodies,
        meter: &Meter,
        begin: &Barrier,
    ) -> io::Result<()> {
        pin_to(cpu)?;
        path.take_in(self.side, bodies.first());
        begin.wait();
        meter.begin();
        for body in bodies.rest() {
            assert_eq!(path.take_in(self.side, body), SHAPE.series * SHAPE.samples);
        }
        meter.end();
        Ok(())
    }

    /// What one more sample, and one more series with as many samples, executes.
    fn count_atomics(&self) -> Result<Figures, Box<dyn Error>> {
        let count = |series, samples| {
            atomics::count(&Job::Stepped(Stepped { side: self.side, shape: Shape { series, samples } }))
        };
        let (Some(base), Some(longer), Some(wider)) = (count(4, 8)?, count(4, 16)?, count(8, 8)?) else {
            return Ok(Figures::new());
        };
        let difference = |more: u64, fewer: u64| more as f64 - fewer as f64;
        let per_sample = difference(longer, base) / (4.0 * 8.0);
        let per_series = difference(wider, base) / 4.0 - 8.0 * per_sample;
        Ok([(PER_SAMPLE.to_owned(), per_sample), (PER_SERIES.to_owned(), per_series)].into())
    }
}

impl Stepped {
    /// Waits to be watched, takes a request in between two marks, and ends.
    pub fn run(&self) -> Result<Figures, Box<dyn Error>> {
        let bodies = Bodies::new(self.shape, 4)?;
        let mut path = Path::new(&Arc::default());
        let (last, first) = bodies.split_last();
        // So that buffers have grown.
        for body in first {
            path.take_in(self.side, body);
        }
        println!("{}", atomics::READY);
        io::stdout().flush()?;
        io::stdin().read_exact(&mut [0])?;
        atomics::mark();
        let taken = path.take_in(self.side, last);
        atomics::mark();
        assert_eq!(taken, self.shape.series * self.shape.samples);
        Ok(Figures::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_takes_all_samples_in() {
        for side in Side::ALL {
            let work = Work { side, cores: 2, requests: 5 };
            let figures = work.run().unwrap_or_else(|error| panic!("{side:?}: {error}"));
            assert_eq!(figures[figure::OPERATIONS], 20_000.0);
        }
    }
}
