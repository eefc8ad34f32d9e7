//! `label_replace` and `label_join`.

use std::rc::Rc;

use silverback_model::Labels;

use super::Evaluator;
use super::calls::text;
use super::labels::{METRIC_NAME, bytes as labels_bytes, set};
use super::series::{Merged, Sink};
use crate::error::QueryError;
use crate::plan::{Calling, Times};
use crate::replace::{Replacement, TEXT_BYTES_MAX, TextLengthError};

impl Evaluator<'_> {
    pub(super) async fn label_replace(
        &self,
        call: &Calling,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let argument = |at: usize| call.arguments.get(at).and_then(text).unwrap_or_default();
        let (target, template, source, expression) = (argument(1), argument(2), argument(3), argument(4));
        let replacement = Replacement::new(expression, template).map_err(|_| {
            QueryError::execution(format!("invalid regular expression in label_replace(): {expression}"))
        })?;
        if target.is_empty() {
            let words = format!("invalid destination label name in label_replace(): {target}");
            return Err(QueryError::execution(words));
        }
        let value = |labels: &Labels| replacement.replaced(labels.get(source).unwrap_or_default());
        self.relabeled(call, times, target, value, sink).await
    }

    pub(super) async fn label_join(
        &self,
        call: &Calling,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let argument = |at: usize| call.arguments.get(at).and_then(text).unwrap_or_default();
        let (target, separator) = (argument(1), argument(2));
        let sources: Vec<_> = (3..call.arguments.len()).map(argument).collect();
        if let Some(bad) = sources.iter().find(|source| source.is_empty()) {
            return Err(QueryError::execution(format!("invalid source label name in label_join(): {bad}")));
        }
        if target.is_empty() {
            return Err(QueryError::execution(format!(
                "invalid destination label name in label_join(): {target}"
            )));
        }
        let value = |labels: &Labels| {
            let values: Vec<_> =
                sources.iter().map(|source| labels.get(source).unwrap_or_default()).collect();
            let bytes = values.iter().map(|value| value.len() + separator.len()).sum::<usize>();
            if bytes > TEXT_BYTES_MAX { Err(TextLengthError) } else { Ok(Some(values.join(separator))) }
        };
        self.relabeled(call, times, target, value, sink).await
    }

    async fn relabeled(
        &self,
        call: &Calling,
        times: Times,
        target: &str,
        value: impl Fn(&Labels) -> Result<Option<String>, TextLengthError>,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let mut collected = self.collect(&call.arguments[0], times).await?;
        let mut merged = Merged::new(self.budget);
        for mut series in std::mem::take(&mut collected.series) {
            collected.release(&series);
            let made = value(&series.labels).map_err(|TextLengthError| {
                QueryError::execution(format!("a label's value would have more than {TEXT_BYTES_MAX} bytes"))
            })?;
            if let Some(value) = made {
                let mut labels = (*series.labels).clone();
                set(&mut labels, target, &value);
                series.labels = Rc::new(labels);
                series.drop_name &= target != METRIC_NAME;
                self.pacing.spent(labels_bytes(&series.labels)).await?;
            }
            merged.push(series)?;
        }
        self.pour(merged.into_series(), sink).await
    }
}
