//! What came as an answer to a range query, and whether two say the same.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Values that differ by no more than this part are the same: sums come in another order.
const SAME: f64 = 1e-9;

#[derive(Deserialize)]
struct Body {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

/// A matrix: each series by its labels, its values by their steps in ms.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matrix(BTreeMap<String, Vec<(i64, f64)>>);

impl Matrix {
    /// Of an answer's JSON.
    pub fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        let Body { data } = serde_json::from_slice(body)?;
        let of = |series: Series| {
            let values = series.values.into_iter();
            let values = values
                .map(|(at_s, value)| ((at_s * 1000.0).round() as i64, value.parse().unwrap_or(f64::NAN)));
            (format!("{:?}", series.metric), values.collect())
        };
        Ok(Self(data.result.into_iter().map(of).collect()))
    }

    /// How many series.
    pub fn series(&self) -> usize {
        self.0.len()
    }

    /// Values of all of them.
    pub fn values(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// What another says otherwise, in words; nothing where both say the same.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.series() != other.series() {
            return Some(format!("{} series, not {}", other.series(), self.series()));
        }
        self.0.iter().find_map(|(labels, values)| {
            let Some(others) = other.0.get(labels) else { return Some(format!("no {labels}")) };
            if values.len() != others.len() {
                return Some(format!("{labels} has {} values, not {}", others.len(), values.len()));
            }
            let differing = values.iter().zip(others).find(|(own, other)| !is_same(**own, **other));
            differing.map(|(own, other)| format!("{labels} is {other:?}, not {own:?}"))
        })
    }
}

fn is_same(own: (i64, f64), other: (i64, f64)) -> bool {
    let scale = own.1.abs().max(other.1.abs());
    let is_near =
        own.1 == other.1 || (own.1.is_nan() && other.1.is_nan()) || (own.1 - other.1).abs() <= SAME * scale;
    own.0 == other.0 && is_near
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(value: &str) -> Matrix {
        let body = format!(
            r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{"a":"b"}},"values":[[1.5,"{value}"]]}}]}}}}"#
        );
        Matrix::parse(body.as_bytes()).expect("an answer")
    }

    #[test]
    fn what_differs_by_rounding_alone_is_the_same() {
        assert_eq!((matrix("1").series(), matrix("1").values()), (1, 1));
        assert_eq!(matrix("1").difference(&matrix("1.0000000001")), None);
        assert_eq!(matrix("NaN").difference(&matrix("NaN")), None);
        assert!(matrix("1").difference(&matrix("1.00001")).is_some());
        assert!(matrix("1").difference(&Matrix::default()).is_some());
    }
}
