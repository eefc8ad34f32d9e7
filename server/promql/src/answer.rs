//! What a query gives: a value of one of four kinds, with warnings and infos.

use std::rc::Rc;

use silverback_model::Labels;

use crate::histogram::FloatHistogram;
use crate::queryable::QueryableSamples;

/// A query's answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What the expression gives.
    pub value: Value,
    /// In Prometheus' words, with the place in the expression: `PromQL warning: … (1:5)`.
    pub warnings: Vec<String>,
    /// In Prometheus' words, with the place in the expression: `PromQL info: … (1:5)`.
    pub infos: Vec<String>,
    /// What the value, and the list of samples by step, take of the [`Room`](crate::Room) that the budget is within: the caller's to give back.
    pub bytes: usize,
    /// The samples that were looked at.
    pub samples: QueryableSamples,
}

/// What an expression gives.
#[derive(Debug, Clone)]
pub enum Value {
    /// A number at a time.
    Scalar {
        /// In ms.
        at_ms: i64,
        /// The number.
        value: f64,
    },
    /// A text at a time.
    Text {
        /// In ms.
        at_ms: i64,
        /// The text.
        text: String,
    },
    /// Of an instant query: a sample of each series, in the order that the expression gives.
    Vector(Vec<VectorSample>),
    /// Of a range query, or of a range selector: samples of each series, sorted by labels.
    Matrix(Vec<MatrixSeries>),
}

/// One series' sample in a vector.
#[derive(Debug, Clone)]
pub struct VectorSample {
    /// Of the series.
    pub labels: Rc<Labels>,
    /// In ms.
    pub at_ms: i64,
    /// A number or a histogram.
    pub value: SampleValue,
}

/// A number or a histogram.
#[derive(Debug, Clone)]
pub enum SampleValue {
    /// A number.
    Float(f64),
    /// A native histogram.
    Histogram(Rc<FloatHistogram>),
}

/// One series of a matrix.
#[derive(Debug, Clone)]
pub struct MatrixSeries {
    /// Of the series.
    pub labels: Rc<Labels>,
    /// Times in ms, ascending, and numbers.
    pub floats: Vec<(i64, f64)>,
    /// Times in ms, ascending, and histograms.
    pub histograms: Vec<(i64, Rc<FloatHistogram>)>,
}

impl Value {
    /// As `resultType` names it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Scalar { .. } => "scalar",
            Self::Text { .. } => "string",
            Self::Vector(_) => "vector",
            Self::Matrix(_) => "matrix",
        }
    }
}
